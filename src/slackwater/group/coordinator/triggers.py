"""Why a rebalance starts, as far as the coordinator can tell from the request.

Rules kept here
- A client's own reason (KIP-800) is believed; without one the metadata is compared; what is left is `leader_rejoin`
  or `subscription_change`, never a guess at more.
"""

from typing import Final

from slackwater.group.coordinator.subscriptions import CONSUMER, topics_of
from slackwater.group.events import Trigger
from slackwater.group.messages import JoinProtocol

# The beginnings of the reasons that Java clients since 3.2 send (catalogue, section 14).
_JOIN_REASONS: Final = (
    ("rebalance enforced by user", Trigger.USER_ENFORCED),
    ("need to revoke partitions", Trigger.COOPERATIVE_FOLLOWUP),
    ("subscription has changed", Trigger.SUBSCRIPTION_CHANGE),
)


def of_leave(reason: str | None, *, administrator: bool) -> Trigger:
    """Why a leave starts a rebalance: an administrator, a poll interval overrun, or simply a member that goes."""
    if administrator:
        return Trigger.ADMIN_REMOVAL
    if reason is not None and "poll timeout" in reason:
        return Trigger.POLL_TIMEOUT
    return Trigger.MEMBER_LEAVE


def of_rejoin(
    protocol_type: str,
    before: tuple[JoinProtocol, ...],
    after: tuple[JoinProtocol, ...],
    reason: str | None,
    *,
    leader: bool,
) -> Trigger:
    """Why a rejoin starts a rebalance."""
    for beginning, trigger in _JOIN_REASONS:
        if reason is not None and reason.startswith(beginning):
            return trigger
    if before == after:
        return Trigger.LEADER_REJOIN
    if [protocol.name for protocol in before] != [protocol.name for protocol in after]:
        return Trigger.PROTOCOL_CHANGE
    if protocol_type == CONSUMER and _same_topics(before, after):
        # The same topics in other bytes: what changed is what the member owns, so it follows up on a cooperative round.
        return Trigger.LEADER_REJOIN if leader else Trigger.COOPERATIVE_FOLLOWUP
    return Trigger.SUBSCRIPTION_CHANGE


def _same_topics(before: tuple[JoinProtocol, ...], after: tuple[JoinProtocol, ...]) -> bool:
    for old, new in zip(before, after, strict=True):
        topics = topics_of([old.metadata])
        if topics is None or topics != topics_of([new.metadata]):
            return False
    return True
