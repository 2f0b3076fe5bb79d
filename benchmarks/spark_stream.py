"""Compares streams of the Spark source with Spark's Kafka source: latency of one record, and throughput.

    python benchmarks/spark_stream.py [--rounds N] [--records N] [--samples N]

Latency: a query with no trigger interval waits; one record is written; the time counts until `foreachBatch` has it in
its hands. Throughput: a query with `availableNow` reads a topic that was filled before into the `noop` sink, so many
offsets per batch; what comes after the first batch counts, as a query is started once and then runs. In both the
sources take turns, after a round that warms them up. CPU is that of the JVM and its Python workers together. Ours is
measured twice: without a group, which is all that Spark's own source can do, and as the only member of one. The broker
is ours, in its own process, and not counted.
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

from benchmarks.brokers import PeerFailed, Server, arguments, run, slackwater
from benchmarks.records import SHAPES, make_records
from benchmarks.spark_read import (
    PARTITIONS,
    SAMPLE,
    Figures,
    batches,
    fill,
    produce,
    session,
    tree_cpu_seconds,
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
TURNS: Final = 3
TIMEOUT_S: Final = 120.0
LOOK_S: Final = 0.05
_numbers: Final = count()


class Source(NamedTuple):
    """What is measured."""

    label: str
    format: str
    in_group: bool = False


SOURCES: Final = (
    Source("slackwater", "slackwater"),
    Source("slackwater, in a group", "slackwater", in_group=True),
    Source("kafka", "kafka"),
)


def frame(spark: "SparkSession", server: Server, source: Source, topic: str, **more: str) -> "DataFrame":
    """The stream of a topic, from its first record on."""
    options = {"kafka.bootstrap.servers": server.bootstrap, "subscribe": topic, "startingOffsets": "earliest"} | more
    if source.in_group:
        options["kafka.group.id"] = f"bench-{next(_numbers)}"
    return spark.readStream.format(source.format).options(**options).load()


# --- one record -------------------------------------------------------------------------------------------------------


class Arrivals:
    """What has come out of a query, by the thread that runs its batches."""

    def __init__(self) -> None:
        self._come = threading.Condition()
        self._values: set[bytes] = set()

    def take(self, batch: "DataFrame", _number: int) -> None:
        """The rows of a batch."""
        values = {bytes(row.value) for row in batch.select("value").collect()}
        with self._come:
            self._values |= values
            self._come.notify_all()

    def wait_for(self, value: bytes, query: "StreamingQuery") -> None:
        """Until it has come."""
        with self._come:
            if not self._come.wait_for(lambda: value in self._values, TIMEOUT_S):
                raise PeerFailed(f"A record did not come out within {TIMEOUT_S:g} s: {query.exception()}")


@contextmanager
def running(stream: "DataFrame", arrivals: Arrivals) -> Iterator["StreamingQuery"]:
    """A query that hands over what comes at once."""
    with TemporaryDirectory(prefix="slackwater-bench-") as checkpoint:
        query = stream.writeStream.foreachBatch(arrivals.take).option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


def latencies(spark: "SparkSession", server: Server, source: Source, samples: int) -> list[float]:
    """Milliseconds from the record to the row, one after the other."""
    topic = f"one-by-one-{next(_numbers)}"
    server.ask(CreateTopicsRequest([CreatableTopic(topic, 1, 1)]), 5, CreateTopicsResponse)
    arrivals, found = Arrivals(), []
    stream = frame(spark, server, source, topic)
    with running(stream, arrivals) as query, server.connect() as connection:
        for number in range(WARM_UP_SAMPLES + samples):
            value = b"%d" % number
            data = bytes(encode_batch([Record(None, value, (), time.time_ns() // 1_000_000)]))
            start = time.perf_counter()
            produce(connection, topic, 0, data)
            arrivals.wait_for(value, query)
            found.append((time.perf_counter() - start) * 1000)
    return found[WARM_UP_SAMPLES:]


def one_by_one(spark: "SparkSession", server: Server, samples: int) -> None:
    """The first table."""
    found: dict[Source, list[float]] = {source: [] for source in SOURCES}
    for turn in range(1 + TURNS):
        for source in SOURCES:
            each = latencies(spark, server, source, -(-samples // TURNS))
            if turn:
                found[source] += each
    print(f"{'Spark micro-batch, one record to its row':<46}{'median ms':>10}{'p90 ms':>10}")
    for source, times in found.items():
        print(f"  {source.label:<44}{median(times):>10.0f}{quantiles(times, n=10)[-1]:>10.0f}", flush=True)


# --- many records -----------------------------------------------------------------------------------------------------


def streamed(jvm: int, stream: "DataFrame", rows: int) -> Figures:
    """One query, from the end of its first batch until it has read everything."""
    with TemporaryDirectory(prefix="slackwater-bench-") as checkpoint:
        writer: Any = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        while not (before := rows_of(query)) and query.isActive:
            time.sleep(LOOK_S)
        cpu, wall = tree_cpu_seconds(jvm), time.perf_counter()
        query.awaitTermination()
        cpu, wall = tree_cpu_seconds(jvm) - cpu, time.perf_counter() - wall
    if rows_of(query) != rows or before == rows:
        raise PeerFailed(f"A query read {rows_of(query)} of {rows} records, {before} of them in its first batch.")
    return Figures((rows - before) / cpu, (rows - before) / wall)


def rows_of(query: "StreamingQuery") -> int:
    """How many rows the finished batches had."""
    return sum(one["numInputRows"] for one in query.recentProgress)


def throughput(spark: "SparkSession", server: Server, wanted: int, rounds: int) -> None:
    """Lines of the second table."""
    rows = fill(server, "many", batches(make_records(SHAPES[0], SAMPLE), Codec.NONE), wanted)
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    found: dict[Source, list[Figures]] = {source: [] for source in SOURCES}
    for number in range(WARM_UPS + rounds):
        for source in SOURCES:
            stream = frame(spark, server, source, "many", maxOffsetsPerTrigger=str(OFFSETS_PER_TRIGGER))
            figures = streamed(jvm, stream, rows)
            if number >= WARM_UPS:
                found[source].append(figures)
    server.delete_topic("many")
    base = found[SOURCES[-1]]
    own = median(one.cpu for one in base), median(one.wall for one in base)
    for source, each in found.items():
        cpu, wall = median(one.cpu for one in each), median(one.wall for one in each)
        print(f"  {source.label:<44}{cpu / 1e3:>10.0f}{cpu / own[0]:>8.2f}{wall / 1e3:>10.0f}{wall / own[1]:>8.2f}")


def main() -> None:
    """Start the broker and Spark, and measure both."""
    from slackwater.spark import register
    from slackwater.spark.source.stream_reader import LOG_LEVEL

    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--samples", type=int, default=50)
    options = parser.parse_args()
    os.environ[LOG_LEVEL] = "ERROR"  # a query in a group logs more
    with slackwater() as server, session() as spark:
        register(spark)
        one_by_one(spark, server, options.samples)
        title = f"Spark stream, {PARTITIONS} partitions, {OFFSETS_PER_TRIGGER / 1e6:g} M a batch"
        print(f"{title:<46}{'k/CPU-s':>10}{'ratio':>8}{'k/s':>10}{'ratio':>8}")
        throughput(spark, server, options.records, options.rounds)


if __name__ == "__main__":
    run(main)
