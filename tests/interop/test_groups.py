"""Consumer groups of stock clients on our broker: who gets which partitions, when, and from which offset."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import pytest

from tests.interop.clients import Driver, Member, Record, consumed, partitions, settled, wait_until

Name = Callable[[str], str]
SHORT_SESSION_MS = 3_000


def spread(topic_partitions: int, numbers: Iterable[int]) -> list[Record]:
    """Records dealt to partitions in turn."""
    return [{"partition": number % topic_partitions, "value": str(number)} for number in numbers]


def offsets(records: Iterable[Record]) -> dict[str, list[int]]:
    """The offsets handed out, by partition, in the order in which they came."""
    found = defaultdict(list)
    for record in records:
        found[f"{record['topic']}-{record['partition']}"].append(int(record["offset"]))
    return dict(found)


def once_and_in_order(members: Sequence[Member], topic: str, count: int, each: int) -> None:
    """Wait until members have, together, been handed every record; then each was so once, and in order."""
    came = offsets(consumed(members, count * each))
    assert came == {partition: list(range(each)) for partition in partitions(topic, count)}


def test_an_eager_group_shares_its_partitions_and_loses_no_record_when_a_member_leaves(
    driver: Driver, name: Name
) -> None:
    topic = driver.create_topic(name("eager"), 6)
    everything = partitions(topic, 6)
    group = name("eager-group")
    a = driver.join("a", group, [topic])
    (alone,) = settled([a], everything)
    b = driver.join("b", group, [topic])
    shares = settled([a, b], everything)
    assert [len(look.assignment) for look in shares] == [3, 3]
    assert shares[0].generation > alone.generation
    # Eager: everything is given back before anything is handed out.
    assert shares[0].events == [("assigned", everything), ("revoked", everything), ("assigned", shares[0].assignment)]

    driver.produce(topic, spread(6, range(60)))
    once_and_in_order([a, b], topic, 6, 10)
    a.commit()
    b.commit()
    left = b.look()
    b.close()
    settled([a], everything)
    driver.produce(topic, spread(6, range(60, 90)))
    came = offsets([*consumed([a], 90 - len(left.records)), *left.records])
    assert {partition: sorted(seen) for partition, seen in came.items()} == {
        partition: list(range(15)) for partition in everything
    }
    a.close()


@pytest.mark.needs_call("cooperative-sticky")
def test_cooperative_rebalance_revokes_only_moved_partitions(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("cooperative"), 6)
    everything = partitions(topic, 6)
    group = name("cooperative-group")
    a = driver.join("a", group, [topic], assignor="cooperative-sticky")
    (alone,) = settled([a], everything)
    driver.produce(topic, spread(6, range(60)))
    once_and_in_order([a], topic, 6, 10)

    b = driver.join("b", group, [topic], assignor="cooperative-sticky")
    shares = settled([a, b], everything)
    kept, moved = (look.assignment for look in shares)
    assert len(kept) == len(moved) == 3
    assert shares[0].events == [("assigned", everything), ("revoked", moved)]
    assert shares[1].events == [("assigned", moved)]
    assert shares[0].generation >= alone.generation + 2  # once to give up, once to hand out

    driver.produce(topic, spread(6, range(60, 90)))
    came = offsets(consumed([a], 60 + 15))
    assert came == {partition: list(range(15 if partition in kept else 10)) for partition in everything}
    assert offsets(consumed([b], 45)) == {partition: list(range(15)) for partition in moved}  # nothing was committed
    a.close()
    b.close()


def test_a_static_member_that_restarts_gets_its_partitions_back_in_the_same_generation(
    driver: Driver, name: Name
) -> None:
    topic = driver.create_topic(name("static"), 4)
    everything = partitions(topic, 4)
    group = name("static-group")
    one = driver.join("one", group, [topic], instance="one")
    settled([one], everything)
    two = driver.join("two", group, [topic], instance="two")
    before = settled([one, two], everything)
    driver.produce(topic, spread(4, range(20)))
    once_and_in_order([one, two], topic, 4, 5)
    one.commit()
    two.commit()

    one.close()  # the leader
    one_again = driver.join("one-again", group, [topic], instance="one")
    after = settled([one_again, two], everything)
    two.close()  # a follower
    two_again = driver.join("two-again", group, [topic], instance="two")
    at_last = settled([one_again, two_again], everything)

    assert [look.assignment for look in after] == [look.assignment for look in before]
    assert [look.assignment for look in at_last] == [look.assignment for look in before]
    assert {look.generation for look in (*before, *after, *at_last)} == {before[0].generation}
    assert after[1].events == before[1].events  # the other one did not notice
    assert at_last[0].events == after[0].events
    driver.produce(topic, spread(4, range(20, 28)))
    came = offsets(consumed([one_again, two_again], 8))
    assert came == {partition: [5, 6] for partition in everything}
    one_again.close()
    two_again.close()


def test_a_member_that_subscribes_by_pattern_gets_topics_that_appear_later(driver: Driver, name: Name) -> None:
    first = driver.create_topic(name("regex-in-1"), 2)
    driver.create_topic(name("regex-out"), 2)
    a = driver.join("a", name("regex-group"), pattern=f"^regex-in-.*-{first.rpartition('-')[2]}$")
    settled([a], partitions(first, 2))
    driver.produce(first, spread(2, range(4)))
    once_and_in_order([a], first, 2, 2)
    a.commit()

    second = driver.create_topic(name("regex-in-2"), 3)
    settled([a], partitions(first, 2) | partitions(second, 3))
    driver.produce(second, spread(3, range(6)))
    came = offsets(consumed([a], 10))
    assert came == {
        **{partition: [0, 1] for partition in partitions(first, 2)},
        **{partition: [0, 1] for partition in partitions(second, 3)},
    }
    a.close()


def test_a_member_goes_on_from_what_was_committed_and_from_where_it_seeks(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("commit"), 2)
    zero, one = f"{topic}-0", f"{topic}-1"
    group = name("commit-group")
    driver.produce(topic, spread(2, range(20)))
    a = driver.join("a", group, [topic])
    settled([a], {zero, one})
    once_and_in_order([a], topic, 2, 10)
    assert a.committed(zero) is None
    a.commit({zero: (5, "five"), one: (7, "seven")})
    assert a.committed(zero) == (5, "five")
    assert a.committed(one) == (7, "seven")
    a.close()

    b = driver.join("b", group, [topic])
    settled([b], {zero, one})
    assert offsets(consumed([b], 8)) == {zero: [5, 6, 7, 8, 9], one: [7, 8, 9]}
    b.seek(zero, 2)
    assert offsets(consumed([b], 16)) == {zero: [5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9], one: [7, 8, 9]}
    b.commit()
    assert [offset for offset, _ in map(_found, map(b.committed, (zero, one)))] == [10, 10]
    assert driver.ask("group_offsets", group=group) == {zero: 10, one: 10}
    b.close()


def _found(committed: tuple[int, str] | None) -> tuple[int, str]:
    assert committed is not None
    return committed


def test_when_one_of_two_members_is_killed_the_other_gets_its_partitions_from_the_last_commit(
    driver: Driver, victim: Driver, name: Name
) -> None:
    topic = driver.create_topic(name("killed"), 4)
    everything = partitions(topic, 4)
    group = name("killed-group")
    survivor = driver.join("survivor", group, [topic])
    killed = victim.join("killed", group, [topic], session_ms=SHORT_SESSION_MS)
    before = settled([survivor, killed], everything)
    driver.produce(topic, spread(4, range(20)))
    once_and_in_order([survivor, killed], topic, 4, 5)
    survivor.commit()
    killed.commit()
    driver.produce(topic, spread(4, range(20, 32)))
    once_and_in_order([survivor, killed], topic, 4, 8)
    survivor.commit()
    inherited = killed.look().assignment

    victim.kill()
    settled([survivor], everything)
    wait_until(lambda: survivor.look().generation > before[0].generation, survivor.look)  # some clients tell it later
    # Once by whoever had it; and again, from the last commit on, what the killed member had read but not committed.
    came = offsets(consumed([survivor], 2 * 8 + 2 * 3))
    assert came == {partition: [5, 6, 7] if partition in inherited else list(range(8)) for partition in everything}
    wait_until(
        lambda: driver.ask("group", group=group)["members"] == {"survivor": sorted(everything)},
        lambda: driver.ask("group", group=group),
    )
    survivor.close()
