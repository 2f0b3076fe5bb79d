"""Publishing a member's events to a topic."""

import logging
import uuid

import pytest

import slackwater.client.consumer.event_publisher as publishing
from slackwater.group.events import EventKind, EventSource, GroupEvent
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, fill, numbers, poll_until, read


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic for events on a cluster without `__group_events`."""
    name = f"member-events-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(publishing.EventPublisher.__init__, "__defaults__", (name,))
    return name


@pytest.mark.old_kafka
def test_member_events_are_published(cluster: ClusterUnderTest, events: str) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group, group_events_publish=True) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
    with consumer(cluster) as reader:
        reader.assign([TopicPartition(events, 0)])
        records = read(reader, 5)
    assert {record.key for record in records} == {group.encode()}
    published = [GroupEvent.from_json((record.value or b"").decode()) for record in records]
    assert {event.source for event in published} == {EventSource.MEMBER}
    kinds = [event.kind for event in published]
    assert kinds[0] is EventKind.COORDINATOR_FOUND
    assert EventKind.PARTITIONS_ASSIGNED in kinds
    assert EventKind.PARTITIONS_REVOKED in kinds


def test_events_are_published_only_if_enabled(cluster: ClusterUnderTest, events: str) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        assert client.partitions_for(events) == []


def test_denied_events_topic_does_not_affect_consumer(
    kafka: Kafka, events: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("t", 1)
    kafka.create_topic(events, 1)
    fill(kafka, "t", numbers(3))
    kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with (
        caplog.at_level(logging.WARNING, "slackwater.client.events"),
        consumer(kafka, "g", group_events_publish=True) as client,
    ):
        client.subscribe(["t"])
        assert len(read(client, 3)) == 3
        poll_until(client, lambda: f"No more events of this member are written to {events}" in caplog.text)
    assert caplog.text.count(f"No more events of this member are written to {events}") == 1


def test_transient_failure_is_survived(kafka: Kafka, events: str) -> None:
    kafka.create_topic("t", 1)
    kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    with consumer(kafka, "g", group_events_publish=True) as client:
        client.subscribe(["t"])
        poll_until(client, lambda: client.assignment)
    with consumer(kafka) as reader:
        reader.assign([TopicPartition(events, 0)])
        assert len(read(reader, 5)) >= 5
