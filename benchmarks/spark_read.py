"""Compares the Spark source with Spark's Kafka source in one session, on the same topics of the same broker.

    python benchmarks/spark_read.py [--rounds N] [--records N] [--shape NAME]

Method:
- A batch job on local[2] reads all columns of a topic of four partitions into Spark's `noop` sink.
- The result is records per CPU second of the JVM and its Python workers together.
- The sources alternate, round by round, after two warm-up rounds. Each figure is a median; the ratio is to Spark's.
- The ceiling is a source that returns prebuilt Arrow batches, the upper bound for a Python source.
- The broker is Slackwater's, in its own process, and not counted.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import PeerFailed, Server, arguments, call, run, slackwater, tree_cpu_seconds
from benchmarks.records import SHAPES, Shape, make_records
from benchmarks.results import add_result

from slackwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import BatchBuilder, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parents[1]
JARS: Final = ROOT / ".jars" / "spark-kafka"
PARTITIONS: Final = 4
BATCH_BYTES: Final = 16_384
SAMPLE: Final = 50_000
REQUEST_BYTES: Final = 900_000
WARM_UPS: Final = 2
PRODUCE_VERSION: Final = 9


class Topic(NamedTuple):
    """A topic to read, and the target ratio."""

    name: str
    shape: Shape
    codec: Codec
    share: float
    target: float


TOPICS: Final = (
    Topic("100 B", SHAPES[0], Codec.NONE, 1.0, 2.0),
    Topic("20 to 500 B with keys", SHAPES[1], Codec.NONE, 0.5, 1.7),
    Topic("100 B, lz4", SHAPES[0], Codec.LZ4, 1.0, 1.8),
    Topic("100 B, zstd", SHAPES[0], Codec.ZSTD, 1.0, 1.6),
    Topic("20 to 500 B with keys, lz4", SHAPES[1], Codec.LZ4, 0.5, 1.3),
    Topic("20 to 500 B with keys, zstd", SHAPES[1], Codec.ZSTD, 0.5, 1.3),
)


# --- the topics -------------------------------------------------------------------------------------------------------


def batches(sample: list[Record], codec: Codec) -> list[tuple[int, bytes]]:
    """Build batches of a producer's size; return them with their record counts."""
    built, builder = [], BatchBuilder()
    for record in sample:
        if builder.size > BATCH_BYTES:
            built.append((builder.count, bytes(builder.build(codec=codec))))
            builder = BatchBuilder()
        builder.append(record)
    return built


def fill(server: Server, topic: str, sample: list[tuple[int, bytes]], count: int) -> int:
    """Write about `count` records, evenly over the partitions; return the exact number."""
    forever = CreatableTopicConfig("retention.ms", "-1")  # the timestamps of the records are years old
    new_topic = CreatableTopic(topic, PARTITIONS, 1, configs=[forever])
    server.call(CreateTopicsRequest([new_topic]), 5, CreateTopicsResponse)
    written, waiting = 0, cycle(sample)
    with server.connect() as connection:
        for partition in cycle(range(PARTITIONS)):
            if written >= count:
                return written
            pieces: list[bytes] = []
            while sum(map(len, pieces)) < REQUEST_BYTES and written < count:
                size, data = next(waiting)
                pieces.append(data)
                written += size
            for data in pieces:  # Kafka accepts one batch per partition and request
                produce(connection, topic, partition, data)
    return written


def produce(connection: "object", topic: str, partition: int, data: bytes) -> None:
    """Append one batch."""
    row = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, data)])
    response = call(connection, ProduceRequest(None, 1, 30_000, [row]), PRODUCE_VERSION, ProduceResponse)  # type: ignore[arg-type]
    if error := response.responses[0].partition_responses[0].error_code:
        raise PeerFailed(f"A batch was rejected with error {error}.")


# --- measuring --------------------------------------------------------------------------------------------------------


@contextmanager
def session() -> Iterator["SparkSession"]:
    """Start a session with all three sources."""
    from benchmarks.spark_ceiling import CeilingSource
    from pyspark.sql import SparkSession

    from slackwater.spark.data_source import SlackwaterDataSource

    jars = sorted(map(str, JARS.glob("*.jar")))
    if not jars:
        raise PeerFailed("Spark's own Kafka source is missing; run `make jars` first.")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars", ",".join(jars))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        spark.dataSource.register(SlackwaterDataSource)
        spark.dataSource.register(CeilingSource)
        yield spark
    finally:
        spark.stop()


class Figures(NamedTuple):
    """Records per CPU second and per second, of one round."""

    cpu: float
    wall: float


def measure(spark: "SparkSession", jvm: int, source: str, options: dict[str, str], count: int) -> Figures:
    """Run one job."""
    frame = spark.read.format(source).options(**options).load()
    cpu, wall = tree_cpu_seconds(jvm), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    cpu, wall = tree_cpu_seconds(jvm) - cpu, time.perf_counter() - wall
    return Figures(count / cpu, count / wall)


def compare(spark: "SparkSession", server: Server, topic: Topic, count: int, rounds: int) -> None:
    """Print one line of the table for each source."""
    name = topic.name.replace(" ", "-").replace(",", "")
    sample = make_records(topic.shape, SAMPLE)
    count = fill(server, name, batches(sample, topic.codec), int(count * topic.share))
    kafka = {"kafka.bootstrap.servers": server.bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    values = round(mean(len(record.value or b"") for record in sample))
    keys = round(mean(len(record.key or b"") for record in sample))
    sizes = {"valueBytes": str(values), "keyBytes": str(keys)}
    sources = {
        "slackwater": kafka,
        "kafka": kafka,
        "ceiling": {"rows": str(count), "tasks": str(PARTITIONS)} | sizes,
    }
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    for source, options in sources.items():
        seen = spark.read.format(source).options(**options).load().count()
        if source != "ceiling" and seen != count:
            raise PeerFailed(f"{source} read {seen} of {count} records.")
    results: dict[str, list[Figures]] = {source: [] for source in sources}
    for number in range(WARM_UPS + rounds):
        for source, options in sources.items():
            figures = measure(spark, jvm, source, options, count)
            if number >= WARM_UPS:
                results[source].append(figures)
    server.delete_topic(name)
    base = results["kafka"]
    for source, rounds_of_source in results.items():
        cpu, wall = (
            median(figures.cpu for figures in rounds_of_source),
            median(figures.wall for figures in rounds_of_source),
        )
        ratio, faster = cpu / median(figures.cpu for figures in base), wall / median(figures.wall for figures in base)
        target = f"≥ {topic.target:g}" if source == "slackwater" else ""
        label = f"{topic.name}: {source}"
        print(f"  {label:<44}{cpu / 1e3:>10.0f}{ratio:>8.2f}{wall / 1e3:>10.0f}{faster:>8.2f}  {target}", flush=True)
        if source == "slackwater":
            peer = f"{median(figures.cpu for figures in base) / 1e3:,.0f}"
            name = f"{topic.name}, thousand records per CPU second"
            add_result(name, peer=peer, ours=f"{cpu / 1e3:,.0f}", ratio=ratio, target=f"≥ {topic.target:g}")


def main() -> None:
    """Start the broker and Spark, and compare all topics."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--shape", help="measure the topics whose name contains this")
    options = parser.parse_args()
    with slackwater() as server, session() as spark:
        print(f"{'Spark batch read, local[2]':<46}{'k/CPU-s':>10}{'ratio':>8}{'k/s':>10}{'ratio':>8}  target")
        for topic in TOPICS:
            if not options.shape or options.shape in topic.name:
                compare(spark, server, topic, options.records, options.rounds)


if __name__ == "__main__":
    run(main)
