"""Derives the trigger of a rebalance from a request, the group's assignment and the topics of the broker.

Invariants:
- A changed set of topics is compared with the topics that exist, because a Java client gives the same reason for a
  pattern that matches a new topic and for a changed subscription. A topic that is younger than the generation counts
  as matched by a pattern.
- A leader that rejoins with the same topics has seen their partitions change, if the assignment does not cover them.
  A partition that a cooperative rebalance moves is in no assignment but in the subscription of its old owner.
- Otherwise the client's reason (KIP-800) decides, or the metadata before and after.
- A member that only rejoins because the group rebalances has no trigger.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember
from slackwater.group.coordinator.states import INITIAL, PREPARING, STABLE
from slackwater.group.coordinator.subscriptions import CONSUMER, topics_of
from slackwater.group.events import Trigger
from slackwater.group.messages import JoinGroup, JoinProtocol

# Prefixes of the reasons that Java clients send since 3.2 (docs/kafka-behaviours.md, section 14).
_JOIN_REASONS: Final = (
    ("rebalance enforced by user", Trigger.USER_ENFORCED),
    ("need to revoke partitions", Trigger.COOPERATIVE_FOLLOWUP),
)


class KnownTopic(NamedTuple):
    """A topic of the broker; `created_ms` is 0 if it existed when the broker started."""

    partition_count: int
    created_ms: int


class RejoinTrigger(NamedTuple):
    """Why a member rejoins, and the topics whose change is the reason."""

    trigger: Trigger | None
    topics: tuple[str, ...] = ()


def leave_trigger(reason: str | None, *, administrator: bool) -> Trigger:
    """Return the trigger of a leave: administrator, poll timeout, or a normal leave."""
    if administrator:
        return Trigger.ADMIN_REMOVAL
    if reason is not None and "poll timeout" in reason:
        return Trigger.POLL_TIMEOUT
    return Trigger.MEMBER_LEAVE


def rejoin_trigger(
    group: ClassicGroup,
    member: ClassicGroupMember,
    request: JoinGroup,
    topics: Mapping[str, KnownTopic] | None,
) -> RejoinTrigger:
    """Return the trigger of a rejoin; `topics` is None if the coordinator does not know the topics."""
    for prefix, trigger in _JOIN_REASONS:
        if request.reason is not None and request.reason.startswith(prefix):
            return RejoinTrigger(trigger)
    before, after = member.protocols, request.protocols
    if [protocol.name for protocol in before] != [protocol.name for protocol in after]:
        return RejoinTrigger(Trigger.PROTOCOL_CHANGE)
    is_leader = group.leader_id == member.member_id
    is_consumer = request.protocol_type == CONSUMER
    if before != after:
        old, new = (_topics(before), _topics(after)) if is_consumer else (None, None)
        if old is None or old != new:
            return _subscription_trigger(old, new, topics, group.state_since_ms)
    if group.state in (INITIAL, PREPARING):
        return RejoinTrigger(None)
    is_monitoring = is_leader and is_consumer and group.state is STABLE
    if is_monitoring and topics is not None and (change := _partition_change(group, topics)) is not None:
        return change
    if before == after or is_leader:
        return RejoinTrigger(Trigger.LEADER_REJOIN)
    # Same topics, different bytes: the owned partitions changed, so this follows a cooperative rebalance.
    return RejoinTrigger(Trigger.COOPERATIVE_FOLLOWUP)


def _topics(protocols: Iterable[JoinProtocol]) -> frozenset[str] | None:
    return topics_of([protocol.metadata for protocol in protocols])


def _subscription_trigger(
    before: frozenset[str] | None,
    after: frozenset[str] | None,
    topics: Mapping[str, KnownTopic] | None,
    since_ms: int,
) -> RejoinTrigger:
    """Return why a member's set of topics changed: a pattern and a new or deleted topic, or the application."""
    if before is not None and after is not None and topics is not None:
        added, removed = sorted(after - before), sorted(before - after)
        if added and all(topic in topics and topics[topic].created_ms >= since_ms for topic in added):
            return RejoinTrigger(Trigger.PATTERN_MATCHED, tuple(added))
        if removed and not added and not any(topic in topics for topic in removed):
            return RejoinTrigger(Trigger.TOPIC_DELETED, tuple(removed))
    return RejoinTrigger(Trigger.SUBSCRIPTION_CHANGE)


def _partition_change(group: ClassicGroup, topics: Mapping[str, KnownTopic]) -> RejoinTrigger | None:
    """Compare the partitions of the current generation with those that exist; None if they are the same."""
    assigned = _assigned_partitions(group)
    if assigned is None or group.subscribed_topics is None:
        return None
    if deleted := sorted(topic for topic in assigned if topic not in topics):
        return RejoinTrigger(Trigger.TOPIC_DELETED, tuple(deleted))
    grown = sorted(
        topic
        for topic in group.subscribed_topics
        if topic in topics and topics[topic].partition_count > assigned.get(topic, 0)
    )
    return RejoinTrigger(Trigger.PARTITIONS_ADDED, tuple(grown)) if grown else None


def _assigned_partitions(group: ClassicGroup) -> dict[str, int] | None:
    """Return the number of partitions per topic that members have or had; None if an assignment is unreadable."""
    from slackwater.group.assignors.consumer_protocol import MalformedMetadata, decode_assignment, decode_subscription

    counts: dict[str, int] = {}
    try:
        for member in group.members.values():
            owned = decode_subscription(member.metadata(group.protocol_name)).owned_partitions
            for topic, partition in (*decode_assignment(member.assignment).partitions, *owned):
                counts[topic] = max(counts.get(topic, 0), partition + 1)
    except MalformedMetadata:
        return None
    return counts
