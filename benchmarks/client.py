"""The consumer and the producer next to aiokafka, confluent-kafka and kafka-python, on the same broker, in one run.

    python benchmarks/client.py [--rounds N] [--records N] [--clients NAME]

Method:
- The result is records per CPU second of the client's process with all its threads: other load hardly changes it.
- Records have 100 bytes with a key of 8, in four partitions, without compression.
- A consumer is assigned all partitions and reads from the beginning. The first records are the warm-up and not counted.
- Every client runs with its defaults in its own process; the clients alternate, round by round.
- The broker is Slackwater's, in its own process.
"""

import asyncio
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import PeerFailed, arguments, run, slackwater
from benchmarks.results import add_result

HANDLED_TOGETHER: Final = 100
TOPIC: Final = "bench"
PARTITIONS: Final = 4
VALUE: Final = b"x" * 92
CHILD_SECONDS: Final = 300


class Meter:
    """CPU and wall seconds between the end of the warm-up and the last record."""

    def __init__(self, warm_up: int, records: int) -> None:
        self.warm_up = warm_up
        self.records = records
        self.seen = 0
        self._counted_from = 0
        self._cpu = self._wall = 0.0
        self.result: dict[str, float] = {}

    def add(self, count: int) -> bool:
        """Count records; return whether these were the last."""
        before, self.seen = self.seen, self.seen + count
        if before < self.warm_up <= self.seen:
            self._counted_from, self._cpu, self._wall = self.seen, time.process_time(), time.perf_counter()
        if self.seen < self.warm_up + self.records:
            return False
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        counted = self.seen - self._counted_from
        self.result = {"cpu": counted / cpu, "wall": counted / wall}
        return True


# --- consumers --------------------------------------------------------------------------------------------------------


def _ours(bootstrap: str) -> Any:
    from slackwater import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"})
    consumer.assign(consumer.partitions_for(TOPIC))
    return consumer


def poll(bootstrap: str, meter: Meter) -> None:
    """Consumer.poll."""
    with _ours(bootstrap) as consumer:
        while not meter.add(len(consumer.poll(1.0))):
            pass


def poll_arrow(bootstrap: str, meter: Meter) -> None:
    """Consumer.poll_arrow."""
    with _ours(bootstrap) as consumer:
        while not meter.add(len(consumer.poll_arrow(1.0) or ())):
            pass


def run_workers(bootstrap: str, meter: Meter) -> None:
    """Consumer.run with four workers and a handler that only counts."""
    lock, handled = threading.Lock(), itertools.count(1)
    with _ours(bootstrap) as consumer:

        def handle(_record: object) -> None:
            if next(handled) % HANDLED_TOGETHER == 0:  # locking for every record would dominate the measurement
                with lock:
                    if not meter.result and meter.add(HANDLED_TOGETHER):
                        consumer.stop()

        consumer.run(handle, workers=4, order="partition")


def aiokafka_consumer(bootstrap: str, meter: Meter) -> None:
    """aiokafka's getmany."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def main() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        try:
            while True:
                batches = await consumer.getmany(timeout_ms=1000, max_records=500)
                if meter.add(sum(map(len, batches.values()))):
                    return
        finally:
            await consumer.stop()

    asyncio.run(main())


def confluent_consumer(bootstrap: str, meter: Meter) -> None:
    """confluent-kafka's consume."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    while True:
        messages = consumer.consume(500, 1.0)
        for message in messages:  # it decodes the fields only on access; the others decode them at once
            message.key(), message.value(), message.offset(), message.timestamp(), message.headers()
        if meter.add(len(messages)):
            break
    consumer.close()


def kafka_python_consumer(bootstrap: str, meter: Meter) -> None:
    """kafka-python's poll."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
    while not meter.add(sum(map(len, consumer.poll(1000, max_records=500).values()))):
        pass
    consumer.close()


# --- producers --------------------------------------------------------------------------------------------------------


def produce(bootstrap: str, meter: Meter) -> None:
    """Producer.send."""
    from slackwater import Producer

    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(meter.warm_up + meter.records):
            producer.send(TOPIC, VALUE, b"%08d" % number)
            if number + 1 == meter.warm_up:
                producer.flush()
                meter.add(meter.warm_up)
        producer.flush()
        meter.add(meter.records)


def aiokafka_producer(bootstrap: str, meter: Meter) -> None:
    """aiokafka's send, a thousand at a time."""
    from aiokafka import AIOKafkaProducer

    async def main() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=5)
        await producer.start()
        waiting = []
        for number in range(meter.warm_up + meter.records):
            waiting.append(await producer.send(TOPIC, VALUE, b"%08d" % number))
            if len(waiting) == 1000:
                await asyncio.gather(*waiting)
                waiting.clear()
            if number + 1 == meter.warm_up:
                await producer.flush()
                meter.add(meter.warm_up)
        await producer.flush()
        meter.add(meter.records)
        await producer.stop()

    asyncio.run(main())


def confluent_producer(bootstrap: str, meter: Meter) -> None:
    """confluent-kafka's produce."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    delivered_count = [0]

    def delivered(_error: object, _message: object) -> None:
        delivered_count[0] += 1

    for number in range(meter.warm_up + meter.records):
        while True:
            try:
                producer.produce(TOPIC, VALUE, b"%08d" % number, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
        if number + 1 == meter.warm_up:
            producer.flush()
            meter.add(meter.warm_up)
    producer.flush()
    meter.add(meter.records)


def kafka_python_producer(bootstrap: str, meter: Meter) -> None:
    """kafka-python's send."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    for number in range(meter.warm_up + meter.records):
        producer.send(TOPIC, VALUE, b"%08d" % number)
        if number + 1 == meter.warm_up:
            producer.flush()
            meter.add(meter.warm_up)
    producer.flush()
    meter.add(meter.records)
    producer.close()


Client = Callable[[str, Meter], None]
CONSUMERS: Final[dict[str, Client]] = {
    "slackwater poll_arrow": poll_arrow,
    "slackwater poll": poll,
    "slackwater run(workers=4)": run_workers,
    "aiokafka": aiokafka_consumer,
    "confluent-kafka": confluent_consumer,
    "kafka-python": kafka_python_consumer,
}
PRODUCERS: Final[dict[str, Client]] = {
    "slackwater producer": produce,
    "aiokafka producer": aiokafka_producer,
    "confluent-kafka producer": confluent_producer,
    "kafka-python producer": kafka_python_producer,
}
TARGETS: Final = {"slackwater poll_arrow": 3.0, "slackwater poll": 1.0, "slackwater producer": 1.0}


def measure(name: str, bootstrap: str, warm_up: int, records: int) -> dict[str, float]:
    """Measure one client in its own process."""
    command = [sys.executable, __file__, "--child", name, bootstrap, str(warm_up), str(records)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_SECONDS)
    if done.returncode:
        raise PeerFailed(f"{name} failed: {done.stderr[-1000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def child(name: str, bootstrap: str, warm_up: int, records: int) -> None:
    """Measure in this process and print the result."""
    meter = Meter(warm_up, records)
    ({**CONSUMERS, **PRODUCERS})[name](bootstrap, meter)
    print(json.dumps(meter.result))


def table(title: str, results: dict[str, list[dict[str, float]]], peer: str) -> None:
    """Print a line per client; the ratio is to the peer's median of the same run."""
    base = median(figures["cpu"] for figures in results[peer]) if peer in results else None
    print(f"{title:<34}{'k/CPU-s':>10}{'k/s':>10}{'ratio':>9}  target")
    for name, rounds in results.items():
        cpu, wall = median(figures["cpu"] for figures in rounds), median(figures["wall"] for figures in rounds)
        ratio = f"{cpu / base:>9.2f}" if base else f"{'':>9}"
        target = f">= {TARGETS[name]:g} x {peer}" if name in TARGETS else ""
        print(f"  {name:<32}{cpu / 1e3:>10.0f}{wall / 1e3:>10.0f}{ratio}  {target}", flush=True)
        if base and name in TARGETS:
            limit = f"≥ {TARGETS[name]:g}"
            medians = {"peer": f"{base / 1e3:,.0f}", "ours": f"{cpu / 1e3:,.0f}"}
            add_result(f"{name}, thousand records per CPU second", ratio=cpu / base, target=limit, **medians)


def main() -> None:
    """Start the broker, fill the topic, and measure all clients."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--clients", help="measure the clients whose name contains this")
    options = parser.parse_args()
    records = options.records
    with slackwater() as server:
        server.create_topic(TOPIC, PARTITIONS)
        measure("confluent-kafka producer", server.bootstrap, 1, 2 * records)
        for clients, counts, title, peer in (
            (CONSUMERS, (records, records), "consumers", "aiokafka"),
            (PRODUCERS, (20_000, records // 10), "producers", "aiokafka producer"),
        ):
            chosen = [name for name in clients if not options.clients or options.clients in name]
            results: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
            for _ in range(options.rounds):
                for name in chosen:
                    results[name].append(measure(name, server.bootstrap, *counts))
            if results:
                table(title, results, peer)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        run(main)
