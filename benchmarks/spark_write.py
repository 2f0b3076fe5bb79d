"""Compares the Spark sink with Spark's Kafka sink in one session: the same rows, to the same Apache Kafka.

    python benchmarks/spark_write.py [--rounds N] [--records N] [--shape NAME]

Method:
- A batch job on local[2] writes rows that are cached in memory to a topic of four partitions.
- The result is records per CPU second of the JVM and its Python workers together. The broker is Apache Kafka 4.3.1, in
  its own process, and not counted.
- The sinks alternate, round by round, after two warm-up rounds. Each figure is a median; the ratio is to Spark's sink,
  which writes at least once.
"""

import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import Server, arguments, kafka, run, tree_cpu_seconds
from benchmarks.results import add_result
from benchmarks.spark_read import PARTITIONS, WARM_UPS, Figures, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Shape(NamedTuple):
    """Rows to write."""

    name: str
    columns: tuple[str, ...]
    codec: str
    share: float


class Sink(NamedTuple):
    """A way to write them, and the target ratio."""

    name: str
    source: str
    options: dict[str, str]
    target: float


VALUE: Final = "cast(rpad(sha2(cast(id AS string), 256), 100, 'x') AS binary) AS value"
KEY: Final = "cast(concat('customer-', id % 1000) AS binary) AS key"
SHAPES: Final = (
    Shape("100 B", (VALUE,), "none", 1.0),
    Shape("100 B with keys", (KEY, VALUE), "none", 1.0),
    Shape("100 B with keys, lz4", (KEY, VALUE), "lz4", 1.0),
    Shape("100 B with keys, zstd", (KEY, VALUE), "zstd", 1.0),
)
SINKS: Final = (
    Sink("at_least_once", "slackwater", {}, 1.5),
    Sink("exactly_once", "slackwater", {"delivery": "exactly_once", "transactionalIdPrefix": "bench"}, 1.0),
    Sink("kafka", "kafka", {}, 0.0),
)


def measure(frame: "DataFrame", jvm: int, sink: Sink, options: dict[str, str], count: int) -> Figures:
    """Run one job."""
    write = frame.write.format(sink.source).options(**options, **sink.options).mode("append")
    cpu, wall = tree_cpu_seconds(jvm), time.perf_counter()
    write.save()
    cpu, wall = tree_cpu_seconds(jvm) - cpu, time.perf_counter() - wall
    return Figures(count / cpu, count / wall)


def compare(spark: "SparkSession", server: Server, shape: Shape, count: int, rounds: int) -> None:
    """Print one line of the table for each sink."""
    count = int(count * shape.share)
    frame = spark.range(count, numPartitions=PARTITIONS).selectExpr(*shape.columns).cache()
    frame.count()
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    results: dict[str, list[Figures]] = {sink.name: [] for sink in SINKS}
    for number in range(WARM_UPS + rounds):
        for sink in SINKS:
            topic = f"{sink.name}-{SHAPES.index(shape)}-{number}"
            server.create_topic(topic, PARTITIONS)
            options = {"kafka.bootstrap.servers": server.bootstrap, "topic": topic}
            figures = measure(frame, jvm, sink, options | {"kafka.compression.type": shape.codec}, count)
            if number >= WARM_UPS:
                results[sink.name].append(figures)
            server.delete_topic(topic)
    frame.unpersist()
    base = results["kafka"]
    for sink in SINKS:
        cpu = median(figures.cpu for figures in results[sink.name])
        wall = median(figures.wall for figures in results[sink.name])
        ratio, faster = cpu / median(figures.cpu for figures in base), wall / median(figures.wall for figures in base)
        target = f"≥ {sink.target:g}" if sink.target else ""
        label = f"{shape.name}: {sink.name}"
        print(f"  {label:<44}{cpu / 1e3:>10.0f}{ratio:>8.2f}{wall / 1e3:>10.0f}{faster:>8.2f}  {target}", flush=True)
        if sink.target:
            peer = f"{median(figures.cpu for figures in base) / 1e3:,.0f}"
            name = f"write {shape.name}, {sink.name}, thousand records per CPU second"
            add_result(name, peer=peer, ours=f"{cpu / 1e3:,.0f}", ratio=ratio, target=target)


def main() -> None:
    """Start the broker and Spark, and compare all shapes."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--shape", help="measure the shapes whose name contains this")
    options = parser.parse_args()
    with kafka() as server, session() as spark:
        print(f"{'Spark batch write, local[2]':<46}{'k/CPU-s':>10}{'ratio':>8}{'k/s':>10}{'ratio':>8}  target")
        for shape in SHAPES:
            if not options.shape or options.shape in shape.name:
                compare(spark, server, shape, options.records, options.rounds)


if __name__ == "__main__":
    run(main)
