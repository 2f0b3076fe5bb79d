"""Section 10 of the catalogue: range, round robin, sticky, cooperative-sticky.

Member names are those of Kafka's tests ("consumer1") where the iteration order of the Java client matters.
"""

from dataclasses import replace
from random import Random

import pytest

from slackwater.group.assignors import MemberSubscription, TopicInfo, get_assignor
from slackwater.group.assignors.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.topic_partition import TopicPartition
from tests.group.assignors.groups import (
    GroupModel,
    MemberModel,
    Pairs,
    check_balanced,
    check_valid,
    member_owning,
    new_member,
    pairs,
    score,
    subscribed_partitions,
    swaps,
)

ALL = ("range", "roundrobin", "sticky", "cooperative-sticky")
STICKY = ("sticky", "cooperative-sticky")


def pairs_of(topic: str, *partitions: int) -> set[tuple[str, int]]:
    return {(topic, partition) for partition in partitions}


# --- all assignors


@pytest.mark.proves("AS-01")
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_sort_before_dynamic_members(name: str) -> None:
    group = GroupModel(
        name,
        {"t": 4},
        {
            "a": new_member("t"),
            "b": new_member("t"),
            "y": new_member("t", group_instance_id="i2"),
            "z": new_member("t", group_instance_id="i1"),
        },
    )
    by_first_partition = sorted(group.assigned().items(), key=lambda item: min(item[1]))
    assert [member_id for member_id, _ in by_first_partition] == ["z", "y", "a", "b"]


@pytest.mark.proves("AS-02")
@pytest.mark.parametrize("name", ALL)
def test_members_get_only_known_subscribed_topics(name: str) -> None:
    group = GroupModel(
        name,
        {"t1": 2, "t2": 1, "empty": 0},
        {"c1": new_member("t1", "unknown"), "c2": new_member("t2", "empty"), "c3": new_member("gone")},
    )
    assert group.assigned() == {"c1": pairs_of("t1", 0, 1), "c2": pairs_of("t2", 0), "c3": set()}


@pytest.mark.proves("AS-02")
@pytest.mark.parametrize("name", ALL)
def test_no_topics_or_no_members_gives_empty_assignment(name: str) -> None:
    assert GroupModel(name, {}, {"c1": new_member("t"), "c2": new_member()}).assigned() == {"c1": set(), "c2": set()}
    assert GroupModel(name, {"t": 3}).assigned() == {}


# --- range


@pytest.mark.proves("RA-01")
def test_range_assigns_contiguous_ranges_remainder_first() -> None:
    group = GroupModel("range", {"t1": 3, "t2": 3}, {"c1": new_member("t1", "t2"), "c2": new_member("t1", "t2")})
    assert group.assigned() == {
        "c1": pairs_of("t1", 0, 1) | pairs_of("t2", 0, 1),
        "c2": pairs_of("t1", 2) | pairs_of("t2", 2),
    }


@pytest.mark.proves("RA-02")
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_keep_partitions_after_id_change(name: str) -> None:
    before = GroupModel(
        name,
        {"t1": 3, "t2": 3},
        {
            "m1": new_member("t1", "t2", group_instance_id="i1"),
            "m2": new_member("t1", "t2", group_instance_id="i2"),
            "m3": new_member("t1", "t2", group_instance_id="i3"),
        },
    )
    after = replace(
        before, members={"m3": before.members["m1"], "m1": before.members["m2"], "m2": before.members["m3"]}
    )
    assert after.assigned()["m3"] == before.assigned()["m1"]
    assert after.assigned()["m1"] == before.assigned()["m2"]
    assert after.assigned()["m2"] == before.assigned()["m3"]


def racks(*of_partition: str) -> TopicInfo:
    """Return topic info; the letters of the i-th argument are the racks of partition i."""
    return TopicInfo(len(of_partition), tuple(frozenset(letters) for letters in of_partition))


@pytest.mark.proves("RA-03")
@pytest.mark.parametrize(
    ("topic", "member_racks"),
    [
        (racks("ab", "ab", "ab"), ("b", "a")),  # every partition is in every rack
        (racks("a", "b", "a"), ("x", "y")),  # racks that do not overlap
        (racks("a", "b", "a"), (None, None)),  # members without racks
        (racks("a", "b", "a"), ("", "")),  # an empty rack means no rack
        (TopicInfo(3), ("b", "a")),  # replicas without racks
    ],
)
@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_racks_without_effect_are_ignored(
    name: str, topic: TopicInfo, member_racks: tuple[str | None, str | None]
) -> None:
    with_racks = GroupModel(
        name, {"t": topic}, {f"c{index}": new_member("t", rack_id=rack) for index, rack in enumerate(member_racks)}
    )
    without = GroupModel(name, {"t": 3}, {"c0": new_member("t"), "c1": new_member("t")})
    assert with_racks.assigned() == without.assigned()


@pytest.mark.proves("RA-03")
@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_partitions_go_to_members_in_the_same_rack(name: str) -> None:
    group = GroupModel(
        name,
        {"t": racks("c", "b", "a", "c", "b", "a")},
        {"c1": new_member("t", rack_id="a"), "c2": new_member("t", rack_id="b"), "c3": new_member("t", rack_id="c")},
    )
    assignment = group.assign()
    assert pairs(assignment) == {"c1": pairs_of("t", 2, 5), "c2": pairs_of("t", 1, 4), "c3": pairs_of("t", 0, 3)}
    assert all(list(assigned.partitions) == sorted(assigned.partitions) for assigned in assignment.values())


@pytest.mark.proves("RA-03")
@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_balance_comes_before_racks(name: str) -> None:
    group = GroupModel(
        name,
        {"t": racks("a", "a", "a", "a", "b")},
        {"c1": new_member("t", rack_id="a"), "c2": new_member("t", rack_id="b"), "c3": new_member("t")},
    )
    assignment = group.assigned()
    assert sorted(len(partitions) for partitions in assignment.values()) == [1, 2, 2]
    assert assignment["c1"] <= pairs_of("t", 0, 1, 2, 3)
    assert ("t", 4) in assignment["c2"]


@pytest.mark.proves("RA-04")
def test_co_partitioning_comes_before_racks() -> None:
    topics = {f"t{index}": racks(*("abc"[(index + partition) % 3] for partition in range(5))) for index in range(3)}
    members = {f"c{index}": new_member(*topics, rack_id="abc"[index]) for index in range(3)}
    group = GroupModel("range", topics, members)
    assignment = group.assigned()
    ranges = {"c0": (0, 1), "c1": (2, 3), "c2": (4,)}
    assert assignment == {
        member_id: {(topic, partition) for topic in topics for partition in own} for member_id, own in ranges.items()
    }
    mismatches = [
        partition
        for member_id, partitions in assignment.items()
        for partition in partitions
        if members[member_id].rack_id not in (topics[partition[0]].racks or ())[partition[1]]
    ]
    assert len(mismatches) == 10


@pytest.mark.proves("RA-04")
def test_co_partitioned_topics_follow_common_racks() -> None:
    topics = {"t1": racks("c", "a", "b"), "t2": racks("c", "a", "b"), "other": racks("b", "c", "a", "a")}
    members = {f"c{index}": new_member("t1", "t2", rack_id="abc"[index]) for index in range(3)}
    members["c3"] = new_member("other", rack_id="a")
    assignment = GroupModel("range", topics, members).assigned()
    assert assignment["c0"] == {("t1", 1), ("t2", 1)}
    assert assignment["c1"] == {("t1", 2), ("t2", 2)}
    assert assignment["c2"] == {("t1", 0), ("t2", 0)}
    assert assignment["c3"] == pairs_of("other", 0, 1, 2, 3)


# --- round robin


@pytest.mark.proves("RR-01")
def test_round_robin_alternates_between_members() -> None:
    group = GroupModel("roundrobin", {"t": 4}, {"c1": new_member("t"), "c2": new_member("t")})
    assert group.assigned() == {"c1": pairs_of("t", 0, 2), "c2": pairs_of("t", 1, 3)}


@pytest.mark.proves("RR-01")
def test_round_robin_continues_and_skips_unsubscribed() -> None:
    group = GroupModel(
        "roundrobin",
        {"t0": 1, "t1": 2, "t2": 3},
        {"c0": new_member("t0"), "c1": new_member("t0", "t1"), "c2": new_member("t0", "t1", "t2")},
    )
    assert group.assigned() == {
        "c0": pairs_of("t0", 0),
        "c1": pairs_of("t1", 0),
        "c2": pairs_of("t1", 1) | pairs_of("t2", 0, 1, 2),
    }


# --- sticky, equal subscriptions


@pytest.mark.proves("SK-01")
@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize(("partitions", "members"), [(10, 3), (9, 3), (2, 5), (1, 1), (7, 7)])
def test_equal_subscriptions_differ_by_at_most_one(name: str, partitions: int, members: int) -> None:
    group = GroupModel(name, {"t": partitions}, {f"c{index}": new_member("t") for index in range(members)})
    sizes = [len(owned) for owned in group.assigned().values()]
    assert sorted(sizes) == sorted(partitions // members + (index < partitions % members) for index in range(members))


@pytest.mark.proves("SK-02")
@pytest.mark.parametrize("name", STICKY)
def test_free_partitions_go_round_robin_in_id_order(name: str) -> None:
    group = GroupModel(name, {"t1": 3, "t2": 3}, {f"c{index}": new_member("t1", "t2") for index in range(3)})
    assert group.assigned() == {
        "c0": pairs_of("t1", 0) | pairs_of("t2", 0),
        "c1": pairs_of("t1", 1) | pairs_of("t2", 1),
        "c2": pairs_of("t1", 2) | pairs_of("t2", 2),
    }


@pytest.mark.proves("SK-02")
def test_member_over_quota_keeps_lowest_partitions() -> None:
    owned = [("t2", 0), ("t1", 0), ("t1", 1), ("t2", 1), ("t1", 2), ("t2", 2)]
    group = GroupModel(
        "sticky", {"t1": 3, "t2": 3}, {"c1": member_owning(("t1", "t2"), *owned), "c2": new_member("t1", "t2")}
    )
    assert group.assigned() == {
        "c1": pairs_of("t1", 0, 1) | pairs_of("t2", 0),
        "c2": pairs_of("t1", 2) | pairs_of("t2", 1, 2),
    }


@pytest.mark.proves("SK-02")
@pytest.mark.parametrize("name", STICKY)
def test_members_below_quota_are_filled_first(name: str) -> None:
    group = GroupModel(
        name,
        {"t": 8},
        {"c1": member_owning(["t"], ("t", 0), ("t", 1)), "c2": member_owning(["t"], ("t", 2)), "c3": new_member("t")},
    )
    # The quota is 2, and two members get 3. c2 and c3 are filled to the quota first, then c1 and c2 get one more.
    assert group.assigned() == {
        "c1": pairs_of("t", 0, 1, 6),
        "c2": pairs_of("t", 2, 3, 7),
        "c3": pairs_of("t", 4, 5),
    }


@pytest.mark.proves("SK-03")
@pytest.mark.parametrize("name", STICKY)
def test_unowned_partition_is_added_without_moves(name: str) -> None:
    group = GroupModel(
        name,
        {"t1": 2, "t2": 3},
        {
            "c1": member_owning(("t1", "t2"), ("t1", 0), ("t2", 1)),
            "c2": member_owning(("t1", "t2"), ("t1", 1), ("t2", 2)),
        },
    )
    assert group.assigned() == {
        "c1": pairs_of("t1", 0) | pairs_of("t2", 0, 1),
        "c2": pairs_of("t1", 1) | pairs_of("t2", 2),
    }


@pytest.mark.proves("SK-04", "CS-01")
@pytest.mark.parametrize("name", STICKY)
def test_third_member_takes_one_partition(name: str) -> None:
    both = ("t1", "t2")
    group = GroupModel(
        name,
        {"t1": 2, "t2": 2},
        {
            "consumer1": member_owning(both, ("t1", 0), ("t2", 0)),
            "consumer2": member_owning(both, ("t1", 1), ("t2", 1)),
            "consumer3": new_member(*both),
        },
        generation_id=0,
    )
    expected = {
        "consumer1": pairs_of("t1", 0),
        "consumer2": pairs_of("t1", 1) | pairs_of("t2", 1),
        "consumer3": pairs_of("t2", 0),
    }
    if name == "cooperative-sticky":
        assert pairs(group.rebalance()) == expected | {"consumer3": set()}
    assert group.assigned() == expected


@pytest.mark.proves("SK-05")
@pytest.mark.parametrize("name", STICKY)
def test_member_without_partitions_gets_the_free_one(name: str) -> None:
    group = GroupModel(
        name,
        {"t": 4},
        {
            "c1": member_owning(["t"], ("t", 0), ("t", 1)),
            "c2": member_owning(["t"], ("t", 2)),
            "c3": member_owning(["t"]),
        },
    )
    assert group.assigned() == {"c1": pairs_of("t", 0, 1), "c2": pairs_of("t", 2), "c3": pairs_of("t", 3)}


# --- sticky, conflicting claims


@pytest.mark.proves("SK-06")
@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("older", [4, -1])
@pytest.mark.parametrize("same_topics", [True, False])
def test_claim_of_higher_generation_wins(name: str, older: int, same_topics: bool) -> None:
    topics = {"t": 4} if same_topics else {"t": 4, "u": 1}
    group = GroupModel(
        name,
        topics,
        {
            "c1": member_owning(["t"], ("t", 0), ("t", 1), generation_id=older),
            "c2": member_owning(topics, ("t", 1), ("t", 2), generation_id=5),
        },
    )
    assignment = group.assigned()
    assert ("t", 1) in assignment["c2"]
    assert ("t", 0) in assignment["c1"]


@pytest.mark.proves("SK-06")
def test_partition_returns_to_former_owner_for_balance() -> None:
    group = GroupModel(
        "sticky",
        {"t": 6, "u": 1},
        {
            "c1": new_member("t"),
            "c2": member_owning(["t"], ("t", 0), generation_id=3),
            "c3": member_owning(["t", "u"], *(("t", index) for index in range(6)), generation_id=7),
        },
    )
    assignment = group.assigned()
    assert ("t", 0) in assignment["c2"]  # c1 has the same load and sorts first
    check_balanced(group, assignment)


@pytest.mark.proves("SK-07")
def test_double_claim_in_one_generation_is_dropped() -> None:
    members = {
        "c1": member_owning(["t"], ("t", 0), ("t", 1)),
        "c2": member_owning(["t"], ("t", 0), ("t", 2)),
        "c3": member_owning(["t"]),
    }
    expected = {"c1": pairs_of("t", 1), "c2": pairs_of("t", 2), "c3": pairs_of("t", 0)}
    assert GroupModel("sticky", {"t": 3}, members).assigned() == expected
    # The partition changes its owner, so the cooperative assignor withholds it.
    assert GroupModel("cooperative-sticky", {"t": 3}, members).assigned() == expected | {"c3": set()}


@pytest.mark.proves("SK-07")
def test_double_claim_is_withheld_from_claimants() -> None:
    members = {"c1": member_owning(["t"], ("t", 0)), "c2": member_owning(["t"], ("t", 0))}
    group = GroupModel("cooperative-sticky", {"t": 2}, members, generation_id=0)
    assert pairs(group.rebalance()) == {"c1": set(), "c2": pairs_of("t", 1)}
    assert group.assigned() == {"c1": pairs_of("t", 0), "c2": pairs_of("t", 1)}


@pytest.mark.proves("SK-07")
@pytest.mark.parametrize("name", STICKY)
def test_highest_generation_wins_over_double_claim(name: str) -> None:
    group = GroupModel(
        name,
        {"t": 3},
        {
            "c1": member_owning(["t"], ("t", 0), ("t", 1), generation_id=1),
            "c2": member_owning(["t"], ("t", 0), ("t", 2), generation_id=1),
            "c3": member_owning(["t"], ("t", 0), generation_id=2),
        },
    )
    assert group.assigned() == {"c1": pairs_of("t", 1), "c2": pairs_of("t", 2), "c3": pairs_of("t", 0)}


@pytest.mark.proves("SK-02")
@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("same_topics", [True, False])
def test_claims_of_missing_partitions_are_ignored(name: str, same_topics: bool) -> None:
    topics = {"t": 2} if same_topics else {"t": 2, "u": 1}
    group = GroupModel(
        name,
        topics,
        {
            "c1": member_owning(["t"], ("t", 0), ("t", 7), ("t", -1), ("gone", 0)),
            "c2": member_owning(topics, ("t", 0), ("t", 0)),
        },
    )
    assignment = group.assigned()
    check_valid(group, assignment)
    if name == "sticky":
        assert {partition for partitions in assignment.values() for partition in partitions} == subscribed_partitions(
            group
        )


# --- sticky, unequal subscriptions


@pytest.mark.proves("SK-08")
@pytest.mark.parametrize("name", STICKY)
def test_topics_with_fewest_members_are_assigned_first(name: str) -> None:
    group = GroupModel(
        name,
        {"t0": 1, "t1": 2, "t2": 3},
        {"c0": new_member("t0"), "c1": new_member("t0", "t1"), "c2": new_member("t0", "t1", "t2")},
    )
    assert group.assigned() == {"c0": pairs_of("t0", 0), "c1": pairs_of("t1", 0, 1), "c2": pairs_of("t2", 0, 1, 2)}
    group.rebalance()
    del group.members["c0"]
    assert group.assigned() == {"c1": pairs_of("t0", 0) | pairs_of("t1", 0, 1), "c2": pairs_of("t2", 0, 1, 2)}


@pytest.mark.proves("SK-08")
def test_partitions_move_until_balanced() -> None:
    group = GroupModel(
        "sticky",
        {"t1": 6, "t2": 1},
        {
            "c1": member_owning(["t1"], *(("t1", index) for index in range(6))),
            "c2": new_member("t1", "t2"),
            "c3": new_member("t2"),
        },
    )
    assignment = group.assigned()
    assert {member_id: len(partitions) for member_id, partitions in assignment.items()} == {"c1": 3, "c2": 3, "c3": 1}
    check_balanced(group, assignment)


@pytest.mark.proves("SK-08")
def test_reassignment_without_better_score_is_undone() -> None:
    # The result is never less balanced than the previous assignment.
    for seed in range(200):
        group = random_group("sticky", seed, members=(3, 8), topics=(2, 5))
        group.rebalance()
        change(group, Random(seed))
        previous = {
            member_id: [partition for partition in partitions if partition[0] in group.members[member_id].topics]
            for member_id, partitions in group.owned().items()
        }
        assignment = group.assigned()
        check_valid(group, assignment)
        if {partition for partitions in previous.values() for partition in partitions} == subscribed_partitions(group):
            assert score(map(len, assignment.values())) <= score(map(len, previous.values()))


@pytest.mark.proves("SK-09")
@pytest.mark.parametrize("name", STICKY)
def test_new_partitions_move_before_owned_ones(name: str) -> None:
    # Both partitions of u are new and go to c3; the partitions of t stay with their owners.
    group = GroupModel(
        name,
        {"t": 4, "u": 2},
        {
            "c1": member_owning(["t", "u"], ("t", 0), ("t", 1)),
            "c2": member_owning(["t"], ("t", 2), ("t", 3)),
            "c3": new_member("u"),
        },
    )
    assignment = group.assigned()
    assert assignment["c1"] >= pairs_of("t", 0, 1)
    assert assignment["c2"] == pairs_of("t", 2, 3)
    assert assignment["c3"] == pairs_of("u", 0, 1)


@pytest.mark.proves("SK-10")
@pytest.mark.parametrize("name", STICKY)
def test_no_two_members_swap_partitions_of_a_topic(name: str) -> None:
    for seed in range(150):
        group = random_group(name, seed, members=(2, 12), topics=(1, 6))
        group.rebalance_until_stable()
        change(group, Random(seed))
        before = group.owned()
        group.rebalance_until_stable()
        assert not swaps(before, group.owned())


@pytest.mark.proves("SK-11")
def test_sticky_reads_owned_partitions_from_user_data() -> None:
    v1 = get_assignor("sticky").user_data([TopicPartition("t", 1), TopicPartition("t", 2)], 3)
    assert v1 is not None
    v0, older = v1[:-4], get_assignor("sticky").user_data([TopicPartition("t", 1)], 2)
    assert get_assignor("sticky").user_data(None, -1) is None
    topics = {"t": TopicInfo(4)}

    def assign(c2_data: bytes | None, c1_data: bytes | None) -> Pairs:
        members = {
            "c1": MemberSubscription(None, Subscription(("t",), c1_data)),
            "c2": MemberSubscription(None, Subscription(("t",), c2_data, [TopicPartition("t", 0)], 9)),
        }
        return pairs(get_assignor("sticky").assign(topics, members))

    assert assign(v1, None)["c2"] == pairs_of("t", 1, 2)  # not t-0 of the field
    assert assign(v0, None)["c2"] == pairs_of("t", 1, 2)
    assert assign(v1, older)["c2"] == pairs_of("t", 1, 2)  # generation 3 wins over 2
    assert assign(v0, older)["c2"] != pairs_of("t", 1, 2)  # a missing generation counts as -1
    # Invalid user data counts as no owned partitions.
    assert assign(b"\x00\x00\x00\x07rubbish", None)["c2"] == pairs_of("t", 1, 3)
    assert assign(b"", None)["c2"] == pairs_of("t", 1, 3)


@pytest.mark.proves("SK-11")
def test_cooperative_sticky_reads_generation_field_or_data() -> None:
    name = "cooperative-sticky"
    owned = [TopicPartition("t", 0)]
    assert get_assignor(name).user_data(owned, 5) == b"\x00\x00\x00\x05"
    assert get_assignor(name).user_data(None, -1) == b"\xff\xff\xff\xff"

    def winner(first: Subscription, second: Subscription) -> str | None:
        members = {"c1": MemberSubscription(None, first), "c2": MemberSubscription(None, second)}
        assignment = pairs(get_assignor(name).assign({"t": TopicInfo(2)}, members))
        return next((member_id for member_id, partitions in assignment.items() if ("t", 0) in partitions), None)

    five, six = b"\x00\x00\x00\x05", b"\x00\x00\x00\x06"
    by_field = Subscription(("t",), six, owned, 4)
    by_user_data = Subscription(("t",), five, owned, version=1)
    assert winner(by_field, by_user_data) == "c2"  # 4 < 5: the field takes precedence over the user data
    assert winner(by_user_data, Subscription(("t",), six, owned, version=1)) == "c2"
    assert winner(by_user_data, Subscription(("t",), None, owned, version=1)) == "c1"
    assert winner(by_user_data, Subscription(("t",), b"\x00", owned, version=1)) == "c1"
    assert winner(by_user_data, Subscription(("t",), five, owned, version=1)) is None


# --- cooperative


@pytest.mark.proves("CS-01", "CS-02")
@pytest.mark.parametrize("same_topics", [True, False])
def test_moving_partition_is_assigned_in_next_rebalance(same_topics: bool) -> None:
    topics = {"t": 4} if same_topics else {"t": 4, "u": 1}
    group = GroupModel("cooperative-sticky", topics, {"c1": new_member("t")})
    group.rebalance()
    group.members["c2"] = new_member(*topics)
    first = pairs(group.rebalance())
    assert first["c2"] == (set() if same_topics else pairs_of("u", 0))
    c1_partitions = first["c1"]
    assert len(c1_partitions) in (2, 3)
    assert group.rebalance_until_stable() == 0
    assert group.owned()["c1"] == c1_partitions
    assert {partition for partitions in group.owned().values() for partition in partitions} == subscribed_partitions(
        group
    )


@pytest.mark.proves("CS-01")
def test_partitions_of_former_member_are_assigned_at_once() -> None:
    group = GroupModel("cooperative-sticky", {"t": 4}, {"c1": new_member("t"), "c2": new_member("t")})
    group.rebalance()
    del group.members["c1"]
    assert group.assigned() == {"c2": pairs_of("t", 0, 1, 2, 3)}


@pytest.mark.proves("CS-02")
@pytest.mark.parametrize("same_topics", [True, False])
def test_cooperative_group_settles_within_four_rebalances(same_topics: bool) -> None:
    for seed in range(150):
        group = random_group("cooperative-sticky", seed, members=(2, 10), topics=(1, 6), same_topics=same_topics)
        group.rebalance_until_stable()
        change(group, Random(seed), same_topics=same_topics)
        assert group.rebalance_until_stable() <= 4  # it also checks that added and revoked partitions are disjoint
        assert {
            partition for partitions in group.owned().values() for partition in partitions
        } == subscribed_partitions(group)


# --- rack-aware stickiness


@pytest.mark.proves("RA-03", "SK-02")
@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("same_topics", [True, False])
def test_sticky_members_release_partitions_of_other_racks(name: str, same_topics: bool) -> None:
    t = racks("a", "b", "a", "b")
    topics: dict[str, int | TopicInfo] = {"t": t} if same_topics else {"t": t, "u": racks("b")}
    group = GroupModel(
        name,
        topics,
        {
            "c1": member_owning(["t"], ("t", 0), ("t", 1), rack_id="a"),
            "c2": member_owning(topics, ("t", 2), ("t", 3), rack_id="b"),
        },
        generation_id=0,
    )
    group.rebalance_until_stable()
    partitions = group.owned()
    assert partitions["c1"] == pairs_of("t", 0, 2)
    assert partitions["c2"] >= pairs_of("t", 1, 3)


# --- bytes


@pytest.mark.proves("SK-11")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_subscription_has_fields_of_its_version(version: int) -> None:
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
    name: str, seed: int, *, members: tuple[int, int], topics: tuple[int, int], same_topics: bool = False
) -> GroupModel:
    random = Random(seed)
    group = GroupModel(name, {f"topic-{index:02}": random.randint(1, 10) for index in range(random.randint(*topics))})
    group.members = {
        f"consumer-{index:03}": random_member(group, random, same_topics=same_topics)
        for index in range(random.randint(*members))
    }
    return group


def random_member(group: GroupModel, random: Random, *, same_topics: bool = False) -> MemberModel:
    names = sorted(group.topics)
    return new_member(*(names if same_topics else sorted(random.sample(names, random.randint(1, len(names))))))


def change(group: GroupModel, random: Random, *, same_topics: bool = False) -> None:
    """Remove some members and add some."""
    for member_id in random.sample(sorted(group.members), random.randint(0, len(group.members) // 2)):
        del group.members[member_id]
    for index in range(random.randint(0, 5)):
        group.members[f"newcomer-{index}"] = random_member(group, random, same_topics=same_topics)


def leave_and_check(group: GroupModel, leaving: list[str]) -> None:
    """Assign, remove members, assign again; check that the result is valid, balanced and without swaps."""
    group.rebalance_until_stable()
    before = group.owned()
    for member_id in leaving:
        del group.members[member_id]
    group.rebalance_until_stable()
    after = group.owned()
    check_valid(group, after)
    check_balanced(group, after)
    assert {partition for partitions in after.values() for partition in partitions} == subscribed_partitions(group)
    assert not swaps(before, after)


@pytest.mark.proves("LS-01")
def test_large_equal_group_when_one_member_leaves() -> None:
    topics = {f"topic-{index:03}": 2000 for index in range(500)}
    group = GroupModel(
        "cooperative-sticky", topics, {f"consumer-{index:04}": new_member(*topics) for index in range(2000)}
    )
    assert {len(assigned.assigned) for assigned in group.rebalance().values()} == {500}
    before = {member_id: member.owned for member_id, member in group.members.items()}
    del group.members["consumer-1000"]
    assignment = group.rebalance()
    loads = [len(assigned.assigned) for assigned in assignment.values()]
    assert sum(loads) == 1_000_000
    assert sorted(loads) == [500] * (1999 - 500) + [501] * 500
    for member_id in ("consumer-0000", "consumer-0999", "consumer-1001", "consumer-1999"):
        owned = before[member_id]
        assert owned is not None
        assert set(owned) <= set(assignment[member_id].assigned)
    first = assignment["consumer-0000"]
    assert decode_assignment(encode_assignment(first)) == first


@pytest.mark.proves("LS-01")
def test_large_group_with_racks_is_balanced() -> None:
    topics: dict[str, int | TopicInfo] = {
        f"topic-{index:02}": racks(*("abc"[(index + number) % 3] for number in range(60))) for index in range(10)
    }
    members = {f"consumer-{index:03}": new_member(*topics, rack_id="abc"[index % 3]) for index in range(60)}
    group = GroupModel("sticky", topics, members)
    group.rebalance()
    cluster = group.cluster
    for member_id, partitions in group.owned().items():
        assert len(partitions) == 10
        rack = members[member_id].rack_id
        assert all(rack in (cluster[topic].racks or ())[number] for topic, number in partitions)
    leave_and_check(group, ["consumer-030"])


@pytest.mark.proves("LS-02")
@pytest.mark.parametrize("name", STICKY)
def test_large_group_with_one_smaller_subscription(name: str) -> None:
    topics = {f"topic-{index:02}": 200 for index in range(50)}
    members = {f"consumer-{index:03}": new_member(*topics) for index in range(199)} | {
        "consumer-199": new_member("topic-00")
    }
    leave_and_check(GroupModel(name, topics, members), ["consumer-100"])


@pytest.mark.proves("LS-03")
@pytest.mark.parametrize("name", STICKY)
def test_large_group_of_two_disjoint_halves(name: str) -> None:
    names = [f"topic-{index:03}" for index in range(100)]
    members = {f"consumer-{index:03}": new_member(*(names[:50] if index < 250 else names[50:])) for index in range(500)}
    leave_and_check(GroupModel(name, dict.fromkeys(names, 200), members), ["consumer-100"])


@pytest.mark.proves("LS-04")
@pytest.mark.parametrize("name", STICKY)
def test_large_group_when_a_quarter_leaves(name: str) -> None:
    random = Random(4)
    group = GroupModel(name, {f"topic-{index:02}": random.randint(1, 10) for index in range(40)})
    group.members = {f"consumer-{index:03}": random_member(group, random) for index in range(200)}
    leave_and_check(group, random.sample(sorted(group.members), 50))


@pytest.mark.proves("LS-05")
@pytest.mark.parametrize("name", STICKY)
def test_hundred_random_groups_stay_valid_balanced_and_sticky(name: str) -> None:
    for seed in range(100):
        group = random_group(name, seed, members=(20, 40), topics=(10, 20))
        group.rebalance_until_stable()
        before = group.owned()
        change(group, Random(seed))
        group.rebalance_until_stable()
        after = group.owned()
        check_valid(group, after)
        check_balanced(group, after)
        assert {partition for partitions in after.values() for partition in partitions} == subscribed_partitions(group)
        assert not swaps(before, after)
