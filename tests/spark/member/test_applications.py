"""Two real Spark applications share a topic: one joins, gets partitions, is killed; no record is lost."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from slackwater import Broker, Consumer, Producer
from slackwater.group.topic_partition import TopicPartition
from tests.spark.applications import Application, in_sink, wait_for

TOPIC, GROUP, PARTITIONS = "orders", "pipeline", 4


class RecordWriter:
    """Writes records until it is stopped."""

    def __init__(self, broker: Broker) -> None:
        self._stopped = threading.Event()
        self._broker = broker
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        with Producer({"bootstrap.servers": self._broker.bootstrap_servers}) as producer:
            number = 0
            while not self._stopped.wait(0.02):
                for _ in range(PARTITIONS):
                    producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                    number += 1

    def stop(self) -> None:
        """Stop writing."""
        self._stopped.set()
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
    """The number of partitions of each member, if the group is stable."""
    group = broker.describe_group(GROUP)
    return sorted(len(member.partitions) for member in group.members) if group.state == "Stable" else []


def ends_of(broker: Broker) -> dict[TopicPartition, int]:
    with Consumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
        return consumer.end_offsets([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])


def test_two_applications_survive_handover_and_kill(broker: Broker, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first, second = (Application(name, tmp_path, options(broker)) for name in ("first", "second"))
        stack.callback(first.kill)
        stack.callback(second.kill)
        writer = RecordWriter(broker)
        stack.callback(writer.stop)
        first.wait_for_status("ready")
        first.start()
        wait_for(lambda: len(committed := broker.committed(GROUP)) == PARTITIONS and all(committed.values()), first)
        second.wait_for_status("ready")
        second.start()
        wait_for(lambda: shares(broker) == [2, 2], first, second)
        wait_for(lambda: any(batch.startswith("second") for batches in in_sink(tmp_path).values() for batch in batches))
        second.kill()
        wait_for(lambda: shares(broker) == [PARTITIONS], first)
        writer.stop()
        ends = ends_of(broker)
        wait_for(lambda: broker.committed(GROUP) == ends, first)
        first.stop()
        assert broker.describe_group(GROUP).members == (), "the member has not left"

    batches_by_record = in_sink(tmp_path)
    missing = [
        (partition, offset)
        for partition, end in ends.items()
        for offset in range(end)
        if (*partition, offset) not in batches_by_record
    ]
    assert not missing
    duplicates = {record: batches for record, batches in batches_by_record.items() if len(batches) > 1}
    numbers = [batch.split("-") for batches in batches_by_record.values() for batch in batches]
    last = max(int(number) for name, number in numbers if name == "second")
    # The last batch of the killed application, and the one before if its commit had not reached the group.
    open_batches = {f"second-{last}", f"second-{last - 1}"}
    assert all(len(batches) == 2 and open_batches.intersection(batches) for batches in duplicates.values()), (
        "a record that was committed is in two batches"
    )
    print(f"{len(batches_by_record)} records, {len(duplicates)} duplicates")
