"""Subscriptions, owned partitions and positions."""

import pytest

from slackwater.group.assignors import TopicInfo
from slackwater.group.errors import UsageError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.member.subscription import SubscriptionState, SubscriptionType
from slackwater.group.topic_partition import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
CLUSTER = {"a": TopicInfo(2), "b": TopicInfo(1), "ab": TopicInfo(1), "__consumer_offsets": TopicInfo(50)}


@pytest.fixture
def subscription() -> SubscriptionState:
    """Return a state without subscription and partitions."""
    return SubscriptionState(exclude_internal_topics=True)


def test_subscription_types_exclude_each_other(subscription: SubscriptionState) -> None:
    subscription.subscribe(["a"])
    with pytest.raises(UsageError, match="this consumer uses topics, so unsubscribe before using pattern"):
        subscription.subscribe_pattern("a.*", CLUSTER)
    with pytest.raises(UsageError, match="unsubscribe before using manual"):
        subscription.assign([A0])
    assert (subscription.type, subscription.topics) == (SubscriptionType.TOPICS, frozenset({"a"}))
    subscription.clear()
    subscription.assign([A0])
    assert not subscription.is_group_managed
    assert subscription.owned == {A0}


def test_pattern_matches_whole_names(subscription: SubscriptionState) -> None:
    subscription.subscribe_pattern("a|_.*", CLUSTER)
    assert subscription.topics == {"a"}
    assert subscription.accepts([A0])
    assert not subscription.accepts([A0, B0])


def test_invalid_pattern_changes_nothing(subscription: SubscriptionState) -> None:
    with pytest.raises(UsageError, match="is not a regular expression"):
        subscription.subscribe_pattern("a(", CLUSTER)
    assert subscription.type is SubscriptionType.NONE


def test_only_patterns_depend_on_metadata(subscription: SubscriptionState) -> None:
    subscription.subscribe(["a"])
    subscription.match(CLUSTER)
    assert subscription.topics == {"a"}


def test_positions_only_of_owned_partitions(subscription: SubscriptionState) -> None:
    subscription.subscribe(["a", "b"])
    subscription.add_owned(frozenset({A0, B0}))
    position = OffsetAndMetadata(5)
    subscription.set_consumed({B0: position, A1: position, A0: position})
    assert list(subscription.all_consumed()) == [A0, B0]
    subscription.remove_owned(frozenset({A0}))
    subscription.add_owned(frozenset({A0}))
    assert subscription.all_consumed() == {B0: position}


def test_reassign_keeps_positions_of_kept_partitions(subscription: SubscriptionState) -> None:
    subscription.assign([A0, A1])
    subscription.set_consumed({A0: OffsetAndMetadata(1), A1: OffsetAndMetadata(2)})
    subscription.assign([A1])
    assert subscription.all_consumed() == {A1: OffsetAndMetadata(2)}


def test_leaving_partitions_are_not_fetchable(subscription: SubscriptionState) -> None:
    subscription.subscribe(["a"])
    subscription.add_owned(frozenset({A0, A1}))
    subscription.pending_revocation = frozenset({A0})
    assert subscription.fetchable == {A1}
    subscription.revoking = True
    assert subscription.fetchable == frozenset()
    subscription.clear()
    assert not subscription.revoking
    assert not subscription.owned
