"""Random fault runs pass all checks; a failure reports how to replay it. `make interop` runs three times as many."""

import os

import pytest

from slackwater.sim.soak import Failure, replay_command, run_seeds

RUNS = int(os.environ.get("SLACKWATER_SIM_RUNS", "800"))
RUNS_PER_TEST = 100


@pytest.mark.parametrize("first", range(0, RUNS, RUNS_PER_TEST))
def test_random_faults_violate_no_check(first: int) -> None:
    report = run_seeds(range(first, min(first + RUNS_PER_TEST, RUNS)))

    assert not report.failures, report.failures[0].report()


def test_failure_report_ends_with_replay_command() -> None:
    failure = Failure(7, "OneOwnerPerGeneration at 3 ms: two owners", ["       1 ms  p0 starts"])

    assert failure.report().splitlines() == [
        "seed 7: OneOwnerPerGeneration at 3 ms: two owners",
        "       1 ms  p0 starts",
        f"replay: {replay_command(7)}",
    ]
