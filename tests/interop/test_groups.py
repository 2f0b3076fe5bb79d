"""Consumer groups of stock clients on our broker: assignments, callbacks and offsets."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import pytest

from tests.interop.clients import (
    JAVA,
    OURS,
    Client,
    Driver,
    Member,
    Record,
    partitions,
    wait_for_assignment,
    wait_for_records,
    wait_until,
)

Name = Callable[[str], str]
SHORT_SESSION_MS = 3_000


def spread(topic_partitions: int, numbers: Iterable[int]) -> list[Record]:
    """Records for the partitions in turn."""
    return [{"partition": number % topic_partitions, "value": str(number)} for number in numbers]


def offsets(records: Iterable[Record]) -> dict[str, list[int]]:
    """The received offsets by partition, in order."""
    by_partition = defaultdict(list)
    for record in records:
        by_partition[f"{record['topic']}-{record['partition']}"].append(int(record["offset"]))
    return dict(by_partition)


def assert_read_once_in_order(members: Sequence[Member], topic: str, count: int, per_partition: int) -> None:
    """Wait for all records and assert that each was received once and in order."""
    received = offsets(wait_for_records(members, count * per_partition))
    assert received == {partition: list(range(per_partition)) for partition in partitions(topic, count)}


def read_first_records(member: Member, topic: str, count: int) -> None:
    """Let the only member read and commit a record of each partition before the next member joins.

    If librdkafka 2.16 loses a partition while it looks up the first offset, it looks it up again half a second later,
    also when it has the partition again, and reads everything once more.
    """
    member.driver.produce(topic, spread(count, range(count)))
    wait_for_records([member], count)
    member.commit()


def test_eager_group_loses_no_record_when_a_member_leaves(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("eager"), 6)
    all_partitions = partitions(topic, 6)
    group = name("eager-group")
    a = driver.join("a", group, [topic])
    (alone,) = wait_for_assignment([a], all_partitions)
    read_first_records(a, topic, 6)
    b = driver.join("b", group, [topic])
    shares = wait_for_assignment([a, b], all_partitions)
    assert [len(snapshot.assignment) for snapshot in shares] == [3, 3]
    assert shares[0].generation > alone.generation
    # Eager: all partitions are revoked before any are assigned.
    assert shares[0].events == [
        ("assigned", all_partitions),
        ("revoked", all_partitions),
        ("assigned", shares[0].assignment),
    ]

    driver.produce(topic, spread(6, range(6, 60)))
    assert_read_once_in_order([a, b], topic, 6, 10)
    a.commit()
    b.commit()
    last_state = b.snapshot()
    b.close()
    wait_for_assignment([a], all_partitions)
    driver.produce(topic, spread(6, range(60, 90)))
    received = offsets([*wait_for_records([a], 90 - len(last_state.records)), *last_state.records])
    assert {partition: sorted(received_offsets) for partition, received_offsets in received.items()} == {
        partition: list(range(15)) for partition in all_partitions
    }
    a.close()


@pytest.mark.needs_call("cooperative-sticky")
def test_cooperative_rebalance_revokes_only_moved_partitions(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("cooperative"), 6)
    all_partitions = partitions(topic, 6)
    group = name("cooperative-group")
    a = driver.join("a", group, [topic], assignor="cooperative-sticky")
    (alone,) = wait_for_assignment([a], all_partitions)
    driver.produce(topic, spread(6, range(60)))
    assert_read_once_in_order([a], topic, 6, 10)

    b = driver.join("b", group, [topic], assignor="cooperative-sticky")
    shares = wait_for_assignment([a, b], all_partitions)
    retained, moved = (snapshot.assignment for snapshot in shares)
    assert len(retained) == len(moved) == 3
    assert shares[0].events == [("assigned", all_partitions), ("revoked", moved)]
    assert shares[1].events == [("assigned", moved)]
    assert shares[0].generation >= alone.generation + 2  # one generation to revoke, one to assign

    driver.produce(topic, spread(6, range(60, 90)))
    received = offsets(wait_for_records([a], 60 + 15))
    assert received == {partition: list(range(15 if partition in retained else 10)) for partition in all_partitions}
    # Nothing was committed, so the new owner starts at the beginning.
    assert offsets(wait_for_records([b], 45)) == {partition: list(range(15)) for partition in moved}
    a.close()
    b.close()


def test_static_restart_keeps_assignment_and_generation(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("static"), 4)
    all_partitions = partitions(topic, 4)
    group = name("static-group")
    first = driver.join("first", group, [topic], instance="first")
    wait_for_assignment([first], all_partitions)
    read_first_records(first, topic, 4)
    second = driver.join("second", group, [topic], instance="second")
    before = wait_for_assignment([first, second], all_partitions)
    driver.produce(topic, spread(4, range(4, 20)))
    assert_read_once_in_order([first, second], topic, 4, 5)
    first.commit()
    second.commit()

    first.close()  # the leader
    first_again = driver.join("first-again", group, [topic], instance="first")
    after = wait_for_assignment([first_again, second], all_partitions)
    second.close()  # a follower
    second_again = driver.join("second-again", group, [topic], instance="second")
    final = wait_for_assignment([first_again, second_again], all_partitions)

    assert [snapshot.assignment for snapshot in after] == [snapshot.assignment for snapshot in before]
    assert [snapshot.assignment for snapshot in final] == [snapshot.assignment for snapshot in before]
    assert {snapshot.generation for snapshot in (*before, *after, *final)} == {before[0].generation}
    assert after[1].events == before[1].events  # the other member sees no callback
    assert final[0].events == after[0].events
    driver.produce(topic, spread(4, range(20, 28)))
    received = offsets(wait_for_records([first_again, second_again], 8))
    assert received == {partition: [5, 6] for partition in all_partitions}
    first_again.close()
    second_again.close()


def test_pattern_subscription_includes_new_topics(driver: Driver, name: Name) -> None:
    first = driver.create_topic(name("regex-in-1"), 2)
    driver.create_topic(name("regex-out"), 2)
    a = driver.join("a", name("regex-group"), pattern=f"^regex-in-.*-{first.rpartition('-')[2]}$")
    wait_for_assignment([a], partitions(first, 2))
    driver.produce(first, spread(2, range(4)))
    assert_read_once_in_order([a], first, 2, 2)
    a.commit()

    second = driver.create_topic(name("regex-in-2"), 3)
    wait_for_assignment([a], partitions(first, 2) | partitions(second, 3))
    driver.produce(second, spread(3, range(6)))
    received = offsets(wait_for_records([a], 10))
    assert received == {
        **{partition: [0, 1] for partition in partitions(first, 2)},
        **{partition: [0, 1] for partition in partitions(second, 3)},
    }
    a.close()


def test_member_resumes_from_commit_and_from_seek(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("commit"), 2)
    partition_0, partition_1 = f"{topic}-0", f"{topic}-1"
    group = name("commit-group")
    driver.produce(topic, spread(2, range(20)))
    a = driver.join("a", group, [topic])
    wait_for_assignment([a], {partition_0, partition_1})
    assert_read_once_in_order([a], topic, 2, 10)
    assert a.committed(partition_0) is None
    a.commit({partition_0: (5, "five"), partition_1: (7, "seven")})
    assert a.committed(partition_0) == (5, "five")
    assert a.committed(partition_1) == (7, "seven")
    a.close()

    b = driver.join("b", group, [topic])
    wait_for_assignment([b], {partition_0, partition_1})
    assert offsets(wait_for_records([b], 8)) == {partition_0: [5, 6, 7, 8, 9], partition_1: [7, 8, 9]}
    b.seek(partition_0, 2)
    assert offsets(wait_for_records([b], 16)) == {
        partition_0: [5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9],
        partition_1: [7, 8, 9],
    }
    b.commit()
    assert [offset for offset, _ in map(_present, map(b.committed, (partition_0, partition_1)))] == [10, 10]
    assert driver.call("group_offsets", group=group) == {partition_0: 10, partition_1: 10}
    b.close()


def _present(committed: tuple[int, str] | None) -> tuple[int, str]:
    assert committed is not None
    return committed


def test_killed_members_partitions_resume_at_last_commit(driver: Driver, second_driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("killed"), 4)
    all_partitions = partitions(topic, 4)
    group = name("killed-group")
    survivor = driver.join("survivor", group, [topic])
    killed = second_driver.join("killed", group, [topic], session_ms=SHORT_SESSION_MS)
    before = wait_for_assignment([survivor, killed], all_partitions)
    driver.produce(topic, spread(4, range(20)))
    assert_read_once_in_order([survivor, killed], topic, 4, 5)
    survivor.commit()
    killed.commit()
    driver.produce(topic, spread(4, range(20, 32)))
    assert_read_once_in_order([survivor, killed], topic, 4, 8)
    survivor.commit()
    inherited = killed.snapshot().assignment

    second_driver.kill()
    wait_for_assignment([survivor], all_partitions)
    # Some clients report the new generation late.
    wait_until(lambda: survivor.snapshot().generation > before[0].generation, survivor.snapshot)
    # The survivor reads its own partitions once, and the killed member's partitions again from the last commit on.
    received = offsets(wait_for_records([survivor], 2 * 8 + 2 * 3))
    assert received == {
        partition: [5, 6, 7] if partition in inherited else list(range(8)) for partition in all_partitions
    }
    wait_until(
        lambda: driver.call("group", group=group)["members"] == {"survivor": sorted(all_partitions)},
        lambda: driver.call("group", group=group),
    )
    survivor.close()


@pytest.mark.java
def test_rebalance_counters_equal_java(running: Callable[[Client], Driver], name: Name) -> None:
    """Both count MEMBER_ID_REQUIRED as a failed rebalance (KIP-394)."""
    topic = running(JAVA).create_topic(name("counted"), 2)
    counters = []
    for client in (JAVA, OURS):
        member = running(client).join("a", name(f"counted-{client}"), [topic])
        wait_for_assignment([member], partitions(topic, 2))
        metrics = member.metrics()
        counters.append({key: metrics[key] for key in ("rebalance-total", "failed-rebalance-total", "join-total")})
        member.close()
    assert counters[0] == counters[1]
    assert counters[0]["failed-rebalance-total"] == 1
