"""Decoding record batches, compared with aiokafka's and confluent-kafka's decoders: records per CPU second.

aiokafka's decoder gets the same bytes, verifies checksums and creates one object per record. confluent-kafka can only
decode what it fetches: it reads the same records over loopback from librdkafka's mock broker in another process. Our
columns: `arrow` (compiled, Arrow table), `compiled` (compiled, Python values), `plain` (pure Python). Each figure is
the median of several rounds.

    python benchmarks/records.py [--json]
"""

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from slackwater.wire.records.arrow import read_arrow
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.decoding import compiled_scanner, decode_response
from slackwater.wire.records.fetched import iter_records
from slackwater.wire.records.record import BatchBuilder, Record

ROUNDS = 5
RECORDS = 50_000
BATCH_BYTES = 16_384
# The mock broker has four partitions per topic and keeps the last 5 MB of each.
MOCK_PARTITIONS = 4
MOCK_RECORDS = 10_000
MOCK_READS = 5
WORDS = ("order", "shipped", "customer", "warehouse", "Lisbon", "Ghent", "express", "42.50", "pending", "null")

# Fills a topic in librdkafka's mock broker, prints its address, and runs until its input is closed.
MOCK = """
import json, sys
from confluent_kafka import Producer
codec, partitions = sys.argv[1], int(sys.argv[2])
producer = Producer({
    "test.mock.num.brokers": 1, "test.mock.broker.rtt": 0, "compression.type": codec, "linger.ms": 50,
    "batch.size": 16384, "queue.buffering.max.messages": 1000000, "log_level": 0,
    "bootstrap.servers": "", "allow.auto.create.topics": True,
})
for line in iter(sys.stdin.readline, "\\n"):
    key, value = json.loads(line)
    for partition in range(partitions):
        producer.produce("records", value, key, partition)
    producer.poll(0)
producer.flush()
(broker,) = producer.list_topics().brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


class Shape(NamedTuple):
    """Keys and sizes of the records."""

    name: str
    keys: bool
    smallest: int
    largest: int


SHAPES = (Shape("100 B, no key", False, 100, 100), Shape("20-500 B, keys", True, 20, 500))
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)


def make_records(shape: Shape, count: int) -> list[Record]:
    """Text that compresses about as well as events."""
    random = Random(1)
    records = []
    for number in range(count):
        size = random.randint(shape.smallest, shape.largest)
        text = f"{random.getrandbits(64):016x} " + " ".join(random.choices(WORDS, k=size // 5))
        value = text[:size].ljust(size).encode()
        key = f"customer-{random.randrange(100_000)}".encode() if shape.keys else None
        records.append(Record(key, value, (), 1_700_000_000_000 + number // 10))
    return records


def response(records: list[Record], codec: Codec) -> bytes:
    """A fetch response: the records in batches of a producer's size."""
    batches = []
    builder = BatchBuilder()
    for record in records:
        if builder.size > BATCH_BYTES:
            batches.append(builder.build(codec=codec))
            builder = BatchBuilder(builder.last_offset + 1)
        builder.append(record)
    batches.append(builder.build(codec=codec))
    return b"".join(batches)


def rate(amount: int, work: Callable[[], int]) -> float:
    """Records per CPU second of this process, all threads included."""
    rates = []
    for _ in range(ROUNDS):
        started = time.process_time()
        decoded = work()
        rates.append(amount / (time.process_time() - started))
        assert decoded == amount, f"{decoded} records of {amount}"
    return statistics.median(rates)


def with_compiled(data: bytes) -> int:
    """Python values from the compiled decoder, 500 records at a time, as `poll` reads them."""
    decoded = 0
    for block in decode_response(data, scanner=compiled_scanner()).blocks:
        for start in range(0, len(block), 500):
            fields = block.fields(start, min(start + 500, len(block)))
            decoded += len(list(zip(*fields, strict=True)))
    return decoded


def with_aiokafka(data: bytes) -> int:
    """One object per record, as aiokafka's fetcher creates them."""
    from aiokafka.record import MemoryRecords

    batches: Any = MemoryRecords(data)
    seen = 0
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            _ = record.offset, record.timestamp, record.key, record.value
            seen += 1
    return seen


def with_confluent(records: list[Record], codec: Codec) -> float:
    """Records per CPU second of a confluent-kafka consumer, batches of 10,000 at a time."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    program = [sys.executable, "-c", MOCK, codec.name.lower(), str(MOCK_PARTITIONS)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as mock:
        assert mock.stdin is not None
        assert mock.stdout is not None
        for record in records[:MOCK_RECORDS]:
            key = None if record.key is None else record.key.decode()
            mock.stdin.write(json.dumps([key, (record.value or b"").decode()]) + "\n")
        mock.stdin.write("\n")
        mock.stdin.flush()
        address = mock.stdout.readline().strip()
        amount = MOCK_PARTITIONS * min(MOCK_RECORDS, len(records))

        consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "check.crcs": True, "log_level": 0})
        partitions = [TopicPartition("records", number, OFFSET_BEGINNING) for number in range(MOCK_PARTITIONS)]

        def work() -> int:
            seen = 0
            deadline = time.monotonic() + 30
            for until in range(amount, MOCK_READS * amount + 1, amount):
                consumer.assign(partitions)
                while seen < until and time.monotonic() < deadline:
                    for message in consumer.consume(10_000, 0.5):
                        _ = message.offset(), message.timestamp(), message.key(), message.value()
                        seen += 1
            return seen

        result = rate(MOCK_READS * amount, work)
        consumer.close()
        mock.stdin.close()
    return result


def measure(shape: Shape, codec: Codec) -> dict[str, float]:
    """Run every decoder on the same records."""
    records = make_records(shape, RECORDS)
    data = response(records, codec)
    gc.collect()
    gc.freeze()  # else the collector visits our records while the other decoders are measured
    rates = {
        "arrow": rate(RECORDS, lambda: int(read_arrow(data).table.num_rows)),
        "compiled": rate(RECORDS, lambda: with_compiled(data)),
        "plain": rate(RECORDS, lambda: sum(1 for _ in iter_records(data))),
    }
    with suppress(ImportError):
        rates["aiokafka"] = rate(RECORDS, lambda: with_aiokafka(data))
    with suppress(ImportError):
        rates["confluent"] = with_confluent(records, codec)
    return rates


def main() -> None:
    """Print the table, in millions of records per CPU second."""
    results = {}
    started = time.perf_counter()
    compiled_scanner()
    loading = time.perf_counter() - started
    if "--json" not in sys.argv:
        print("records decoded, millions per CPU second")
        columns = ("arrow", "compiled", "plain", "aiokafka", "confluent")
        print(f"  {'':<21}" + "".join(f"{name:>11}" for name in (*columns, "÷ aiokafka", "÷ confluent")))
    for shape in SHAPES:
        for codec in CODECS:
            rates = measure(shape, codec)
            results[f"{shape.name}, {codec.name.lower()}"] = rates
            if "--json" not in sys.argv:
                ratios = [rates["arrow"] / rates[peer] if peer in rates else 0 for peer in ("aiokafka", "confluent")]
                cells = [f"{rates.get(name, 0) / 1e6:>11.2f}" for name in columns] + [
                    f"{ratio:>10.1f}×" for ratio in ratios
                ]
                print(f"  {shape.name:<15} {codec.name.lower():<5}" + "".join(cells), flush=True)
    if "--json" in sys.argv:
        print(json.dumps({"loading_s": loading, "records_per_cpu_s": results}))
    else:
        print(f"  loading the compiled decoder took {loading:.2f} s (longer when it is compiled for the first time)")


if __name__ == "__main__":
    main()
