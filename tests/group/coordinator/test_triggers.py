"""Triggers of rebalances."""

import pytest

from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.coordinator import triggers
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember
from slackwater.group.coordinator.states import COMPLETING, INITIAL, PREPARING, STABLE
from slackwater.group.coordinator.triggers import KnownTopic, RejoinTrigger
from slackwater.group.events import Trigger
from slackwater.group.messages import JoinGroup, JoinProtocol
from slackwater.group.topic_partition import TopicPartition

NOW_MS = 1_000_000_000
Protocols = tuple[JoinProtocol, ...]
OWNED = (TopicPartition("a", 0),)


def _range(*topics: str, owned: tuple[TopicPartition, ...] = ()) -> Protocols:
    return (JoinProtocol("range", encode_subscription(Subscription(topics, owned_partitions=owned))),)


class StableGroup:
    """A stable group whose members have an assignment; the first member is the leader."""

    def __init__(self, *members: tuple[Protocols, tuple[TopicPartition, ...]], protocol_type: str = "consumer") -> None:
        self.group = ClassicGroup("g", 0, NOW_MS - 1_000)
        self.protocol_type = protocol_type
        for number, (protocols, assigned) in enumerate(members):
            member = ClassicGroupMember(self.group, f"m{number}", None, "c", "/h", 45_000, 60_000, protocols)
            self.group.add(member, protocol_type)
            self.group.await_join(member, object())
            member.assignment = encode_assignment(Assignment(assigned))
        self.group.transition_to(INITIAL, NOW_MS - 1_000)
        self.group.begin_generation()
        self.group.transition_to(COMPLETING, NOW_MS - 1_000)
        self.group.transition_to(STABLE, NOW_MS - 1_000)

    def rejoin(
        self,
        protocols: Protocols,
        topics: dict[str, KnownTopic] | None = None,
        *,
        leader: bool = False,
        reason: str | None = None,
    ) -> RejoinTrigger:
        member = self.group.members["m0" if leader else "m1"]
        request = JoinGroup(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member.member_id,
            group_instance_id=None,
            protocol_type=self.protocol_type,
            protocols=protocols,
            reason=reason,
            client_id="c",
            client_host="/h",
            uuid="",
        )
        return triggers.rejoin_trigger(self.group, member, request, topics)


def _pair(protocols: Protocols, *, protocol_type: str = "consumer") -> StableGroup:
    """Two members with equal metadata; the leader has partition 0 of topic a and the other has partition 1."""
    assigned = (TopicPartition("a", 0),), (TopicPartition("a", 1),)
    return StableGroup(*[(protocols, partitions) for partitions in assigned], protocol_type=protocol_type)


@pytest.mark.parametrize(
    ("reason", "administrator", "expected"),
    [
        (None, False, Trigger.MEMBER_LEAVE),
        ("the consumer is being closed", False, Trigger.MEMBER_LEAVE),
        ("consumer poll timeout has expired.", False, Trigger.POLL_TIMEOUT),
        ("consumer poll timeout has expired.", True, Trigger.ADMIN_REMOVAL),
    ],
)
def test_leave_trigger_depends_on_reason_and_administrator(
    reason: str | None, administrator: bool, expected: Trigger
) -> None:
    assert triggers.leave_trigger(reason, administrator=administrator) is expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("rebalance enforced by user", Trigger.USER_ENFORCED),
        ("need to revoke partitions [t-0] as indicated by the current assignment", Trigger.COOPERATIVE_FOLLOWUP),
        ("subscription has changed from [a] to [b]", Trigger.SUBSCRIPTION_CHANGE),
    ],
)
def test_rejoin_trigger_follows_the_client_reason(reason: str, expected: Trigger) -> None:
    assert _pair(_range("a")).rejoin(_range("b"), reason=reason).trigger is expected


def test_rejoin_without_reason_compares_metadata() -> None:
    def trigger_of(before: Protocols, after: Protocols, *, leader: bool = False) -> Trigger | None:
        return _pair(before).rejoin(after, leader=leader).trigger

    assert trigger_of(_range("a"), _range("a"), leader=True) is Trigger.LEADER_REJOIN
    assert trigger_of(_range("a"), _range("b")) is Trigger.SUBSCRIPTION_CHANGE
    assert trigger_of(_range("a", owned=OWNED), _range("a")) is Trigger.COOPERATIVE_FOLLOWUP
    assert trigger_of(_range("a", owned=OWNED), _range("a"), leader=True) is Trigger.LEADER_REJOIN
    assert trigger_of(_range("a"), (JoinProtocol("roundrobin", b""),)) is Trigger.PROTOCOL_CHANGE
    unreadable = (JoinProtocol("range", b"\x00"),), (JoinProtocol("range", b"\x01"),)
    assert trigger_of(*unreadable) is Trigger.SUBSCRIPTION_CHANGE
    connect = _pair(_range("a"), protocol_type="connect")
    assert connect.rejoin(_range("b")).trigger is Trigger.SUBSCRIPTION_CHANGE


def test_rejoin_during_a_rebalance_has_no_trigger() -> None:
    group = _pair(_range("a", owned=OWNED))
    group.group.transition_to(PREPARING, NOW_MS)
    for leader in (True, False):
        assert group.rejoin(_range("a"), leader=leader).trigger is None
        assert group.rejoin(_range("b"), leader=leader).trigger is Trigger.SUBSCRIPTION_CHANGE


def test_leader_rejoins_for_new_partitions() -> None:
    group = _pair(_range("a"))
    assert group.rejoin(_range("a"), {"a": KnownTopic(2, 0)}, leader=True) == (Trigger.LEADER_REJOIN, ())
    assert group.rejoin(_range("a"), {"a": KnownTopic(3, 0)}, leader=True) == (Trigger.PARTITIONS_ADDED, ("a",))
    assert group.rejoin(_range("a"), {"a": KnownTopic(3, 0)}) == (Trigger.LEADER_REJOIN, ())  # a follower does not know


def test_leader_rejoins_for_a_created_topic() -> None:
    topics = {"a": KnownTopic(2, 0), "b": KnownTopic(1, NOW_MS)}
    assert _pair(_range("a", "b")).rejoin(_range("a", "b"), topics, leader=True) == (Trigger.PARTITIONS_ADDED, ("b",))


def test_leader_rejoins_for_a_deleted_topic() -> None:
    assert _pair(_range("a")).rejoin(_range("a"), {}, leader=True) == (Trigger.TOPIC_DELETED, ("a",))


def test_partition_that_moves_is_not_a_new_partition() -> None:
    """In the first generation of a cooperative rebalance, a partition that moves is assigned to no member."""
    owner = _range("a", owned=(TopicPartition("a", 0), TopicPartition("a", 1)))
    group = StableGroup((owner, (TopicPartition("a", 0),)), (_range("a"), ()))
    rejoin = group.rejoin(_range("a", owned=OWNED), {"a": KnownTopic(2, 0)}, leader=True)
    assert rejoin == (Trigger.LEADER_REJOIN, ())


def test_new_topic_in_a_subscription_is_a_pattern_match() -> None:
    group = _pair(_range("a"))
    old, new = KnownTopic(2, 0), KnownTopic(2, NOW_MS - 500)
    reason = "subscription has changed from [a] at the beginning of the rebalance to [a, b]"
    assert group.rejoin(_range("a", "b"), {"a": old, "b": new}, reason=reason) == (Trigger.PATTERN_MATCHED, ("b",))
    assert group.rejoin(_range("a", "b"), {"a": old, "b": old}, reason=reason) == (Trigger.SUBSCRIPTION_CHANGE, ())


def test_missing_topic_leaves_a_subscription_after_deletion() -> None:
    group = _pair(_range("a", "b"))
    assert group.rejoin(_range("a"), {"a": KnownTopic(2, 0)}) == (Trigger.TOPIC_DELETED, ("b",))
    both = {"a": KnownTopic(2, 0), "b": KnownTopic(2, 0)}
    assert group.rejoin(_range("a"), both) == (Trigger.SUBSCRIPTION_CHANGE, ())
