"""A member and its coordinator's connection: what is lost, quietly or not, is found again without a rebalance."""

import pytest

from slackwater import Consumer
from slackwater.client.network.cluster import COORDINATOR
from slackwater.client.network.connection import BrokerConnection
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import Side
from tests.client.helpers import consumer, poll_until

LOST, FOUND = EventKind.COORDINATOR_LOST, EventKind.COORDINATOR_FOUND


def coordinators(one: Consumer) -> list[BrokerConnection]:
    """The connections to it that are open."""
    return [
        each
        for (_, _, purpose), each in one.engine.cluster.connections.items()
        if purpose == COORDINATOR and each.is_open
    ]


@pytest.mark.old_kafka
def test_lost_idle_connection_triggers_coordinator_lookup(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "slackwater.client.consumer.consumer")
    topic = side.topic()
    told: list[EventKind] = []
    # No heartbeat falls into the test: it is the loss alone that is heard.
    with consumer(side, side.name("g"), heartbeat_interval_ms=14_000, enable_auto_commit=False) as one:
        one.subscribe([topic])
        poll_until(one, lambda: one.assignment and one.position(TopicPartition(topic, 0)) == 0)
        before = one.group_metadata()
        (connection,) = coordinators(one)
        poll_until(one, lambda: not connection.in_flight)
        one.on_event(lambda event: told.append(event.kind))
        one.engine.network.call_soon(connection.abort, "it was cut")
        poll_until(one, lambda: FOUND in told)
        one.commit({TopicPartition(topic, 0): 0})
        assert [kind for kind in told if kind in (LOST, FOUND)] == [LOST, FOUND]
        assert one.group_metadata() == before
    assert "due to cause: coordinator unavailable. isDisconnected: true. Rediscovery will be attempted." in caplog.text
