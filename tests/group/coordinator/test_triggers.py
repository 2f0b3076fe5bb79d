"""Triggers of rebalances."""

import pytest

from slackwater.group.assignors.consumer_protocol import Subscription, encode_subscription
from slackwater.group.coordinator import triggers
from slackwater.group.events import Trigger
from slackwater.group.messages import JoinProtocol
from slackwater.group.topic_partition import TopicPartition


def _range(*topics: str, owned: tuple[TopicPartition, ...] = ()) -> tuple[JoinProtocol, ...]:
    return (JoinProtocol("range", encode_subscription(Subscription(topics, owned_partitions=owned))),)


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
    assert triggers.rejoin_trigger("consumer", _range("a"), _range("b"), reason, leader=False) is expected


def test_rejoin_without_reason_compares_metadata() -> None:
    owned = (TopicPartition("a", 0),)

    def trigger_of(
        before: tuple[JoinProtocol, ...], after: tuple[JoinProtocol, ...], *, leader: bool = False
    ) -> Trigger:
        return triggers.rejoin_trigger("consumer", before, after, None, leader=leader)

    assert trigger_of(_range("a"), _range("a"), leader=True) is Trigger.LEADER_REJOIN
    assert trigger_of(_range("a"), _range("b")) is Trigger.SUBSCRIPTION_CHANGE
    assert trigger_of(_range("a", owned=owned), _range("a")) is Trigger.COOPERATIVE_FOLLOWUP
    assert trigger_of(_range("a", owned=owned), _range("a"), leader=True) is Trigger.LEADER_REJOIN
    assert trigger_of(_range("a"), (JoinProtocol("roundrobin", b""),)) is Trigger.PROTOCOL_CHANGE
    assert (
        trigger_of((JoinProtocol("range", b"\x00"),), (JoinProtocol("range", b"\x01"),)) is Trigger.SUBSCRIPTION_CHANGE
    )
    assert (
        triggers.rejoin_trigger("connect", _range("a"), _range("b"), None, leader=False) is Trigger.SUBSCRIPTION_CHANGE
    )
