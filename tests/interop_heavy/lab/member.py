"""One consumer process of an incident, with one of the Python libraries: `python member.py JSON`.

Invariants:
- The library's log goes unchanged to standard output and error. The program itself prints nothing, apart from the
  traceback of an unhandled exception.
- Standard input takes one command per line: `delay S` (every later batch takes S seconds), `once S` (only the next
  batch), `throw` (the next batch raises, and the consumer is closed), `exit` (the process exits without cleanup),
  `subscribe A,B`. SIGTERM closes the consumer.
- The process exits when standard input ends, so it does not outlive its parent.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

POLL_S = 0.2


class Commands:
    """The commands received so far."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.once = 0.0
        self.throw = False
        self.topics: list[str] | None = None
        self.stopped = False
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self._listen, daemon=True).start()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stopped = True

    def _listen(self) -> None:
        for line in sys.stdin:
            word, _, value = line.strip().partition(" ")
            if word == "delay":
                self.delay = float(value)
            elif word == "once":
                self.once = float(value)
            elif word == "throw":
                self.throw = True
            elif word == "subscribe":
                self.topics = value.split(",")
            elif word == "exit":
                os._exit(1)
        os._exit(1)

    def batch_seconds(self) -> float:
        """The processing time of the current batch; consumes `once`."""
        if self.throw:
            raise ValueError("cannot parse record")
        once, self.once = self.once, 0.0
        return once or self.delay

    def new_topics(self) -> list[str] | None:
        """The new subscription, if it has changed."""
        topics, self.topics = self.topics, None
        return topics


def confluent(config: dict[str, Any], commands: Commands) -> None:
    """librdkafka."""
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": config["bootstrap"],
        "group.id": config["group"],
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": config["interval"],
        "topic.metadata.refresh.interval.ms": config["metadata"],
        "auto.commit.interval.ms": 2000,
        **({"client.id": config["client"]} if config["client"] else {}),
        **({"group.instance.id": config["instance"]} if config.get("instance") else {}),
        **({"debug": "cgrp"} if config.get("debug") else {}),
    }
    if config.get("protocol") == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings["session.timeout.ms"] = config["session"]
        settings["heartbeat.interval.ms"] = max(300, config["session"] // 4)
        settings["partition.assignment.strategy"] = config["assignor"] or "range,roundrobin"
    consumer = Consumer(settings)
    consumer.subscribe([config["pattern"]] if config.get("pattern") else config["topics"])
    try:
        while not commands.stopped:
            topics = commands.new_topics()
            if topics:
                consumer.subscribe(topics)
            message = consumer.poll(POLL_S)
            if message is not None and not message.error():
                time.sleep(commands.batch_seconds())
    finally:
        consumer.close()


def _shared_settings(config: dict[str, Any], client: str) -> dict[str, Any]:
    """The settings of kafka-python and aiokafka, whose names are equal; `client` is the default client id."""
    return {
        "bootstrap_servers": config["bootstrap"],
        "group_id": config["group"],
        "client_id": config["client"] or client,
        "group_instance_id": config.get("instance"),
        "session_timeout_ms": config["session"],
        "heartbeat_interval_ms": max(300, config["session"] // 4),
        "max_poll_interval_ms": config["interval"],
        "metadata_max_age_ms": config["metadata"],
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 2000,
    }


def kafka_python(config: dict[str, Any], commands: Commands) -> None:
    """kafka-python."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    extra = {}
    if config["assignor"]:
        extra["partition_assignment_strategy"] = [assignors[name] for name in config["assignor"].split(",")]
    consumer = KafkaConsumer(
        **_shared_settings(config, "kafka-python-3.0.12"),
        **extra,
    )
    consumer.subscribe(topics=None if config.get("pattern") else config["topics"], pattern=config.get("pattern"))
    try:
        while not commands.stopped:
            topics = commands.new_topics()
            if topics:
                consumer.subscribe(topics)
            if consumer.poll(timeout_ms=int(POLL_S * 1000)):
                time.sleep(commands.batch_seconds())
    finally:
        consumer.close()


def aiokafka(config: dict[str, Any], commands: Commands) -> None:
    """aiokafka."""
    asyncio.run(_aiokafka(config, commands))


async def _aiokafka(config: dict[str, Any], commands: Commands) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = AIOKafkaConsumer(
        **_shared_settings(config, "aiokafka-0.14.0"),
        partition_assignment_strategy=[assignors[name] for name in (config["assignor"] or "roundrobin").split(",")],
    )
    consumer.subscribe(topics=() if config.get("pattern") else config["topics"], pattern=config.get("pattern"))
    await consumer.start()
    try:
        while not commands.stopped:
            topics = commands.new_topics()
            if topics:
                consumer.subscribe(topics)
            if await consumer.getmany(timeout_ms=int(POLL_S * 1000)):
                await asyncio.sleep(commands.batch_seconds())
    finally:
        await consumer.stop()


def slackwater(config: dict[str, Any], commands: Commands) -> None:
    """Slackwater's consumer."""
    import re

    from slackwater import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": config["bootstrap"],
            "group.id": config["group"],
            "session.timeout.ms": config["session"],
            "heartbeat.interval.ms": max(300, config["session"] // 4),
            "max.poll.interval.ms": config["interval"],
            "metadata.max.age.ms": config["metadata"],
            "auto.offset.reset": "earliest",
            **({"client.id": config["client"]} if config["client"] else {}),
            **({"group.instance.id": config["instance"]} if config.get("instance") else {}),
            **({"partition.assignment.strategy": config["assignor"]} if config["assignor"] else {}),
        }
    )
    consumer.subscribe(re.compile(config["pattern"]) if config.get("pattern") else config["topics"])
    try:
        while not commands.stopped:
            topics = commands.new_topics()
            if topics:
                consumer.subscribe(topics)
            if consumer.poll(POLL_S):
                time.sleep(commands.batch_seconds())
    finally:
        consumer.close()


LIBRARIES: dict[str, Callable[[dict[str, Any], Commands], None]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "slackwater": slackwater,
}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stdout)
    config = json.loads(sys.argv[1])
    LIBRARIES[config["library"]](config, Commands())
