"""Compares streams of the Spark source with Spark's Kafka source: latency of one record, and throughput.

    python benchmarks/spark_stream.py [--rounds N] [--records N] [--samples N]

Method:
- Latency: a query without a trigger interval is running; one record is written; the time runs until `foreachBatch` has
  the row.
- Throughput: a query with `availableNow` reads a filled topic into the `noop` sink with a limit of offsets per batch.
  Only the time after the first batch counts, because a query starts once and then runs for long.
- The sources alternate after a warm-up round. CPU is that of the JVM and its Python workers together.
- Slackwater is measured twice: without a group, as Spark's source works, and as the only member of a group.
- The broker is Slackwater's, in its own process, and not counted.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import PeerFailed, Server, arguments, run, slackwater, tree_cpu_seconds
from benchmarks.records import SHAPES, make_records
from benchmarks.spark_read import (
    PARTITIONS,
    SAMPLE,
    Figures,
    batches,
    fill,
    produce,
    session,
)

from slackwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, encode_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OFFSETS_PER_TRIGGER: Final = 1_000_000
WARM_UPS: Final = 1
WARM_UP_SAMPLES: Final = 5
LATENCY_ROUNDS: Final = 3
TIMEOUT_S: Final = 120.0
CHECK_S: Final = 0.05
_numbers: Final = count()


class Source(NamedTuple):
    """A source to measure."""

    label: str
    format: str
    in_group: bool = False


SOURCES: Final = (
    Source("slackwater", "slackwater"),
    Source("slackwater, in a group", "slackwater", in_group=True),
    Source("kafka", "kafka"),
)


def frame(spark: "SparkSession", server: Server, source: Source, topic: str, **more: str) -> "DataFrame":
    """Return the stream of a topic from its first record."""
    options = {"kafka.bootstrap.servers": server.bootstrap, "subscribe": topic, "startingOffsets": "earliest"} | more
    if source.in_group:
        options["kafka.group.id"] = f"bench-{next(_numbers)}"
    return spark.readStream.format(source.format).options(**options).load()


# --- one record -------------------------------------------------------------------------------------------------------


class Arrivals:
    """The values that a query has returned; filled by the thread that runs its batches."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._values: set[bytes] = set()

    def take(self, batch: "DataFrame", _number: int) -> None:
        """Add the rows of a batch."""
        values = {bytes(row.value) for row in batch.select("value").collect()}
        with self._arrived:
            self._values |= values
            self._arrived.notify_all()

    def wait_for(self, value: bytes, query: "StreamingQuery") -> None:
        """Wait until the value has arrived."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: value in self._values, TIMEOUT_S):
                raise PeerFailed(f"A record did not arrive within {TIMEOUT_S:g} s: {query.exception()}")


@contextmanager
def running(stream: "DataFrame", arrivals: Arrivals) -> Iterator["StreamingQuery"]:
    """Start a query that passes every batch to `arrivals`."""
    with TemporaryDirectory(prefix="slackwater-bench-") as checkpoint:
        query = stream.writeStream.foreachBatch(arrivals.take).option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


def latencies(spark: "SparkSession", server: Server, source: Source, samples: int) -> list[float]:
    """Return the milliseconds from writing a record to its row, for single records."""
    topic = f"one-by-one-{next(_numbers)}"
    server.call(CreateTopicsRequest([CreatableTopic(topic, 1, 1)]), 5, CreateTopicsResponse)
    arrivals, times = Arrivals(), []
    stream = frame(spark, server, source, topic)
    with running(stream, arrivals) as query, server.connect() as connection:
        for number in range(WARM_UP_SAMPLES + samples):
            value = b"%d" % number
            data = bytes(encode_batch([Record(None, value, (), time.time_ns() // 1_000_000)]))
            start = time.perf_counter()
            produce(connection, topic, 0, data)
            arrivals.wait_for(value, query)
            times.append((time.perf_counter() - start) * 1000)
    return times[WARM_UP_SAMPLES:]


def measure_latency(spark: "SparkSession", server: Server, samples: int) -> None:
    """Print the latencies."""
    latencies_by_source: dict[Source, list[float]] = {source: [] for source in SOURCES}
    for number in range(1 + LATENCY_ROUNDS):
        for source in SOURCES:
            measured = latencies(spark, server, source, -(-samples // LATENCY_ROUNDS))
            if number:
                latencies_by_source[source] += measured
    print(f"{'Spark micro-batch, one record to its row':<46}{'median ms':>10}{'p90 ms':>10}")
    for source, times in latencies_by_source.items():
        print(f"  {source.label:<44}{median(times):>10.0f}{quantiles(times, n=10)[-1]:>10.0f}", flush=True)


# --- many records -----------------------------------------------------------------------------------------------------


def measure_stream(jvm: int, stream: "DataFrame", rows: int) -> Figures:
    """Run one query; measure from the end of its first batch to its end."""
    with TemporaryDirectory(prefix="slackwater-bench-") as checkpoint:
        writer: Any = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        while not (before := rows_of(query)) and query.isActive:
            time.sleep(CHECK_S)
        cpu, wall = tree_cpu_seconds(jvm), time.perf_counter()
        query.awaitTermination()
        cpu, wall = tree_cpu_seconds(jvm) - cpu, time.perf_counter() - wall
    if rows_of(query) != rows or before == rows:
        raise PeerFailed(f"A query read {rows_of(query)} of {rows} records, {before} of them in its first batch.")
    return Figures((rows - before) / cpu, (rows - before) / wall)


def rows_of(query: "StreamingQuery") -> int:
    """Return the number of rows of the finished batches."""
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def throughput(spark: "SparkSession", server: Server, records: int, rounds: int) -> None:
    """Print the lines of the throughput table."""
    rows = fill(server, "many", batches(make_records(SHAPES[0], SAMPLE), Codec.NONE), records)
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    results: dict[Source, list[Figures]] = {source: [] for source in SOURCES}
    for number in range(WARM_UPS + rounds):
        for source in SOURCES:
            stream = frame(spark, server, source, "many", maxOffsetsPerTrigger=str(OFFSETS_PER_TRIGGER))
            figures = measure_stream(jvm, stream, rows)
            if number >= WARM_UPS:
                results[source].append(figures)
    server.delete_topic("many")
    base = results[SOURCES[-1]]
    peer = median(figures.cpu for figures in base), median(figures.wall for figures in base)
    for source, rounds_of_source in results.items():
        cpu, wall = (
            median(figures.cpu for figures in rounds_of_source),
            median(figures.wall for figures in rounds_of_source),
        )
        print(f"  {source.label:<44}{cpu / 1e3:>10.0f}{cpu / peer[0]:>8.2f}{wall / 1e3:>10.0f}{wall / peer[1]:>8.2f}")


def main() -> None:
    """Start the broker and Spark, and measure both."""
    from slackwater.spark import register
    from slackwater.spark.member.stream_reader import LOG_LEVEL

    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--samples", type=int, default=50)
    options = parser.parse_args()
    os.environ[LOG_LEVEL] = "ERROR"  # a query in a group logs more
    with slackwater() as server, session() as spark:
        register(spark)
        measure_latency(spark, server, options.samples)
        title = f"Spark stream, {PARTITIONS} partitions, {OFFSETS_PER_TRIGGER / 1e6:g} M per batch"
        print(f"{title:<46}{'k/CPU-s':>10}{'ratio':>8}{'k/s':>10}{'ratio':>8}")
        throughput(spark, server, options.records, options.rounds)


if __name__ == "__main__":
    run(main)
