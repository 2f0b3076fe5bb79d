"""Random tests of `make test` with more seeds, more kills, more actions and more damaged requests."""

from pathlib import Path

import pytest

from tests.broker.kill_runs import SETTINGS, kill_repeatedly
from tests.broker.mutant_runs import send_mutated_frames
from tests.sequence.run import replay_command, run_sequence


@pytest.mark.parametrize("seed", [1, 2])
def test_acknowledged_data_survives_ten_kills(tmp_path: Path, seed: int) -> None:
    kill_repeatedly(tmp_path, seed, 10, SETTINGS)


def test_hundred_thousand_mutated_frames(tmp_path: Path) -> None:
    send_mutated_frames(tmp_path, 100_000)


def test_hundred_random_actions_keep_guarantees() -> None:
    seed, actions = 2, 100
    print(f"seed {seed}; replay: {replay_command(seed, actions)}")
    print(run_sequence(seed, actions, log=print))
