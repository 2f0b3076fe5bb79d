"""`slackwater soak` as a person uses it."""

import json
import subprocess
import sys

import pytest

from slackwater.cli.app import app
from slackwater.sim import soak
from slackwater.sim.simulation import Simulation
from slackwater.sim.soak import Failure

from ..sim.broken_machines import BROKEN


def _slackwater(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from slackwater.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_soak_without_failures_exits_0() -> None:
    done = _slackwater("soak", "--runs", "3")

    assert done.returncode == 0
    assert done.stdout.startswith("3 runs, 0 failed: ")


def test_soak_report_as_json() -> None:
    account = json.loads(_slackwater("soak", "--runs", "2", "--seed", "5", "--json").stdout)

    assert account["runs"] == 2
    assert account["failures"] == []


def test_replay_prints_the_events_of_a_seed() -> None:
    done = _slackwater("soak", "--replay", "3")

    assert done.returncode == 0
    assert "rebalance_completed" in done.stdout
    assert done.stdout.endswith("seed 3: all checks passed\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--runs", "0"), "slackwater: --runs is 0; use 1 or more.\n"),
        (("--keep-going", "0"), "slackwater: --keep-going is 0; use 1 or more.\n"),
    ],
)
def test_invalid_number_is_exit_code_2(words: tuple[str, ...], sentence: str) -> None:
    done = _slackwater("soak", *words)

    assert (done.returncode, done.stderr, done.stdout) == (2, sentence, "")


def test_ctrl_c_prints_the_report_and_exits_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = soak.run_seed

    def play(seed: int) -> tuple[Simulation, Failure | None]:
        if seed == 2:
            raise KeyboardInterrupt
        return whole(seed)

    monkeypatch.setattr(soak, "run_seed", play)
    with pytest.raises(SystemExit) as ended:
        app(["soak", "--runs", "50"])

    assert ended.value.code == 130
    assert capsys.readouterr().out.startswith("2 runs, 0 failed: ")


def test_version_option() -> None:
    assert _slackwater("--version").stdout.startswith("slackwater 0.")


def test_failed_check_is_reported_with_its_replay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    BROKEN["generation_is_not_counted_up"](monkeypatch)
    with pytest.raises(SystemExit) as ended:
        app(["soak", "--runs", "50"])

    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("seed ")
    assert any(line.startswith("replay: .venv/bin/slackwater soak --replay ") for line in lines)
    with pytest.raises(SystemExit) as replayed:
        app(["soak", "--replay", lines[0].split()[1].rstrip(":")])
    assert replayed.value.code == 1
