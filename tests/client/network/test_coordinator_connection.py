"""A lost coordinator connection is replaced without a rebalance."""

import pytest

from slackwater import Consumer
from slackwater.client.network.cluster import COORDINATOR
from slackwater.client.network.connection import BrokerConnection
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, poll_until

LOST, FOUND = EventKind.COORDINATOR_LOST, EventKind.COORDINATOR_FOUND


def coordinators(client: Consumer) -> list[BrokerConnection]:
    """The open connections to the coordinator."""
    return [
        connection
        for (_, _, purpose), connection in client.engine.cluster.connections.items()
        if purpose == COORDINATOR and connection.is_open
    ]


@pytest.mark.old_kafka
def test_lost_idle_connection_triggers_coordinator_lookup(
    cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "slackwater.client.consumer.consumer")
    topic = cluster.topic()
    events: list[EventKind] = []
    # No heartbeat is sent during the test, so only the lost connection is detected.
    with consumer(cluster, cluster.name("g"), heartbeat_interval_ms=14_000, enable_auto_commit=False) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment and client.position(TopicPartition(topic, 0)) == 0)
        before = client.group_metadata()
        (connection,) = coordinators(client)
        poll_until(client, lambda: not connection.in_flight)
        client.on_event(lambda event: events.append(event.kind))
        client.engine.network.call_soon(connection.abort, "connection was cut")
        poll_until(client, lambda: FOUND in events)
        client.commit({TopicPartition(topic, 0): 0})
        assert [kind for kind in events if kind in (LOST, FOUND)] == [LOST, FOUND]
        assert client.group_metadata() == before
    assert "due to cause: coordinator unavailable. isDisconnected: true. Rediscovery will be attempted." in caplog.text
