"""Consumer groups of stock clients on our broker: assignments, callbacks and offsets."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import pytest

from tests.interop.clients import Driver, Member, Record, partitions, wait_for_assignment, wait_for_records, wait_until

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


def assert_read_once_in_order(members: Sequence[Member], topic: str, count: int, each: int) -> None:
    """Wait for all records; each was received once and in order."""
    received = offsets(wait_for_records(members, count * each))
    assert received == {partition: list(range(each)) for partition in partitions(topic, count)}


def test_eager_group_loses_no_record_when_a_member_leaves(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("eager"), 6)
    all_partitions = partitions(topic, 6)
    group = name("eager-group")
    a = driver.join("a", group, [topic])
    (alone,) = wait_for_assignment([a], all_partitions)
    b = driver.join("b", group, [topic])
    shares = wait_for_assignment([a, b], all_partitions)
    assert [len(snapshot.assignment) for snapshot in shares] == [3, 3]
    assert shares[0].generation > alone.generation
    # Eager: all_partitions is given back before anything is handed out.
    assert shares[0].events == [
        ("assigned", all_partitions),
        ("revoked", all_partitions),
        ("assigned", shares[0].assignment),
    ]

    driver.produce(topic, spread(6, range(60)))
    assert_read_once_in_order([a, b], topic, 6, 10)
    a.commit()
    b.commit()
    left = b.snapshot()
    b.close()
    wait_for_assignment([a], all_partitions)
    driver.produce(topic, spread(6, range(60, 90)))
    received = offsets([*wait_for_records([a], 90 - len(left.records)), *left.records])
    assert {partition: sorted(seen) for partition, seen in received.items()} == {
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
    kept, moved = (snapshot.assignment for snapshot in shares)
    assert len(kept) == len(moved) == 3
    assert shares[0].events == [("assigned", all_partitions), ("revoked", moved)]
    assert shares[1].events == [("assigned", moved)]
    assert shares[0].generation >= alone.generation + 2  # one generation to revoke, one to assign

    driver.produce(topic, spread(6, range(60, 90)))
    received = offsets(wait_for_records([a], 60 + 15))
    assert received == {partition: list(range(15 if partition in kept else 10)) for partition in all_partitions}
    assert offsets(wait_for_records([b], 45)) == {
        partition: list(range(15)) for partition in moved
    }  # nothing was committed
    a.close()
    b.close()


def test_static_restart_keeps_assignment_and_generation(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("static"), 4)
    all_partitions = partitions(topic, 4)
    group = name("static-group")
    one = driver.join("one", group, [topic], instance="one")
    wait_for_assignment([one], all_partitions)
    two = driver.join("two", group, [topic], instance="two")
    before = wait_for_assignment([one, two], all_partitions)
    driver.produce(topic, spread(4, range(20)))
    assert_read_once_in_order([one, two], topic, 4, 5)
    one.commit()
    two.commit()

    one.close()  # the leader
    one_again = driver.join("one-again", group, [topic], instance="one")
    after = wait_for_assignment([one_again, two], all_partitions)
    two.close()  # a follower
    two_again = driver.join("two-again", group, [topic], instance="two")
    final = wait_for_assignment([one_again, two_again], all_partitions)

    assert [snapshot.assignment for snapshot in after] == [snapshot.assignment for snapshot in before]
    assert [snapshot.assignment for snapshot in final] == [snapshot.assignment for snapshot in before]
    assert {snapshot.generation for snapshot in (*before, *after, *final)} == {before[0].generation}
    assert after[1].events == before[1].events  # the other member sees no callback
    assert final[0].events == after[0].events
    driver.produce(topic, spread(4, range(20, 28)))
    received = offsets(wait_for_records([one_again, two_again], 8))
    assert received == {partition: [5, 6] for partition in all_partitions}
    one_again.close()
    two_again.close()


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
    zero, one = f"{topic}-0", f"{topic}-1"
    group = name("commit-group")
    driver.produce(topic, spread(2, range(20)))
    a = driver.join("a", group, [topic])
    wait_for_assignment([a], {zero, one})
    assert_read_once_in_order([a], topic, 2, 10)
    assert a.committed(zero) is None
    a.commit({zero: (5, "five"), one: (7, "seven")})
    assert a.committed(zero) == (5, "five")
    assert a.committed(one) == (7, "seven")
    a.close()

    b = driver.join("b", group, [topic])
    wait_for_assignment([b], {zero, one})
    assert offsets(wait_for_records([b], 8)) == {zero: [5, 6, 7, 8, 9], one: [7, 8, 9]}
    b.seek(zero, 2)
    assert offsets(wait_for_records([b], 16)) == {zero: [5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9], one: [7, 8, 9]}
    b.commit()
    assert [offset for offset, _ in map(_found, map(b.committed, (zero, one)))] == [10, 10]
    assert driver.call("group_offsets", group=group) == {zero: 10, one: 10}
    b.close()


def _found(committed: tuple[int, str] | None) -> tuple[int, str]:
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
    wait_until(
        lambda: survivor.snapshot().generation > before[0].generation, survivor.snapshot
    )  # some clients tell it later
    # Once by whoever had it; and again, from the last commit on, what the killed member had read but not committed.
    received = offsets(wait_for_records([survivor], 2 * 8 + 2 * 3))
    assert received == {
        partition: [5, 6, 7] if partition in inherited else list(range(8)) for partition in all_partitions
    }
    wait_until(
        lambda: driver.call("group", group=group)["members"] == {"survivor": sorted(all_partitions)},
        lambda: driver.call("group", group=group),
    )
    survivor.close()
