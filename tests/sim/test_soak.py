"""A few thousand random fault runs: nothing may break, and a failure says how to play it again."""

import os

import pytest

from slackwater.sim.soak import Failure, replay_command, run_seeds

RUNS = int(os.environ.get("SLACKWATER_SIM_RUNS", "2400"))
SHARE = 100


@pytest.mark.parametrize("first", range(0, RUNS, SHARE))
def test_random_faults_break_no_promise(first: int) -> None:
    account = run_seeds(range(first, min(first + SHARE, RUNS)))

    assert not account.failures, account.failures[0].report()


def test_a_failure_ends_with_the_one_command_that_replays_it() -> None:
    failure = Failure(7, "OneOwnerPerGeneration at 3 ms: two owners", ["       1 ms  p0 starts"])

    assert failure.report().splitlines() == [
        "seed 7: OneOwnerPerGeneration at 3 ms: two owners",
        "       1 ms  p0 starts",
        f"replay: {replay_command(7)}",
    ]
