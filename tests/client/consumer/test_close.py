"""close(): a member leaves its group, or stays until its session expires (KIP-1092)."""

import pytest

from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, fill, numbers, poll_until, read
from tests.waiting import wait_until

TIMEOUT_S = 60.0
STATIC = {"group_instance_id": "one"}


def read_and_close(
    cluster: ClusterUnderTest, group: str, leave_group: bool | None, **settings: object
) -> list[ConsumerRecord]:
    """Read three records as a member, close it, and return the records."""
    topic = cluster.topic()
    fill(cluster, topic, numbers(3))
    client = consumer(cluster, group, **settings)
    try:
        client.subscribe([topic])
        records = read(client, 3)
    finally:
        client.close(leave_group=leave_group)
    return records


@pytest.mark.old_kafka
@pytest.mark.parametrize(
    ("leave_group", "settings"),
    [(None, {}), (True, {}), (True, STATIC)],
    ids=["dynamic", "dynamic, explicit", "static, explicit"],
)
def test_leaving_member_is_removed_at_once(
    cluster: ClusterUnderTest, leave_group: bool | None, settings: dict[str, object]
) -> None:
    group = cluster.name("g")
    read_and_close(cluster, group, leave_group, **settings)
    # The timeout is shorter than a session.
    wait_until(lambda: cluster.group_state(group) == "Empty", lambda: cluster.group_state(group), 20.0)


@pytest.mark.old_kafka
@pytest.mark.parametrize(
    ("leave_group", "settings"),
    [(False, {}), (None, STATIC), (False, STATIC)],
    ids=["dynamic, explicit", "static", "static, explicit"],
)
def test_staying_member_remains_after_close(
    cluster: ClusterUnderTest, leave_group: bool | None, settings: dict[str, object]
) -> None:
    group = cluster.name("g")
    (record, *_) = read_and_close(cluster, group, leave_group, **settings)
    (description,) = cluster.admin.describe_groups([group])
    assert (description.state, len(description.members)) == ("Stable", 1)
    committed = cluster.admin.committed(group)
    assert {partition: commit.offset for partition, commit in committed.items()} == {TopicPartition(record.topic, 0): 3}


@pytest.mark.kafka(virtual_time=True)
def test_staying_member_expires_with_its_session(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    client = consumer(kafka, "g")
    client.subscribe(["t"])
    poll_until(client, lambda: client.assignment)
    client.close(leave_group=False)
    assert kafka.describe_group("g").state == "Stable"
    kafka.advance(46.0)
    wait_until(lambda: kafka.describe_group("g").state == "Empty", lambda: kafka.describe_group("g"), TIMEOUT_S)
    assert [event.kind for event in kafka.events("g")].count(EventKind.MEMBER_EXPIRED) == 1
