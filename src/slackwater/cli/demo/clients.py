"""A child process with one Kafka client: a member of a group, or the producer that fills the topics.

The member is a stock client library, or Slackwater's own consumer. It prints what it reads as JSON lines, one per range
of offsets. It ends when its standard input closes; SIGTERM closes the client first.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final

from slackwater.cli.demo.processes import exit_with_parent
from slackwater.cli.demo.read_counts import offset_ranges

REPORT_INTERVAL_S: Final = 0.25
POLL_S: Final = 0.1
COMMIT_INTERVAL_MS: Final = 500


def report_read(records: Iterable[tuple[str, int, int]]) -> None:
    """Print the records (topic, partition, offset) that were read, at once: the process may be killed next."""
    if ranges := offset_ranges(records):
        print("\n".join(map(json.dumps, ranges)), flush=True)


def confluent_kafka(config: dict[str, Any], stop: threading.Event) -> None:
    """A member on librdkafka."""
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": config["bootstrap"],
        "group.id": config["group"],
        "client.id": config["name"],
        "partition.assignment.strategy": config["assignor"],
        "session.timeout.ms": config["session_ms"],
        "heartbeat.interval.ms": config["session_ms"] // 6,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
        "log_level": 0,
    }
    if config.get("instance"):
        settings["group.instance.id"] = config["instance"]
    consumer = Consumer(settings)
    consumer.subscribe([config["topic"]])
    while not stop.is_set():
        records = [record for record in consumer.consume(100, POLL_S) if record.error() is None]
        report_read(
            (str(record.topic()), int(record.partition() or 0), int(record.offset() or 0)) for record in records
        )
    consumer.close()


def aiokafka(config: dict[str, Any], stop: threading.Event) -> None:
    """A member on aiokafka."""
    asyncio.run(_aiokafka(config, stop))


async def _aiokafka(config: dict[str, Any], stop: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = AIOKafkaConsumer(
        config["topic"],
        bootstrap_servers=config["bootstrap"],
        group_id=config["group"],
        client_id=config["name"],
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=config["session_ms"],
        heartbeat_interval_ms=config["session_ms"] // 6,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
    )
    await consumer.start()
    while not stop.is_set():
        for records in (await consumer.getmany(timeout_ms=int(POLL_S * 1000))).values():
            report_read((record.topic, record.partition, record.offset) for record in records)
    await consumer.stop()


def slackwater(config: dict[str, Any], stop: threading.Event) -> None:
    """A member on Slackwater's consumer."""
    from slackwater import Consumer

    settings = {
        "bootstrap.servers": config["bootstrap"],
        "group.id": config["group"],
        "client.id": config["name"],
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
        "partition.assignment.strategy": config["assignor"],
        "session.timeout.ms": config["session_ms"],
        "heartbeat.interval.ms": config["session_ms"] // 6,
    }
    with Consumer(settings) as consumer:
        consumer.subscribe([config["topic"]])
        while not stop.is_set():
            report_read((record.topic, record.partition, record.offset) for record in consumer.poll(timeout=POLL_S))


def producer(config: dict[str, Any], stop: threading.Event) -> None:
    """Write records to the topics at a steady rate, and report how many are acknowledged."""
    from slackwater import Producer

    topics = config["topic"].split(",")
    acknowledged = dict.fromkeys(topics, 0)
    reported = dict.fromkeys(topics, 0)

    def report() -> None:
        for topic in topics:
            count, reported[topic] = acknowledged[topic] - reported[topic], acknowledged[topic]
            print(json.dumps({"topic": topic, "acknowledged": count}), flush=True)

    def on_delivery(topic: str, error: object) -> None:
        acknowledged[topic] += error is None

    number = 0
    with Producer({"bootstrap.servers": config["bootstrap"], "client.id": config["name"]}) as client:
        while not stop.wait(REPORT_INTERVAL_S):
            for _ in range(int(config["records_per_s"] * REPORT_INTERVAL_S)):
                partition = number % config["partitions"]
                for topic in topics:
                    client.send(
                        topic,
                        f"{number}",
                        key=f"{number}",
                        partition=partition,
                        on_delivery=lambda _metadata, error, topic=topic: on_delivery(topic, error),  # type: ignore[misc]
                    )
                number += 1
            report()
    report()


CLIENTS: Final = {
    "confluent-kafka": confluent_kafka,
    "aiokafka": aiokafka,
    "slackwater": slackwater,
    "producer": producer,
}


def main() -> None:
    """Run the client that the argument names."""
    config: dict[str, Any] = json.loads(sys.argv[1])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the demo, which ends its children
    exit_with_parent()
    CLIENTS[config["client"]](config, stop)
    os._exit(0)  # some clients leave threads that would keep the process alive


if __name__ == "__main__":
    main()
