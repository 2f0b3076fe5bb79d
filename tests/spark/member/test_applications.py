"""Two real Spark applications share a topic: one joins, takes its part, is killed; every record is accounted for."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from slackwater import Broker, Consumer, Producer
from slackwater.group.topic_partition import TopicPartition
from tests.spark.applications import Application, in_sink, wait_for

TOPIC, GROUP, PARTITIONS = "orders", "pipeline", 4


class Stream:
    """Writes records until it is told to end."""

    def __init__(self, broker: Broker) -> None:
        self._over = threading.Event()
        self._broker = broker
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        with Producer({"bootstrap.servers": self._broker.bootstrap_servers}) as producer:
            number = 0
            while not self._over.wait(0.02):
                for _ in range(PARTITIONS):
                    producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                    number += 1

    def end(self) -> None:
        """Write no more."""
        self._over.set()
        self._thread.join()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        yield broker


def options(broker: Broker) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "kafka.group.id": GROUP,
        "kafka.session.timeout.ms": "6000",
        "kafka.heartbeat.interval.ms": "500",
        "maxOffsetsPerTrigger": "2000",
    }


def shares(broker: Broker) -> list[int]:
    """How many partitions each member has, when the group is at rest."""
    found = broker.describe_group(GROUP)
    return sorted(len(one.partitions) for one in found.members) if found.state == "Stable" else []


def ends_of(broker: Broker) -> dict[TopicPartition, int]:
    with Consumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
        return consumer.end_offsets([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])


def test_two_applications_survive_handover_and_kill(broker: Broker, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first, second = (Application(name, tmp_path, options(broker)) for name in ("first", "second"))
        stack.callback(first.kill)
        stack.callback(second.kill)
        stream = Stream(broker)
        stack.callback(stream.end)
        first.wait_for_status("ready")
        first.start()
        wait_for(lambda: len(found := broker.committed(GROUP)) == PARTITIONS and all(found.values()), first)
        second.wait_for_status("ready")
        second.start()
        wait_for(lambda: shares(broker) == [2, 2], first, second)
        wait_for(lambda: any(batch.startswith("second") for batches in in_sink(tmp_path).values() for batch in batches))
        second.kill()
        wait_for(lambda: shares(broker) == [PARTITIONS], first)
        stream.end()
        ends = ends_of(broker)
        wait_for(lambda: broker.committed(GROUP) == ends, first)
        first.stop()
        assert broker.describe_group(GROUP).members == (), "it has left"

    found = in_sink(tmp_path)
    missing = [(at, offset) for at, end in ends.items() for offset in range(end) if (*at, offset) not in found]
    assert not missing
    twice = {at: batches for at, batches in found.items() if len(batches) > 1}
    last = max(int(batch.split("-")[1]) for batches in found.values() for batch in batches if "second" in batch)
    # Its last batch, and the one before if the group had not yet heard of that when it was killed.
    open_ones = {f"second-{last}", f"second-{last - 1}"}
    assert all(len(batches) == 2 and open_ones.intersection(batches) for batches in twice.values()), (
        "only what the killed application had not committed may be there twice"
    )
    print(f"{len(found)} records, {len(twice)} of them twice")
