"""Properties of every assignment, for any subscriptions, owned partitions and claims."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slackwater.group.assignors import TopicInfo, get_assignor
from slackwater.group.assignors.partitions import PartitionsByTopic
from slackwater.group.topic_partition import TopicPartition
from tests.group.assignors.groups import (
    GroupModel,
    MemberModel,
    check_balanced,
    check_valid,
    pairs,
    subscribed_partitions,
    swaps,
)

ALL = ("range", "roundrobin", "sticky", "cooperative-sticky")
STICKY = ("sticky", "cooperative-sticky")
RACKS = ("a", "b", "c")


@st.composite
def members(draw: st.DrawFn, topics: list[str], *, equal_subscriptions: bool, racks: bool) -> MemberModel:
    subscribed = topics if equal_subscriptions else sorted(draw(st.sets(st.sampled_from(topics))))
    return MemberModel(
        tuple(subscribed),
        rack_id=draw(st.sampled_from((*RACKS, None))) if racks else None,
        group_instance_id=draw(st.none() | st.uuids().map(str)),
    )


@st.composite
def groups(
    draw: st.DrawFn,
    assignors: tuple[str, ...] = ALL,
    equal_subscriptions: bool | None = None,
    racks: bool | None = None,
) -> GroupModel:
    """Return a group, possibly after rebalances and changes."""
    equal_subscriptions = draw(st.booleans()) if equal_subscriptions is None else equal_subscriptions
    racks = draw(st.booleans()) if racks is None else racks
    counts = draw(
        st.dictionaries(st.sampled_from([f"t{number}" for number in range(6)]), st.integers(1, 9), min_size=1)
    )
    topics: dict[str, int | TopicInfo] = {
        topic: TopicInfo(
            count,
            tuple(draw(st.lists(st.frozensets(st.sampled_from(RACKS), max_size=2), min_size=count, max_size=count))),
        )
        if racks
        else count
        for topic, count in counts.items()
    }
    ids = st.sampled_from([f"member-{number}" for number in range(9)] + ["ä", "\U0001f980", "\uffee"])
    member_strategy = members(sorted(topics), equal_subscriptions=equal_subscriptions, racks=racks)
    group = GroupModel(
        draw(st.sampled_from(assignors)), topics, draw(st.dictionaries(ids, member_strategy, min_size=1))
    )
    for _ in range(draw(st.integers(0, 2))):
        group.rebalance_until_stable() if group.assignor_name in STICKY else group.rebalance()
        for member_id in draw(st.sets(st.sampled_from(sorted(group.members)), max_size=len(group.members) - 1)):
            del group.members[member_id]
        group.members = draw(st.dictionaries(ids, member_strategy, max_size=3)) | group.members
    return group


@st.composite
def claiming(draw: st.DrawFn, group: GroupModel) -> GroupModel:
    """Return the group with random claims of its members."""
    real = [TopicPartition(topic, index) for topic, info in group.cluster.items() for index in range(info.partitions)]
    any_partition = st.sampled_from([*real, TopicPartition("gone", 0), TopicPartition(real[0].topic, 99)])
    for member_id, member in group.members.items():
        claimed = PartitionsByTopic.of(draw(st.lists(any_partition, max_size=5)))
        group.members[member_id] = replace(member, owned=claimed, generation_id=draw(st.integers(-1, 3)))
    return group


@given(groups())
def test_subscribed_partitions_have_one_owner_or_are_withheld(group: GroupModel) -> None:
    before = group.owned()
    assigned = group.assigned()
    check_valid(group, assigned)
    missing = subscribed_partitions(group) - {partition for partitions in assigned.values() for partition in partitions}
    if group.assignor_name == "cooperative-sticky":
        assert missing <= {
            partition for partitions in before.values() for partition in partitions
        }  # only owned partitions are withheld
    else:
        assert not missing


@given(groups().flatmap(claiming))
def test_result_is_valid_for_any_claims(group: GroupModel) -> None:
    assigned = group.assigned()
    check_valid(group, assigned)
    if group.assignor_name != "cooperative-sticky":
        assert {partition for partitions in assigned.values() for partition in partitions} == subscribed_partitions(
            group
        )


@given(groups(STICKY).flatmap(claiming))
def test_sticky_group_becomes_balanced(group: GroupModel) -> None:
    group.generation_id = 3
    assert group.rebalance_until_stable() <= 5
    check_balanced(group, group.owned())
    assert {partition for partitions in group.owned().values() for partition in partitions} == subscribed_partitions(
        group
    )


@given(groups(STICKY, equal_subscriptions=True))
def test_equal_subscriptions_get_floor_or_one_more(group: GroupModel) -> None:
    group.rebalance_until_stable()
    floor, remainder = divmod(len(subscribed_partitions(group)), len(group.members))
    assert sorted(group.loads().values()) == [floor] * (len(group.members) - remainder) + [floor + 1] * remainder


@given(groups(STICKY, racks=False))
def test_members_never_swap_partitions_of_a_topic(group: GroupModel) -> None:
    before = group.owned()
    group.rebalance_until_stable()
    assert not swaps(before, group.owned())


# Not with racks: a partition without a replica in the member's rack is freed in every rebalance.
@given(groups(("cooperative-sticky",), racks=False))
def test_cooperative_group_is_stable_after_four_rebalances(group: GroupModel) -> None:
    assert group.rebalance_until_stable() <= 4  # also checks that added and revoked partitions are disjoint
    check_balanced(group, group.owned())


# Not with racks, as above.
@given(groups(STICKY, racks=False))
def test_stable_sticky_group_does_not_change(group: GroupModel) -> None:
    group.rebalance_until_stable()
    stable = group.owned()
    check_balanced(group, stable)
    group.rebalance()
    assert group.owned() == stable


@given(groups().flatmap(claiming), st.randoms(use_true_random=False))
def test_order_of_members_and_topics_is_irrelevant(group: GroupModel, random: object) -> None:
    by = get_assignor(group.assignor_name)
    subscriptions, cluster = group.subscriptions, group.cluster
    assignments = by.assign(cluster, subscriptions)
    reversed_assignments = by.assign(dict(reversed(cluster.items())), dict(reversed(subscriptions.items())))
    assert pairs(assignments) == pairs(reversed_assignments)
    shuffled = list(subscriptions.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert pairs(by.assign(cluster, dict(shuffled))) == pairs(assignments)
