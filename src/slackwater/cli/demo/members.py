"""One stock client in a process of its own: a member of a group, or the producer that feeds it.

Rules kept here
- Nothing of Slackwater's own client is used: these are the clients people have.
- What a member reads is told on standard output, one JSON line for each run of offsets.
- A member ends when its standard input does: if the demo dies, nobody is left behind. SIGTERM closes the client first.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final

from slackwater.cli.demo.ledger import runs

RECORDS_PER_S: Final = 60


def tell(records: Iterable[tuple[str, int, int]]) -> None:
    """These records (topic, partition, offset) were read; told at once, for the next moment may be the last."""
    if found := runs(records):
        print("\n".join(map(json.dumps, found)), flush=True)


def confluent(config: dict[str, Any], topic: str, stop: threading.Event) -> None:
    """A member on librdkafka."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": config["bootstrap"],
            "group.id": config["group"],
            "client.id": config["name"],
            "partition.assignment.strategy": config["assignor"],
            "session.timeout.ms": config["session_ms"],
            "heartbeat.interval.ms": config["session_ms"] // 6,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "log_level": 0,
        }
        | ({"group.instance.id": config["instance"]} if config.get("instance") else {})
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        records = [record for record in consumer.consume(100, 0.1) if record.error() is None]
        tell((str(one.topic()), int(one.partition() or 0), int(one.offset() or 0)) for one in records)
    consumer.close()


def kafka_python(config: dict[str, Any], topic: str, stop: threading.Event) -> None:
    """A member on kafka-python."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Range(RangePartitionAssignor):  # type: ignore[misc]
        """kafka-python 3.0.12 forgets dynamic members that stand before a static one: here none does."""

        @classmethod
        def assign(cls, cluster: Any, members: Iterable[Any]) -> Any:
            """Deal the partitions out."""
            return super().assign(cluster, sorted(members, key=lambda one: one.group_instance_id is None))

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=config["bootstrap"],
        group_id=config["group"],
        client_id=config["name"],
        group_instance_id=config.get("instance"),
        partition_assignment_strategy=[Range],
        session_timeout_ms=config["session_ms"],
        heartbeat_interval_ms=config["session_ms"] // 6,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
    )
    while not stop.is_set():
        for records in consumer.poll(timeout_ms=100).values():
            tell((one.topic, one.partition, one.offset) for one in records)
    consumer.close()


def aiokafka(config: dict[str, Any], topic: str, stop: threading.Event) -> None:
    """A member on aiokafka."""
    asyncio.run(_aiokafka(config, topic, stop))


async def _aiokafka(config: dict[str, Any], topic: str, stop: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=config["bootstrap"],
        group_id=config["group"],
        client_id=config["name"],
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=config["session_ms"],
        heartbeat_interval_ms=config["session_ms"] // 6,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
    )
    await consumer.start()
    while not stop.is_set():
        for records in (await consumer.getmany(timeout_ms=100)).values():
            tell((one.topic, one.partition, one.offset) for one in records)
    await consumer.stop()


def producer(config: dict[str, Any], topic: str, stop: threading.Event) -> None:
    """Feeds a topic, slowly enough to watch."""
    from confluent_kafka import Producer

    client = Producer({"bootstrap.servers": config["bootstrap"], "client.id": config["name"], "log_level": 0})
    acknowledged = 0

    def delivered(error: object, _record: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    number = 0
    while not stop.wait(1 / RECORDS_PER_S):
        for name in topic.split(","):
            client.produce(name, key=f"order-{number % 97}", value=f"{number}", on_delivery=delivered)
        client.poll(0)
        number += 1
    client.flush(5)
    print(json.dumps({"acknowledged": acknowledged}), flush=True)


CLIENTS: Final = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "producer": producer,
}


def end_when_alone() -> None:
    """End this process when whoever started it is gone."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while sys.stdin.buffer.read(1):
                pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Be the client that the arguments say."""
    config: dict[str, Any] = json.loads(sys.argv[1])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the demo's, which ends its members
    end_when_alone()
    CLIENTS[config["client"]](config, config["topic"], stop)
    os._exit(0)  # some clients leave threads behind that would hold the process up


if __name__ == "__main__":
    main()
