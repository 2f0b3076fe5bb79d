"""The checks of the system tests detect what they are there for."""

from collections.abc import Iterable
from itertools import count

import pytest

from tests.system.history import ConsumerHistory, GroupHistory

TIMES = count(1)


def assigned(*partitions: int) -> dict[str, object]:
    return _rebalanced("partitions_assigned", partitions)


def revoked(*partitions: int) -> dict[str, object]:
    return _rebalanced("partitions_revoked", partitions)


def _rebalanced(name: str, partitions: Iterable[int]) -> dict[str, object]:
    return {"name": name, "timestamp": next(TIMES), "partitions": [{"topic": "t", "partition": p} for p in partitions]}


def read(first: int, last: int, partition: int = 0, **fields: int) -> dict[str, object]:
    summary = {"partition": partition, "count": last - first + 1, "minOffset": first, "maxOffset": last, **fields}
    return {"name": "records_consumed", "timestamp": next(TIMES), "partitions": [summary]}


def committed(offset: int, partition: int = 0, success: bool = True) -> dict[str, object]:
    offsets = [{"partition": partition, "offset": offset}]
    line = {"name": "offsets_committed", "timestamp": next(TIMES), "offsets": offsets, "success": success}
    return line | ({} if success else {"error": "rebalancing"})


def consumer(*lines: dict[str, object], name: str = "a") -> ConsumerHistory:
    history = ConsumerHistory(name)
    for line in lines:
        history.add(line)
    return history


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([assigned(0), assigned(0)], "assigned partition 0 twice"),
        ([assigned(1), read(0, 4)], "read partition 0, which it does not own"),
        ([assigned(0), read(0, 4), read(6, 9)], "from 6 on; its position was 5"),
        ([assigned(0), read(0, 4), read(3, 9)], "from 3 on; its position was 5"),
        ([assigned(0), read(0, 4, count=4)], "skipped records"),
        ([assigned(0), read(0, 4), committed(6)], "beyond 5"),
        ([assigned(0), read(0, 4), revoked(0), committed(5)], "committed partition 0, which it does not own"),
    ],
)
def test_broken_consumer_is_detected(lines: list[dict[str, object]], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        consumer(*lines)


def test_history_follows_a_consumer() -> None:
    history = consumer(assigned(0, 1), read(0, 4), committed(5), committed(5, success=False), revoked(1))
    assert history.assignment == {0}
    assert history.rebalances == (1, 1)
    assert history.failed_commits == ["rebalancing"]
    history.end(1_000)
    assert not history.assignment


def test_duplicates_are_counted() -> None:
    first = consumer(assigned(0), read(0, 9))
    group = GroupHistory([first, consumer(assigned(0), read(5, 14))])
    group.check_nothing_lost()
    assert group.positions() == {0: 15}
    assert (group.read_count(), group.duplicate_count()) == (20, 5)


def test_lost_records_are_detected() -> None:
    group = GroupHistory([consumer(assigned(0), read(0, 9)), consumer(assigned(0), read(12, 14))])
    with pytest.raises(AssertionError, match="no one read the records 10 to 11"):
        group.check_nothing_lost()


def test_start_before_a_commit_is_detected() -> None:
    group = GroupHistory(
        [consumer(assigned(0), read(0, 9), committed(10), revoked(0)), consumer(assigned(0), read(9, 12))]
    )
    with pytest.raises(AssertionError, match="started at 9, 10 was committed"):
        group.check_starts()


def test_two_owners_are_detected() -> None:
    first = consumer(assigned(0) | {"timestamp": 10}, revoked(0) | {"timestamp": 20})
    after, early = (consumer(assigned(0) | {"timestamp": at_ms}, name="b") for at_ms in (20, 19))
    GroupHistory([first, after]).check_one_owner()
    with pytest.raises(AssertionError, match="two owners of partition 0"):
        GroupHistory([first, early]).check_one_owner()
