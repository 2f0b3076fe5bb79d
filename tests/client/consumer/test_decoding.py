"""Decoding runs outside the consumer's lock: a slow decode never delays heartbeats."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater import Consumer
from slackwater.client.consumer import collector
from slackwater.client.consumer.decoding import decode_records, decode_table
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.helpers import consumer, fill, numbers, poll_until, read
from tests.waiting import wait_until

HEARTBEATS = 3
MIN_HEARTBEATS_WHILE_COMPILING = 5
"""A compilation takes more than a second, and the interval is 100 ms. With the lock held there would be one or two."""
DEADLINE_S = 60.0
FIRST_COMPILATION = """
import json, sys, time
from slackwater import Consumer, Producer

INTERVAL_MS = 100
bootstrap_servers, topic = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest",
    "heartbeat.interval.ms": INTERVAL_MS, "fetch.max.wait.ms": 50,
})
consumer.subscribe([topic])
while not consumer.assignment:
    consumer.poll_arrow(0.1)

def heartbeats():
    return next(value for name, value in consumer.metrics().items() if name.name == "heartbeat-total")

with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
    for _ in range(2_000):
        producer.send(topic, bytes(500))
assert "numba" not in sys.modules
before, start, rows = heartbeats(), time.monotonic(), 0
while rows < 2_000:
    table = consumer.poll_arrow(1.0)
    rows += len(table) if table is not None else 0
elapsed_ms = (time.monotonic() - start) * 1000
assert "numba" in sys.modules
print(json.dumps({"expected": elapsed_ms / INTERVAL_MS, "heartbeats": heartbeats() - before}))
consumer.close()
"""


def heartbeats(member: Consumer) -> float:
    return next(value for name, value in member.metrics().items() if name.name == "heartbeat-total")


def waits_for_heartbeats(member: Consumer, decode: Callable[..., Any]) -> Callable[..., Any]:
    """A decoder that returns only after the member has received more heartbeat responses."""

    def decode_slowly(*arguments: Any, **options: Any) -> Any:
        expected = heartbeats(member) + HEARTBEATS
        wait_until(lambda: heartbeats(member) >= expected, lambda: f"{heartbeats(member)} heartbeats", DEADLINE_S)
        return decode(*arguments, **options)

    return decode_slowly


def test_heartbeats_continue_during_a_slow_poll_decode(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create_topic("t", 1)
    with consumer(kafka, "g") as member:
        member.subscribe(["t"])
        poll_until(member, lambda: member.assignment)
        monkeypatch.setattr(collector, "decode_records", waits_for_heartbeats(member, decode_records))
        fill(kafka, "t", numbers(10))
        assert [record.value for record in read(member, 10)] == numbers(10)


def test_heartbeats_continue_during_a_slow_arrow_decode(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create_topic("t", 1)
    with consumer(kafka, "g") as member:
        member.subscribe(["t"])
        poll_until(member, lambda: member.assignment)
        monkeypatch.setattr(collector, "decode_table", waits_for_heartbeats(member, decode_table))
        fill(kafka, "t", numbers(10))
        table = wait_until(lambda: member.poll_arrow(0.1), lambda: "no table", DEADLINE_S)
        assert table is not None
        assert table.column("value").to_pylist() == numbers(len(table))


def test_heartbeats_continue_during_numba_compilation(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create_topic("t", 1)
    command = [sys.executable, "-c", FIRST_COMPILATION, kafka.bootstrap_servers, "t"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    counts = json.loads(run.stdout)
    assert counts["heartbeats"] >= min(MIN_HEARTBEATS_WHILE_COMPILING, counts["expected"] / 2), counts


def test_seek_during_decoding_discards_records(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(10))
    partition = TopicPartition("t", 0)
    with consumer(kafka) as reader:

        def seek_and_decode(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(collector, "decode_records", decode_records)
            reader.seek(partition, 7)
            return decode_records(*arguments, **options)

        monkeypatch.setattr(collector, "decode_records", seek_and_decode)
        reader.assign([partition])
        assert [record.value for record in read(reader, 3)] == numbers(3, 7)
