"""Thousands of random schedules of queries that share a group: nothing is lost, and twice only what the rules allow."""

import os
from collections import Counter

import pytest

from slackwater.group.batches.config import Handover
from tests.spark.broken_batches import BROKEN
from tests.spark.schedules import play, report

RUNS = int(os.environ.get("SLACKWATER_SPARK_SCHEDULES", "700"))
SHARE = 50
ENOUGH = 400


@pytest.mark.parametrize("first", range(0, RUNS, SHARE))
@pytest.mark.parametrize("handover", Handover)
def test_nothing_is_lost_and_nothing_repeated_without_an_excuse(handover: Handover, first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, min(first + SHARE, RUNS)):
        world, failed = play(seed, handover)
        assert failed is None, report(world, failed)
        counts += world.oracle.counts

    assert counts["records"] > 10 * SHARE
    assert counts["STARTED"] > SHARE


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_machine_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handover, break_it = BROKEN[name]
    break_it(monkeypatch)

    assert any(play(seed, handover)[1] is not None for seed in range(ENOUGH)), f"{name} was not noticed"


def test_a_failure_ends_with_the_one_command_that_replays_it() -> None:
    world, failed = play(3, Handover.RELEASE)

    assert failed is None
    assert report(world, "a promise").splitlines()[-1] == "replay: .venv/bin/python -m tests.spark.schedules release 3"
