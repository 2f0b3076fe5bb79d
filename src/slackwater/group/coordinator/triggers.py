"""Derives the trigger of a rebalance from a request.

The client's reason (KIP-800) decides if it is known; otherwise the metadata before and after is compared.
"""

from typing import Final

from slackwater.group.coordinator.subscriptions import CONSUMER, topics_of
from slackwater.group.events import Trigger
from slackwater.group.messages import JoinProtocol

# Prefixes of the reasons that Java clients send since 3.2 (docs/kafka-behaviours.md, section 14).
_JOIN_REASONS: Final = (
    ("rebalance enforced by user", Trigger.USER_ENFORCED),
    ("need to revoke partitions", Trigger.COOPERATIVE_FOLLOWUP),
    ("subscription has changed", Trigger.SUBSCRIPTION_CHANGE),
)


def leave_trigger(reason: str | None, *, administrator: bool) -> Trigger:
    """Return the trigger of a leave: administrator, poll timeout, or a normal leave."""
    if administrator:
        return Trigger.ADMIN_REMOVAL
    if reason is not None and "poll timeout" in reason:
        return Trigger.POLL_TIMEOUT
    return Trigger.MEMBER_LEAVE


def rejoin_trigger(
    protocol_type: str,
    before: tuple[JoinProtocol, ...],
    after: tuple[JoinProtocol, ...],
    reason: str | None,
    *,
    leader: bool,
) -> Trigger:
    """Return the trigger of a rejoin."""
    for prefix, trigger in _JOIN_REASONS:
        if reason is not None and reason.startswith(prefix):
            return trigger
    if before == after:
        return Trigger.LEADER_REJOIN
    if [protocol.name for protocol in before] != [protocol.name for protocol in after]:
        return Trigger.PROTOCOL_CHANGE
    if protocol_type == CONSUMER and _same_topics(before, after):
        # Same topics, different bytes: the owned partitions changed, so this follows a cooperative rebalance.
        return Trigger.LEADER_REJOIN if leader else Trigger.COOPERATIVE_FOLLOWUP
    return Trigger.SUBSCRIPTION_CHANGE


def _same_topics(before: tuple[JoinProtocol, ...], after: tuple[JoinProtocol, ...]) -> bool:
    for old, new in zip(before, after, strict=True):
        topics = topics_of([old.metadata])
        if topics is None or topics != topics_of([new.metadata]):
            return False
    return True
