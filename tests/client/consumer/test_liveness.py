"""KIP-62: background heartbeats, joins in poll(), and max.poll.interval.ms enforced by the member."""

import threading
import time
from collections.abc import Callable

import pytest

from slackwater import Consumer
from slackwater.client.consumer.consumer import RebalanceListener
from slackwater.group.events import EventKind, GroupEvent, MemberLeft
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, fill, numbers, poll_until, read, wait_for

Membership = tuple[int, str]


def membership(client: Consumer) -> Membership:
    """Return generation and member id; both change if the member expires."""
    member = client.engine.require_group("the test").member
    return member.generation_id, member.member_id


def events_of(client: Consumer) -> list[GroupEvent]:
    events: list[GroupEvent] = []
    client.on_event(events.append)
    return events


def reasons_for_leaving(broker: Kafka, group: str) -> set[str | None]:
    """Return the reasons of members that left."""
    return {event.detail.reason for event in broker.events(group) if isinstance(event.detail, MemberLeft)}


def idle(condition: Callable[[], object]) -> None:
    """Wait for a condition without polling."""
    wait_for(condition)


def test_group_metadata_keeps_the_lost_generation(cluster: ClusterUnderTest) -> None:
    """A transactional producer that sends it is fenced; without a generation its offsets would be accepted."""
    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group) as client:
        assert client.group_metadata() == (group, -1, "", None)
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        before = client.group_metadata()
        assert before == (group, *membership(client), None)
        cluster.evict(group, client)
        idle(lambda: membership(client)[0] == -1)
        assert client.group_metadata() == before
        poll_until(client, lambda: membership(client)[0] > before.generation_id)
        assert client.group_metadata() == (group, *membership(client), None)


@pytest.mark.old_kafka
def test_poll_overrun_leaves_and_next_poll_rejoins(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    lost: list[object] = []

    class Listener(RebalanceListener):
        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            lost.append(partitions)

    with consumer(cluster, group, max_poll_interval_ms=1_000, session_timeout_ms=10_000) as client:
        events = events_of(client)
        client.subscribe([topic], listener=Listener())
        poll_until(client, lambda: client.assignment)
        idle(lambda: cluster.group_state(group) == "Empty")
        if cluster.broker is not None:
            assert reasons_for_leaving(cluster.broker, group) == {"consumer poll timeout has expired."}
        poll_until(client, lambda: lost and client.assignment)
        wait_for(lambda: cluster.group_state(group) == "Stable")
        assert EventKind.POLL_OVERRUN in [event.kind for event in events]


def test_long_poll_counts_as_polling(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group, max_poll_interval_ms=1_000) as client:
        events = events_of(client)
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        assert client.poll(2.2) == []
        assert EventKind.POLL_OVERRUN not in [event.kind for event in events]


def test_polling_paused_partitions_keeps_membership(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    fill(cluster, topic, numbers(2))
    with consumer(cluster, group, max_poll_interval_ms=1_000, max_poll_records=1) as client:
        events = events_of(client)
        client.subscribe([topic])
        read(client, 1)
        client.pause(client.assignment)
        until = time.monotonic() + 2.2
        assert not poll_until(client, lambda: time.monotonic() > until)
        client.resume(client.assignment)
        assert [record.value for record in read(client, 1)] == [b"1"]
        assert EventKind.POLL_OVERRUN not in [event.kind for event in events]


@pytest.mark.old_kafka
def test_heartbeats_outlive_session_timeout(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group, session_timeout_ms=3_000, heartbeat_interval_ms=50) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        before, before_idle = client.metrics(), membership(client)
        until = time.monotonic() + 3.5
        idle(lambda: time.monotonic() > until)
        assert cluster.group_state(group) == "Stable"
        client.poll(0)
        assert membership(client) == before_idle
        name = next(name for name in before if name.name == "heartbeat-total")
        assert client.metrics()[name] > before[name]


def test_heartbeats_continue_until_poll_rejoins(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(2), cluster.name("g")
    options = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 50}
    with consumer(cluster, group, **options) as client, consumer(cluster, group, **options) as other:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        other.subscribe([topic])
        _, member_id = membership(client)
        poll_until(other, lambda: cluster.group_state(group) == "PreparingRebalance")
        until = time.monotonic() + 3.5  # more than its session
        poll_until(other, lambda: time.monotonic() > until)
        assert cluster.group_state(group) == "PreparingRebalance"

        def shared() -> bool:
            other.poll(0)
            return len(client.assignment) == len(other.assignment) == 1

        poll_until(client, shared)
        assert membership(client)[1] == member_id


def test_assign_sends_neither_a_heartbeat_nor_a_join(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    fill(cluster, topic, numbers(1))
    with consumer(cluster, group, heartbeat_interval_ms=20) as client:
        client.assign([TopicPartition(topic, 0)])
        read(client, 1)
        client.commit()
        until = time.monotonic() + 0.15
        idle(lambda: time.monotonic() > until)
        totals = {name.name: value for name, value in client.metrics().items()}
        assert totals["heartbeat-total"] == totals["join-total"] == 0
    assert cluster.group_state(group) == "Empty"
    (description,) = cluster.admin.describe_groups([group])
    assert not description.protocol_type  # the group has never had a member


@pytest.mark.old_kafka
def test_static_member_returns_without_rebalance(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    memberships: list[Membership] = []
    for _ in range(2):
        with consumer(cluster, group, group_instance_id="one") as client:
            client.subscribe([topic])
            poll_until(client, lambda: client.assignment)
            memberships.append(membership(client))
        assert cluster.group_state(group) == "Stable"
    assert [generation for generation, _ in memberships] == [1, 1]
    assert memberships[0] != memberships[1]  # the second member has replaced the first


def test_static_member_leaves_with_leave_group(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    client = consumer(cluster, group, group_instance_id="one")
    client.subscribe([topic])
    poll_until(client, lambda: client.assignment)
    client.close(leave_group=True)
    wait_for(lambda: cluster.group_state(group) == "Empty")


@pytest.mark.old_kafka
def test_dynamic_member_leaves_on_close(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
    assert cluster.group_state(group) == "Empty"
    if cluster.broker is not None:
        assert reasons_for_leaving(cluster.broker, group) == {"the consumer is being closed"}


@pytest.mark.old_kafka
def test_commit_callbacks_run_on_polling_thread(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    fill(cluster, topic, numbers(3))
    calls: list[tuple[int, int]] = []
    partition = TopicPartition(topic, 0)
    with consumer(cluster, group, enable_auto_commit=False) as client:
        client.subscribe([topic])
        read(client, 3)
        for offset in (1, 2, 3):
            client.commit_async(
                {partition: offset},
                lambda offsets, error: calls.append((offsets[partition].offset, threading.get_ident())),
            )
        client.commit({partition: 3})  # CL-38: earlier callbacks run first
        assert calls == [(offset, threading.get_ident()) for offset in (1, 2, 3)]
