"""Assignors by name, and custom assignors."""

from collections.abc import Mapping
from typing import ClassVar

import pytest

from slackwater.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    MemberSubscription,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    TopicInfo,
    get_assignor,
)
from slackwater.group.assignors.consumer_protocol import Assignment, Subscription
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("range", RangeAssignor),
        ("roundrobin", RoundRobinAssignor),
        ("sticky", StickyAssignor),
        ("cooperative-sticky", CooperativeStickyAssignor),
    ],
)
def test_short_and_java_names_are_equivalent(name: str, kind: type[Assignor]) -> None:
    for instance in (get_assignor(name), get_assignor(f"org.apache.kafka.clients.consumer.{kind.__name__}")):
        assert type(instance) is kind
        assert instance.name == name
        assert instance.built_in


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cooperative_sticky", "cooperative-sticky"),
        ("ranges", "range"),
        ("org.apache.kafka.clients.consumer.StickyAsignor", "org.apache.kafka.clients.consumer.StickyAssignor"),
    ],
)
def test_unknown_name_suggests_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(UsageError) as raised:
        get_assignor(wrong)
    assert f"did you mean {right!r}?" in str(raised.value)
    assert "range, roundrobin, sticky, cooperative-sticky" in str(raised.value)


def test_only_cooperative_sticky_is_cooperative() -> None:
    assert get_assignor("cooperative-sticky").protocols == (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    for name in ("range", "roundrobin", "sticky"):
        assert get_assignor(name).protocols == (RebalanceProtocol.EAGER,)


class EverythingToTheFirst(Assignor):
    """A minimal custom assignor."""

    name: ClassVar[str] = "first"

    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        everything = [TopicPartition(topic, at) for topic, info in cluster.items() for at in range(info.partitions)]
        first = min(members)
        return {member_id: Assignment(everything if member_id == first else ()) for member_id in members}


def test_custom_assignor_instance_is_returned() -> None:
    custom = EverythingToTheFirst()
    assert get_assignor(custom) is custom
    assert not custom.built_in
    assert custom.protocols == (RebalanceProtocol.EAGER,)
    assert custom.user_data(None, -1) is None
    members = {member_id: MemberSubscription(None, Subscription(("t",))) for member_id in ("b", "a")}
    assignments = custom.assign({"t": TopicInfo(2)}, members)
    assert assignments == {"a": Assignment([TopicPartition("t", 0), TopicPartition("t", 1)]), "b": Assignment(())}
