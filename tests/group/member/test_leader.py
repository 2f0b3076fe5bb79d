"""The leader: snapshots, decoding of subscriptions, and the check of custom assignors."""

from collections.abc import Mapping

import pytest

from slackwater.group.assignors import Assignor, MemberSubscription, RangeAssignor, RebalanceProtocol, TopicInfo
from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_subscription,
)
from slackwater.group.errors import PeerError
from slackwater.group.member import AssignorFailed
from slackwater.group.member.leader import assign, decode_subscriptions, take_snapshot
from slackwater.group.messages import JoinedMember
from slackwater.group.topic_partition import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
CLUSTER = {"a": TopicInfo(2, (frozenset({"r1"}), frozenset({"r2"}))), "b": TopicInfo(1)}


class FixedAssignor(Assignor):
    """Returns a fixed assignment."""

    name = "fixed"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self, **assignments: tuple[TopicPartition, ...]) -> None:
        self.assignments = assignments

    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        return {member_id: Assignment(partitions) for member_id, partitions in self.assignments.items()}


def subscriber(*owned: TopicPartition) -> MemberSubscription:
    """Return a member that subscribes to topic a and owns these partitions."""
    return MemberSubscription(None, Subscription(("a",), None, owned))


def test_snapshot_has_existing_topics_and_optional_racks() -> None:
    assert take_snapshot(CLUSTER, ["b", "a", "zz"], None).topics == (("a", 2, None), ("b", 1, None))
    assert take_snapshot(CLUSTER, ["a"], "r1").topics == (("a", 2, (frozenset({"r1"}), frozenset({"r2"}))),)
    assert str(take_snapshot(CLUSTER, ["a", "b"], None)) == "{a=2, b=1}"


def test_subscriptions_are_decoded_with_instance_id() -> None:
    data = encode_subscription(Subscription(("a",)))
    (member,) = decode_subscriptions([JoinedMember("m1", "i1", data)]).values()
    assert (member.group_instance_id, member.subscription.topics) == ("i1", ("a",))
    with pytest.raises(PeerError, match="member m2 joined with bytes that are no consumer subscription"):
        decode_subscriptions([JoinedMember("m2", None, b"")])


def test_built_in_assignors_use_subscriptions() -> None:
    encoded, topics = assign(
        RangeAssignor(), RebalanceProtocol.EAGER, CLUSTER, {"m1": subscriber(), "m2": subscriber()}
    )
    assert {member_id: tuple(decode_assignment(data).partitions) for member_id, data in encoded.items()} == {
        "m1": (A0,),
        "m2": (A1,),
    }
    assert topics == {"a"}


def test_direct_move_is_rejected_in_cooperative_groups() -> None:
    swap = FixedAssignor(m1=(A1,), m2=(A0,))
    members = {"m1": subscriber(A0), "m2": subscriber(A1)}
    assign(swap, RebalanceProtocol.EAGER, CLUSTER, members)
    with pytest.raises(AssignorFailed, match="fixed reassigned a-0, a-1 while still owned"):
        assign(swap, RebalanceProtocol.COOPERATIVE, CLUSTER, members)


def test_unknown_member_owns_nothing() -> None:
    encoded, _ = assign(FixedAssignor(stranger=(A0,)), RebalanceProtocol.COOPERATIVE, CLUSTER, {"m1": subscriber()})
    assert set(encoded) == {"stranger"}
