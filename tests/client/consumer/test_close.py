"""close(): a member leaves its group, or stays until its session expires (KIP-1092)."""

import pytest

from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import Side
from tests.client.helpers import consumer, fill, numbers, poll_until, read
from tests.waiting import wait_until

PATIENCE_S = 60.0
STATIC = {"group_instance_id": "one"}


def closed(side: Side, group: str, leave_group: bool | None, **settings: object) -> list[ConsumerRecord]:
    """What a member read that was closed then."""
    topic = side.topic()
    fill(side, topic, numbers(3))
    client = consumer(side, group, **settings)
    try:
        client.subscribe([topic])
        results = read(client, 3)
    finally:
        client.close(leave_group=leave_group)
    return results


@pytest.mark.old_kafka
@pytest.mark.parametrize(
    ("leave_group", "settings"),
    [(None, {}), (True, {}), (True, STATIC)],
    ids=["dynamic", "dynamic, said", "static, said"],
)
def test_leaving_member_is_removed_at_once(side: Side, leave_group: bool | None, settings: dict[str, object]) -> None:
    group = side.name("g")
    closed(side, group, leave_group, **settings)
    wait_until(lambda: side.group_state(group) == "Empty", lambda: side.group_state(group), 20.0)  # less than a session


@pytest.mark.old_kafka
@pytest.mark.parametrize(
    ("leave_group", "settings"),
    [(False, {}), (None, STATIC), (False, STATIC)],
    ids=["dynamic, said", "static", "static, said"],
)
def test_staying_member_remains_after_close(side: Side, leave_group: bool | None, settings: dict[str, object]) -> None:
    group = side.name("g")
    (record, *_) = closed(side, group, leave_group, **settings)
    (results,) = side.admin.describe_groups([group])
    assert (results.state, len(results.members)) == ("Stable", 1)
    committed = side.admin.committed(group)
    assert {where: at.offset for where, at in committed.items()} == {TopicPartition(record.topic, 0): 3}


@pytest.mark.kafka(virtual_time=True)
def test_staying_member_expires_with_its_session(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    client = consumer(kafka, "g")
    client.subscribe(["t"])
    poll_until(client, lambda: client.assignment)
    client.close(leave_group=False)
    assert kafka.describe_group("g").state == "Stable"
    kafka.advance(46.0)
    wait_until(lambda: kafka.describe_group("g").state == "Empty", lambda: kafka.describe_group("g"), PATIENCE_S)
    assert [event.kind for event in kafka.events("g")].count(EventKind.MEMBER_EXPIRED) == 1
