"""Section 10 of the catalogue: range, round robin, sticky, cooperative-sticky.

Member names are those of Kafka's tests ("consumer1") where the iteration order of the Java client matters.
"""

from dataclasses import replace
from random import Random

import pytest

from slackwater.group.assignors import MemberSubscription, TopicInfo, assignor
from slackwater.group.assignors.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.topic_partition import TopicPartition
from tests.group.assignors.groups import (
    Pairs,
    PaperGroup,
    Who,
    check_balanced,
    check_valid,
    everything,
    owning,
    pairs,
    score,
    swaps,
    who,
)

ALL = ("range", "roundrobin", "sticky", "cooperative-sticky")
STICKY = ("sticky", "cooperative-sticky")


def numbers(topic: str, *partitions: int) -> set[tuple[str, int]]:
    return {(topic, partition) for partition in partitions}


def moved(before: Pairs, after: Pairs) -> set[tuple[str, int]]:
    """What somebody who is still there had and somebody else has."""
    stayed = {one for member_id in before for one in before[member_id] & after.get(member_id, set())}
    return {one for member_id, held in before.items() if member_id in after for one in held} - stayed


# --- all assignors


@pytest.mark.proves("AS-01")
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_sort_before_dynamic_members(name: str) -> None:
    group = PaperGroup(
        name,
        {"t": 4},
        {
            "a": who("t"),
            "b": who("t"),
            "y": who("t", group_instance_id="i2"),
            "z": who("t", group_instance_id="i1"),
        },
    )
    served = sorted(group.given().items(), key=lambda given: min(given[1]))
    assert [member_id for member_id, _ in served] == ["z", "y", "a", "b"]


@pytest.mark.proves("AS-02")
@pytest.mark.parametrize("name", ALL)
def test_members_get_only_known_subscribed_topics(name: str) -> None:
    group = PaperGroup(
        name, {"t1": 2, "t2": 1, "empty": 0}, {"c1": who("t1", "unknown"), "c2": who("t2", "empty"), "c3": who("gone")}
    )
    assert group.given() == {"c1": numbers("t1", 0, 1), "c2": numbers("t2", 0), "c3": set()}


@pytest.mark.proves("AS-02")
@pytest.mark.parametrize("name", ALL)
def test_no_topics_or_no_members_gives_empty_assignment(name: str) -> None:
    assert PaperGroup(name, {}, {"c1": who("t"), "c2": who()}).given() == {"c1": set(), "c2": set()}
    assert PaperGroup(name, {"t": 3}).given() == {}


# --- range


@pytest.mark.proves("RA-01")
def test_range_assigns_contiguous_ranges_remainder_first() -> None:
    group = PaperGroup("range", {"t1": 3, "t2": 3}, {"c1": who("t1", "t2"), "c2": who("t1", "t2")})
    assert group.given() == {
        "c1": numbers("t1", 0, 1) | numbers("t2", 0, 1),
        "c2": numbers("t1", 2) | numbers("t2", 2),
    }


@pytest.mark.proves("RA-02")
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_keep_partitions_after_id_change(name: str) -> None:
    before = PaperGroup(
        name,
        {"t1": 3, "t2": 3},
        {
            "m1": who("t1", "t2", group_instance_id="i1"),
            "m2": who("t1", "t2", group_instance_id="i2"),
            "m3": who("t1", "t2", group_instance_id="i3"),
        },
    )
    after = replace(
        before, members={"m3": before.members["m1"], "m1": before.members["m2"], "m2": before.members["m3"]}
    )
    assert after.given()["m3"] == before.given()["m1"]
    assert after.given()["m1"] == before.given()["m2"]
    assert after.given()["m2"] == before.given()["m3"]


def racks(*of_partition: str) -> TopicInfo:
    """A topic whose i-th partition has replicas in the racks named by the letters of the i-th word."""
    return TopicInfo(len(of_partition), tuple(frozenset(letters) for letters in of_partition))


@pytest.mark.proves("RA-03")
@pytest.mark.parametrize(
    ("topic", "member_racks"),
    [
        (racks("ab", "ab", "ab"), ("b", "a")),  # every partition in every rack
        (racks("a", "b", "a"), ("x", "y")),  # racks that do not overlap
        (racks("a", "b", "a"), (None, None)),  # members without racks
        (racks("a", "b", "a"), ("", "")),  # an empty rack is none
        (TopicInfo(3), ("b", "a")),  # replicas without racks
    ],
)
@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_racks_change_nothing_where_they_cannot_matter(
    name: str, topic: TopicInfo, member_racks: tuple[str | None, str | None]
) -> None:
    with_racks = PaperGroup(
        name, {"t": topic}, {f"c{at}": who("t", rack_id=rack) for at, rack in enumerate(member_racks)}
    )
    without = PaperGroup(name, {"t": 3}, {"c0": who("t"), "c1": who("t")})
    assert with_racks.given() == without.given()


@pytest.mark.proves("RA-03")
@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_partitions_go_to_members_in_a_rack_of_their_replicas(name: str) -> None:
    group = PaperGroup(
        name,
        {"t": racks("c", "b", "a", "c", "b", "a")},
        {"c1": who("t", rack_id="a"), "c2": who("t", rack_id="b"), "c3": who("t", rack_id="c")},
    )
    given = group.assign()
    assert pairs(given) == {"c1": numbers("t", 2, 5), "c2": numbers("t", 1, 4), "c3": numbers("t", 0, 3)}
    assert all(list(one.partitions) == sorted(one.partitions) for one in given.values())


@pytest.mark.proves("RA-03")
@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_balance_comes_before_racks(name: str) -> None:
    group = PaperGroup(
        name,
        {"t": racks("a", "a", "a", "a", "b")},
        {"c1": who("t", rack_id="a"), "c2": who("t", rack_id="b"), "c3": who("t")},
    )
    given = group.given()
    assert sorted(len(held) for held in given.values()) == [1, 2, 2]
    assert given["c1"] <= numbers("t", 0, 1, 2, 3)
    assert ("t", 4) in given["c2"]


@pytest.mark.proves("RA-04")
def test_co_partitioning_comes_before_racks() -> None:
    topics = {f"t{at}": racks(*("abc"[(at + partition) % 3] for partition in range(5))) for at in range(3)}
    members = {f"c{at}": who(*topics, rack_id="abc"[at]) for at in range(3)}
    group = PaperGroup("range", topics, members)
    given = group.given()
    ranges = {"c0": (0, 1), "c1": (2, 3), "c2": (4,)}
    assert given == {
        member_id: {(topic, partition) for topic in topics for partition in own} for member_id, own in ranges.items()
    }
    mismatches = [
        one
        for member_id, held in given.items()
        for one in held
        if members[member_id].rack_id not in (topics[one[0]].racks or ())[one[1]]
    ]
    assert len(mismatches) == 10


@pytest.mark.proves("RA-04")
def test_co_partitioned_topics_follow_common_racks() -> None:
    topics = {"t1": racks("c", "a", "b"), "t2": racks("c", "a", "b"), "other": racks("b", "c", "a", "a")}
    members = {f"c{at}": who("t1", "t2", rack_id="abc"[at]) for at in range(3)}
    members["c3"] = who("other", rack_id="a")
    given = PaperGroup("range", topics, members).given()
    assert given["c0"] == {("t1", 1), ("t2", 1)}
    assert given["c1"] == {("t1", 2), ("t2", 2)}
    assert given["c2"] == {("t1", 0), ("t2", 0)}
    assert given["c3"] == numbers("other", 0, 1, 2, 3)


# --- round robin


@pytest.mark.proves("RR-01")
def test_round_robin_deals_partitions_out_in_turn() -> None:
    group = PaperGroup("roundrobin", {"t": 4}, {"c1": who("t"), "c2": who("t")})
    assert group.given() == {"c1": numbers("t", 0, 2), "c2": numbers("t", 1, 3)}


@pytest.mark.proves("RR-01")
def test_round_robin_continues_and_skips_unsubscribed() -> None:
    group = PaperGroup(
        "roundrobin", {"t0": 1, "t1": 2, "t2": 3}, {"c0": who("t0"), "c1": who("t0", "t1"), "c2": who("t0", "t1", "t2")}
    )
    assert group.given() == {
        "c0": numbers("t0", 0),
        "c1": numbers("t1", 0),
        "c2": numbers("t1", 1) | numbers("t2", 0, 1, 2),
    }


# --- sticky, equal subscriptions


@pytest.mark.proves("SK-01")
@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize(("partitions", "members"), [(10, 3), (9, 3), (2, 5), (1, 1), (7, 7)])
def test_equal_subscriptions_differ_by_at_most_one(name: str, partitions: int, members: int) -> None:
    group = PaperGroup(name, {"t": partitions}, {f"c{at}": who("t") for at in range(members)})
    sizes = [len(held) for held in group.given().values()]
    assert sorted(sizes) == sorted(partitions // members + (at < partitions % members) for at in range(members))


@pytest.mark.proves("SK-02")
@pytest.mark.parametrize("name", STICKY)
def test_free_partitions_go_round_robin_in_id_order(name: str) -> None:
    group = PaperGroup(name, {"t1": 3, "t2": 3}, {f"c{at}": who("t1", "t2") for at in range(3)})
    assert group.given() == {
        "c0": numbers("t1", 0) | numbers("t2", 0),
        "c1": numbers("t1", 1) | numbers("t2", 1),
        "c2": numbers("t1", 2) | numbers("t2", 2),
    }


@pytest.mark.proves("SK-02")
def test_member_over_quota_keeps_lowest_partitions() -> None:
    owned = [("t2", 0), ("t1", 0), ("t1", 1), ("t2", 1), ("t1", 2), ("t2", 2)]
    group = PaperGroup("sticky", {"t1": 3, "t2": 3}, {"c1": owning(("t1", "t2"), *owned), "c2": who("t1", "t2")})
    assert group.given() == {
        "c1": numbers("t1", 0, 1) | numbers("t2", 0),
        "c2": numbers("t1", 2) | numbers("t2", 1, 2),
    }


@pytest.mark.proves("SK-02")
@pytest.mark.parametrize("name", STICKY)
def test_members_below_quota_are_filled_first(name: str) -> None:
    group = PaperGroup(
        name,
        {"t": 8},
        {"c1": owning(["t"], ("t", 0), ("t", 1)), "c2": owning(["t"], ("t", 2)), "c3": who("t")},
    )
    # Quota 2, two members one more. Below quota: c2 needs one, c3 two; then c1 and, first filled, c2 get the odd ones.
    assert group.given() == {
        "c1": numbers("t", 0, 1, 6),
        "c2": numbers("t", 2, 3, 7),
        "c3": numbers("t", 4, 5),
    }


@pytest.mark.proves("SK-03")
@pytest.mark.parametrize("name", STICKY)
def test_unowned_partition_is_added_without_moves(name: str) -> None:
    group = PaperGroup(
        name,
        {"t1": 2, "t2": 3},
        {
            "c1": owning(("t1", "t2"), ("t1", 0), ("t2", 1)),
            "c2": owning(("t1", "t2"), ("t1", 1), ("t2", 2)),
        },
    )
    assert group.given() == {
        "c1": numbers("t1", 0) | numbers("t2", 0, 1),
        "c2": numbers("t1", 1) | numbers("t2", 2),
    }


@pytest.mark.proves("SK-04", "CS-01")
@pytest.mark.parametrize("name", STICKY)
def test_third_member_takes_one_partition(name: str) -> None:
    both = ("t1", "t2")
    group = PaperGroup(
        name,
        {"t1": 2, "t2": 2},
        {
            "consumer1": owning(both, ("t1", 0), ("t2", 0)),
            "consumer2": owning(both, ("t1", 1), ("t2", 1)),
            "consumer3": who(*both),
        },
        generation_id=0,
    )
    expected = {
        "consumer1": numbers("t1", 0),
        "consumer2": numbers("t1", 1) | numbers("t2", 1),
        "consumer3": numbers("t2", 0),
    }
    if name == "cooperative-sticky":
        assert pairs(group.round()) == expected | {"consumer3": set()}
    assert group.given() == expected


@pytest.mark.proves("SK-05")
@pytest.mark.parametrize("name", STICKY)
def test_member_without_partitions_gets_the_free_one(name: str) -> None:
    group = PaperGroup(
        name,
        {"t": 4},
        {"c1": owning(["t"], ("t", 0), ("t", 1)), "c2": owning(["t"], ("t", 2)), "c3": owning(["t"])},
    )
    assert group.given() == {"c1": numbers("t", 0, 1), "c2": numbers("t", 2), "c3": numbers("t", 3)}


# --- sticky, conflicting claims


@pytest.mark.proves("SK-06")
@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("older", [4, -1])
@pytest.mark.parametrize("alike", [True, False])
def test_claim_of_higher_generation_wins(name: str, older: int, alike: bool) -> None:
    topics = {"t": 4} if alike else {"t": 4, "u": 1}
    group = PaperGroup(
        name,
        topics,
        {
            "c1": owning(["t"], ("t", 0), ("t", 1), generation_id=older),
            "c2": owning(topics, ("t", 1), ("t", 2), generation_id=5),
        },
    )
    given = group.given()
    assert ("t", 1) in given["c2"]
    assert ("t", 0) in given["c1"]


@pytest.mark.proves("SK-06")
def test_partition_returns_to_former_owner_for_balance() -> None:
    group = PaperGroup(
        "sticky",
        {"t": 6, "u": 1},
        {
            "c1": who("t"),
            "c2": owning(["t"], ("t", 0), generation_id=3),
            "c3": owning(["t", "u"], *(("t", at) for at in range(6)), generation_id=7),
        },
    )
    given = group.given()
    assert ("t", 0) in given["c2"]  # c1 is as little loaded, and comes first
    check_balanced(group, given)


@pytest.mark.proves("SK-07")
def test_double_claim_in_one_generation_is_dropped() -> None:
    members = {
        "c1": owning(["t"], ("t", 0), ("t", 1)),
        "c2": owning(["t"], ("t", 0), ("t", 2)),
        "c3": owning(["t"]),
    }
    expected = {"c1": numbers("t", 1), "c2": numbers("t", 2), "c3": numbers("t", 0)}
    assert PaperGroup("sticky", {"t": 3}, members).given() == expected
    # It counts as changing hands: the cooperative assignor withholds it.
    assert PaperGroup("cooperative-sticky", {"t": 3}, members).given() == expected | {"c3": set()}


@pytest.mark.proves("SK-07")
def test_double_claim_is_withheld_from_claimants() -> None:
    members = {"c1": owning(["t"], ("t", 0)), "c2": owning(["t"], ("t", 0))}
    group = PaperGroup("cooperative-sticky", {"t": 2}, members, generation_id=0)
    assert pairs(group.round()) == {"c1": set(), "c2": numbers("t", 1)}
    assert group.given() == {"c1": numbers("t", 0), "c2": numbers("t", 1)}


@pytest.mark.proves("SK-07")
@pytest.mark.parametrize("name", STICKY)
def test_even_higher_generation_settles_what_two_others_claim(name: str) -> None:
    group = PaperGroup(
        name,
        {"t": 3},
        {
            "c1": owning(["t"], ("t", 0), ("t", 1), generation_id=1),
            "c2": owning(["t"], ("t", 0), ("t", 2), generation_id=1),
            "c3": owning(["t"], ("t", 0), generation_id=2),
        },
    )
    assert group.given() == {"c1": numbers("t", 1), "c2": numbers("t", 2), "c3": numbers("t", 0)}


@pytest.mark.proves("SK-02")
@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("alike", [True, False])
def test_claims_of_what_does_not_exist_count_for_nothing(name: str, alike: bool) -> None:
    topics = {"t": 2} if alike else {"t": 2, "u": 1}
    group = PaperGroup(
        name,
        topics,
        {"c1": owning(["t"], ("t", 0), ("t", 7), ("t", -1), ("gone", 0)), "c2": owning(topics, ("t", 0), ("t", 0))},
    )
    given = group.given()
    check_valid(group, given)
    if name == "sticky":
        assert {one for held in given.values() for one in held} == everything(group)


# --- sticky, unequal subscriptions


@pytest.mark.proves("SK-08")
@pytest.mark.parametrize("name", STICKY)
def test_topics_with_fewest_members_are_assigned_first(name: str) -> None:
    group = PaperGroup(
        name, {"t0": 1, "t1": 2, "t2": 3}, {"c0": who("t0"), "c1": who("t0", "t1"), "c2": who("t0", "t1", "t2")}
    )
    assert group.given() == {"c0": numbers("t0", 0), "c1": numbers("t1", 0, 1), "c2": numbers("t2", 0, 1, 2)}
    group.round()
    del group.members["c0"]
    assert group.given() == {"c1": numbers("t0", 0) | numbers("t1", 0, 1), "c2": numbers("t2", 0, 1, 2)}


@pytest.mark.proves("SK-08")
def test_partitions_move_until_balanced() -> None:
    group = PaperGroup(
        "sticky",
        {"t1": 6, "t2": 1},
        {"c1": owning(["t1"], *(("t1", at) for at in range(6))), "c2": who("t1", "t2"), "c3": who("t2")},
    )
    given = group.given()
    assert {member_id: len(held) for member_id, held in given.items()} == {"c1": 3, "c2": 3, "c3": 1}
    check_balanced(group, given)


@pytest.mark.proves("SK-08")
def test_reshuffle_that_does_not_improve_the_score_is_undone() -> None:
    # Whatever the sizes before, the result is never less balanced than keeping everything would have been.
    for seed in range(200):
        group = random_group("sticky", seed, members=(3, 8), topics=(2, 5))
        group.round()
        change(group, Random(seed))
        kept = {
            member_id: [one for one in held if one[0] in group.members[member_id].topics]
            for member_id, held in group.held().items()
        }
        given = group.given()
        check_valid(group, given)
        if {one for held in kept.values() for one in held} == everything(group):
            assert score(map(len, given.values())) <= score(map(len, kept.values()))


@pytest.mark.proves("SK-09")
@pytest.mark.parametrize("name", STICKY)
def test_new_partitions_move_before_owned_ones(name: str) -> None:
    # u is new and goes to c1 first, who alone may have it together with c2; t stays where it is.
    group = PaperGroup(
        name,
        {"t": 4, "u": 2},
        {"c1": owning(["t", "u"], ("t", 0), ("t", 1)), "c2": owning(["t"], ("t", 2), ("t", 3)), "c3": who("u")},
    )
    given = group.given()
    assert given["c1"] >= numbers("t", 0, 1)
    assert given["c2"] == numbers("t", 2, 3)
    assert given["c3"] == numbers("u", 0, 1)


@pytest.mark.proves("SK-10")
@pytest.mark.parametrize("name", STICKY)
def test_no_two_members_swap_partitions_of_a_topic(name: str) -> None:
    for seed in range(150):
        group = random_group(name, seed, members=(2, 12), topics=(1, 6))
        group.settle()
        change(group, Random(seed))
        before = group.held()
        group.settle()
        assert not swaps(before, group.held())


@pytest.mark.proves("SK-11")
def test_sticky_reads_owned_partitions_from_user_data() -> None:
    v1 = assignor("sticky").user_data([TopicPartition("t", 1), TopicPartition("t", 2)], 3)
    assert v1 is not None
    v0, older = v1[:-4], assignor("sticky").user_data([TopicPartition("t", 1)], 2)
    assert assignor("sticky").user_data(None, -1) is None
    topics = {"t": TopicInfo(4)}

    def assignment_bytes(one: bytes | None, other: bytes | None) -> Pairs:
        members = {
            "c1": MemberSubscription(None, Subscription(("t",), other)),
            "c2": MemberSubscription(None, Subscription(("t",), one, [TopicPartition("t", 0)], 9)),
        }
        return pairs(assignor("sticky").assign(topics, members))

    assert assignment_bytes(v1, None)["c2"] == numbers("t", 1, 2)  # and not the field's t-0
    assert assignment_bytes(v0, None)["c2"] == numbers("t", 1, 2)
    assert assignment_bytes(v1, older)["c2"] == numbers("t", 1, 2)  # generation 3 beats 2
    assert assignment_bytes(v0, older)["c2"] != numbers("t", 1, 2)  # no generation is -1
    assert assignment_bytes(b"\x00\x00\x00\x07rubbish", None)["c2"] == numbers("t", 1, 3)  # as if nothing were owned
    assert assignment_bytes(b"", None)["c2"] == numbers("t", 1, 3)


@pytest.mark.proves("SK-11")
def test_cooperative_sticky_reads_generation_field_or_data() -> None:
    name = "cooperative-sticky"
    owned = [TopicPartition("t", 0)]
    assert assignor(name).user_data(owned, 5) == b"\x00\x00\x00\x05"
    assert assignor(name).user_data(None, -1) == b"\xff\xff\xff\xff"

    def winner(one: Subscription, other: Subscription) -> str | None:
        members = {"c1": MemberSubscription(None, one), "c2": MemberSubscription(None, other)}
        given = pairs(assignor(name).assign({"t": TopicInfo(2)}, members))
        return next((member_id for member_id, held in given.items() if ("t", 0) in held), None)

    five, six = b"\x00\x00\x00\x05", b"\x00\x00\x00\x06"
    by_field = Subscription(("t",), six, owned, 4)
    by_user_data = Subscription(("t",), five, owned, version=1)
    assert winner(by_field, by_user_data) == "c2"  # 4 < 5: the field outranks the user data
    assert winner(by_user_data, Subscription(("t",), six, owned, version=1)) == "c2"
    assert winner(by_user_data, Subscription(("t",), None, owned, version=1)) == "c1"
    assert winner(by_user_data, Subscription(("t",), b"\x00", owned, version=1)) == "c1"
    assert winner(by_user_data, Subscription(("t",), five, owned, version=1)) is None


# --- cooperative


@pytest.mark.proves("CS-01", "CS-02")
@pytest.mark.parametrize("alike", [True, False])
def test_moving_partition_is_assigned_in_next_rebalance(alike: bool) -> None:
    topics = {"t": 4} if alike else {"t": 4, "u": 1}
    group = PaperGroup("cooperative-sticky", topics, {"c1": who("t")})
    group.round()
    group.members["c2"] = who(*topics)
    first = pairs(group.round())
    assert first["c2"] == (set() if alike else numbers("u", 0))
    kept = first["c1"]
    assert len(kept) in (2, 3)
    assert group.settle() == 0
    assert group.held()["c1"] == kept
    assert {one for held in group.held().values() for one in held} == everything(group)


@pytest.mark.proves("CS-01")
def test_partitions_of_a_member_that_left_are_given_at_once() -> None:
    group = PaperGroup("cooperative-sticky", {"t": 4}, {"c1": who("t"), "c2": who("t")})
    group.round()
    del group.members["c1"]
    assert group.given() == {"c2": numbers("t", 0, 1, 2, 3)}


@pytest.mark.proves("CS-02")
@pytest.mark.parametrize("alike", [True, False])
def test_cooperative_group_settles_within_four_rebalances(alike: bool) -> None:
    for seed in range(150):
        group = random_group("cooperative-sticky", seed, members=(2, 10), topics=(1, 6), alike=alike)
        group.settle()
        change(group, Random(seed), alike=alike)
        assert group.settle() <= 4  # and asserts after every round that added and revoked are disjoint
        assert {one for held in group.held().values() for one in held} == everything(group)


# --- rack-aware stickiness


@pytest.mark.proves("RA-03", "SK-02")
@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("alike", [True, False])
def test_sticky_members_give_up_what_is_in_no_rack_of_theirs(name: str, alike: bool) -> None:
    t = racks("a", "b", "a", "b")
    topics: dict[str, int | TopicInfo] = {"t": t} if alike else {"t": t, "u": racks("b")}
    group = PaperGroup(
        name,
        topics,
        {
            "c1": owning(["t"], ("t", 0), ("t", 1), rack_id="a"),
            "c2": owning(topics, ("t", 2), ("t", 3), rack_id="b"),
        },
        generation_id=0,
    )
    group.settle()
    held = group.held()
    assert held["c1"] == numbers("t", 0, 2)
    assert held["c2"] >= numbers("t", 1, 3)


# --- bytes


@pytest.mark.proves("SK-11")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_subscription_holds_what_its_version_has_fields_for(version: int) -> None:
    full = Subscription(("t", "u"), b"\x01", [TopicPartition("t", 1)], 4, "rack", version)
    read = decode_subscription(encode_subscription(full))
    assert read.topics == ("t", "u")
    assert read.user_data == b"\x01"
    assert read.owned_partitions == ((TopicPartition("t", 1),) if version >= 1 else ())
    assert read.generation_id == (4 if version >= 2 else -1)
    assert read.rack_id == ("rack" if version >= 3 else None)
    assert read.version == version


# --- large groups


def random_group(
    name: str, seed: int, *, members: tuple[int, int], topics: tuple[int, int], alike: bool = False
) -> PaperGroup:
    random = Random(seed)
    group = PaperGroup(name, {f"topic-{at:02}": random.randint(1, 10) for at in range(random.randint(*topics))})
    group.members = {
        f"consumer-{at:03}": random_member(group, random, alike=alike) for at in range(random.randint(*members))
    }
    return group


def random_member(group: PaperGroup, random: Random, *, alike: bool = False) -> Who:
    names = sorted(group.topics)
    return who(*(names if alike else sorted(random.sample(names, random.randint(1, len(names))))))


def change(group: PaperGroup, random: Random, *, alike: bool = False) -> None:
    """Some members leave, some come."""
    for member_id in random.sample(sorted(group.members), random.randint(0, len(group.members) // 2)):
        del group.members[member_id]
    for at in range(random.randint(0, 5)):
        group.members[f"newcomer-{at}"] = random_member(group, random, alike=alike)


def leave_and_check(group: PaperGroup, leaving: list[str]) -> None:
    """The first assignment, then the one after some left: valid, balanced, and only what must move moves."""
    group.settle()
    before = group.held()
    for member_id in leaving:
        del group.members[member_id]
    group.settle()
    after = group.held()
    check_valid(group, after)
    check_balanced(group, after)
    assert {one for held in after.values() for one in held} == everything(group)
    assert not swaps(before, after)


@pytest.mark.proves("LS-01")
def test_large_equal_group_when_one_member_leaves() -> None:
    topics = {f"topic-{at:03}": 2000 for at in range(500)}
    group = PaperGroup("cooperative-sticky", topics, {f"consumer-{at:04}": who(*topics) for at in range(2000)})
    assert {len(one.assigned) for one in group.round().values()} == {500}
    before = {member_id: one.owned for member_id, one in group.members.items()}
    del group.members["consumer-1000"]
    given = group.round()
    loads = [len(one.assigned) for one in given.values()]
    assert sum(loads) == 1_000_000
    assert sorted(loads) == [500] * (1999 - 500) + [501] * 500
    for member_id in ("consumer-0000", "consumer-0999", "consumer-1001", "consumer-1999"):
        owned = before[member_id]
        assert owned is not None
        assert set(owned) <= set(given[member_id].assigned)
    one = given["consumer-0000"]
    assert decode_assignment(encode_assignment(one)) == one


@pytest.mark.proves("LS-01")
def test_large_group_with_racks_is_balanced() -> None:
    topics: dict[str, int | TopicInfo] = {
        f"topic-{at:02}": racks(*("abc"[(at + number) % 3] for number in range(60))) for at in range(10)
    }
    members = {f"consumer-{at:03}": who(*topics, rack_id="abc"[at % 3]) for at in range(60)}
    group = PaperGroup("sticky", topics, members)
    group.round()
    cluster = group.cluster
    for member_id, held in group.held().items():
        assert len(held) == 10
        rack = members[member_id].rack_id
        assert all(rack in (cluster[topic].racks or ())[number] for topic, number in held)
    leave_and_check(group, ["consumer-030"])


@pytest.mark.proves("LS-02")
@pytest.mark.parametrize("name", STICKY)
def test_large_group_with_one_smaller_subscription(name: str) -> None:
    topics = {f"topic-{at:02}": 200 for at in range(50)}
    members = {f"consumer-{at:03}": who(*topics) for at in range(199)} | {"consumer-199": who("topic-00")}
    leave_and_check(PaperGroup(name, topics, members), ["consumer-100"])


@pytest.mark.proves("LS-03")
@pytest.mark.parametrize("name", STICKY)
def test_large_group_of_two_disjoint_halves(name: str) -> None:
    names = [f"topic-{at:03}" for at in range(100)]
    members = {f"consumer-{at:03}": who(*(names[:50] if at < 250 else names[50:])) for at in range(500)}
    leave_and_check(PaperGroup(name, dict.fromkeys(names, 200), members), ["consumer-100"])


@pytest.mark.proves("LS-04")
@pytest.mark.parametrize("name", STICKY)
def test_large_group_when_a_quarter_leaves(name: str) -> None:
    random = Random(4)
    group = PaperGroup(name, {f"topic-{at:02}": random.randint(1, 10) for at in range(40)})
    group.members = {f"consumer-{at:03}": random_member(group, random) for at in range(200)}
    leave_and_check(group, random.sample(sorted(group.members), 50))


@pytest.mark.proves("LS-05")
@pytest.mark.parametrize("name", STICKY)
def test_hundred_random_groups_stay_valid_balanced_and_sticky(name: str) -> None:
    for seed in range(100):
        group = random_group(name, seed, members=(20, 40), topics=(10, 20))
        group.settle()
        before = group.held()
        change(group, Random(seed))
        group.settle()
        after = group.held()
        check_valid(group, after)
        check_balanced(group, after)
        assert {one for held in after.values() for one in held} == everything(group)
        assert not swaps(before, after)
