"""A lost coordinator connection is replaced without a rebalance."""

import pytest

from slackwater import Consumer
from slackwater.client.network.cluster import COORDINATOR
from slackwater.client.network.connection import BrokerConnection
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import Side
from tests.client.helpers import consumer, poll_until

LOST, FOUND = EventKind.COORDINATOR_LOST, EventKind.COORDINATOR_FOUND


def coordinators(client: Consumer) -> list[BrokerConnection]:
    """The connections to it that are open."""
    return [
        each
        for (_, _, purpose), each in client.engine.cluster.connections.items()
        if purpose == COORDINATOR and each.is_open
    ]


@pytest.mark.old_kafka
def test_lost_idle_connection_triggers_coordinator_lookup(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "slackwater.client.consumer.consumer")
    topic = side.topic()
    calls: list[EventKind] = []
    # No heartbeat is sent during the test, so only the lost connection is detected.
    with consumer(side, side.name("g"), heartbeat_interval_ms=14_000, enable_auto_commit=False) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment and client.position(TopicPartition(topic, 0)) == 0)
        before = client.group_metadata()
        (connection,) = coordinators(client)
        poll_until(client, lambda: not connection.in_flight)
        client.on_event(lambda event: calls.append(event.kind))
        client.engine.network.call_soon(connection.abort, "it was cut")
        poll_until(client, lambda: FOUND in calls)
        client.commit({TopicPartition(topic, 0): 0})
        assert [kind for kind in calls if kind in (LOST, FOUND)] == [LOST, FOUND]
        assert client.group_metadata() == before
    assert "due to cause: coordinator unavailable. isDisconnected: true. Rediscovery will be attempted." in caplog.text
