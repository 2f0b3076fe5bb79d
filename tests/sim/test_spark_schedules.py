"""Random schedules of queries that share a group lose no record and repeat only what the rules allow."""

import os
from collections import Counter
from itertools import chain
from typing import Final

import pytest

from slackwater.group.batches.config import Handover
from tests.spark.broken_batches import BROKEN
from tests.spark.schedules import report, run_schedule

RUNS = int(os.environ.get("SLACKWATER_SPARK_SCHEDULES", "350"))
RUNS_PER_TEST = 50
MAX_SEEDS = 400
KNOWN_SEEDS: Final = {"starts_without_a_claim": 135, "trusts_the_group_more_than_its_checkpoint": 166}
"""The first seed that detects a fault, if a search takes long. All others are tried if it no longer does."""


@pytest.mark.parametrize("first", range(0, RUNS, RUNS_PER_TEST))
@pytest.mark.parametrize("handover", Handover)
def test_schedules_lose_and_repeat_no_record(handover: Handover, first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, min(first + RUNS_PER_TEST, RUNS)):
        schedule_run, error = run_schedule(seed, handover)
        assert error is None, report(schedule_run, error)
        counts += schedule_run.checker.counts

    assert counts["records"] > 10 * RUNS_PER_TEST
    assert counts["STARTED"] > RUNS_PER_TEST


@pytest.mark.parametrize("name", BROKEN)
def test_broken_machine_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handover, break_it = BROKEN[name]
    break_it(monkeypatch)

    seeds = chain([KNOWN_SEEDS.get(name, 0)], range(MAX_SEEDS))
    assert any(run_schedule(seed, handover)[1] is not None for seed in seeds), f"{name} was not detected"


def test_failure_report_ends_with_replay_command() -> None:
    schedule_run, error = run_schedule(3, Handover.RELEASE)

    assert error is None
    assert (
        report(schedule_run, "a violation").splitlines()[-1]
        == "replay: .venv/bin/python -m tests.spark.schedules release 3"
    )
