"""Simulated transactions: random faults, a crash before every step, and Jepsen's anomalies in broken machines."""

from collections.abc import Iterable

import pytest

from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.transactions.checkers import Anomaly
from slackwater.sim.transactions.partition import Marker, SimPartition, SimRecord
from slackwater.sim.transactions.simulation import Plan, Run, random_plan, run

from .broken_transactions import BROKEN
from .test_soak import RUNS

SEEDS = RUNS // 20


def _run_all(seeds: Iterable[int]) -> list[Run]:
    return [run(random_plan(seed)) for seed in seeds]


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_random_faults_cause_no_anomaly(first: int) -> None:
    runs = _run_all(range(first, min(first + 20, SEEDS)))

    assert sum(each.committed for each in runs) > 100
    assert sum(each.crashes for each in runs) > 20


@pytest.mark.proves("TX-53")
@pytest.mark.parametrize("is_v2", [True, False])
def test_crash_before_every_step_causes_no_anomaly(is_v2: bool) -> None:
    steps = run(Plan(5, producers=2, length_ms=200, is_v2=is_v2)).steps
    assert steps > 60

    for step in range(1, steps + 1):
        done = run(Plan(5, producers=2, length_ms=200, is_v2=is_v2, crash_at=frozenset({step})))
        assert done.crashes == 1


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_machine_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BROKEN[name]
    broken.apply(monkeypatch)

    with pytest.raises((Anomaly, AssertionError), match=broken.anomaly):
        _run_all(range(SEEDS))


def test_run_depends_only_on_its_plan() -> None:
    assert [run(random_plan(seed)) for seed in (3, 14)] == [run(random_plan(seed)) for seed in (3, 14)]


def test_partition_reads_committed_records() -> None:
    partition = SimPartition()
    at = TopicPartition("t", 0)
    assert str(at) == "t-0"
    for producer_id, value in ((1, "a"), (2, "b"), (1, "c"), (3, "d")):
        assert partition.append(SimRecord(producer_id, 0, value), partition.guard(producer_id)) is Error.NONE
    assert partition.committed() == []
    partition.end(Marker(1, 0, is_commit=True))
    partition.end(Marker(2, 0, is_commit=False))

    assert partition.committed() == ["a", "c"]
    assert partition.has_open_transaction
    assert partition.append(SimRecord(1, 0, "late"), 0) is Error.INVALID_TXN_STATE
    assert partition.end(Marker(1, 1, is_commit=False)) is Error.NONE
    assert partition.append(SimRecord(1, 0, "old"), partition.guard(1)) is Error.INVALID_PRODUCER_EPOCH
    assert partition.end(Marker(1, 0, is_commit=True)) is Error.INVALID_PRODUCER_EPOCH
