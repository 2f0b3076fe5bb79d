"""A PySpark application for tests: one query in a group that writes one file per batch.

    python -m tests.spark.application '{"name": …, "directory": …, "options": {…}}'

- Commands on standard input: `start`, `stop`. The end of the input also stops the application.
- Status lines on standard output: `ready`, `started`, `stopped`, `failed …`.
- The file of a batch contains topic, partition and offset of every record. It is written atomically. Its name contains
  the application and the batch id, so a repeated batch replaces its file; with `run`, also the run, so both are kept.
- With `watermark`, the query counts records per partition and event-time window instead, and the file contains the
  changed counts: partition, window, count.
- With `write`, the query writes the names of its records to a topic instead: topic-partition-offset.
- A batch waits while the file `NAME.hold` exists; `NAME.held` shows that a batch waits.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, window
from pyspark.sql.streaming.query import StreamingQuery

import slackwater.spark

# Spark gives a new Python process ten seconds to connect. On a busy machine that may fail: try again.
NO_CONNECTION: Final = "Python worker failed to connect back"
HOLD_POLL_S: Final = 0.05
JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(spec: dict[str, Any]) -> None:
    """Set up, wait for `start`, run the query, stop."""
    spark = session(spec.get("master", "local[2]"), spec.get("conf", {}))
    slackwater.spark.register(spark)
    report("ready")
    for line in sys.stdin:
        if line.strip() == "start":
            break
    else:
        spark.stop()
        return
    directory, name = Path(spec["directory"]), spec["name"]
    sink = directory / "sink"
    sink.mkdir(exist_ok=True)
    prefix = f"{name}-{spec['run']}" if "run" in spec else name

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        write(batch, sink / f"{prefix}-{batch_id}.json", directory / f"{name}.hold")

    records = spark.readStream.format("slackwater").options(**spec["options"]).load()
    rows = counts(records, spec["watermark"]) if "watermark" in spec else records.select("topic", "partition", "offset")
    writer = (
        rows.writeStream.foreachBatch(write_batch)
        .outputMode("update" if "watermark" in spec else "append")
        .option("checkpointLocation", str(directory / f"checkpoint-{name}"))
    )
    if "write" in spec:
        named = records.selectExpr(
            "concat(topic, '-', partition, '-', offset) AS value", "cast(offset AS string) AS key"
        )
        writer = named.writeStream.format("slackwater").options(**spec["write"])
        writer = writer.option("checkpointLocation", str(directory / f"checkpoint-{name}"))
    if "trigger" in spec:
        writer = writer.trigger(**spec["trigger"])
    stop_requested = threading.Event()
    threading.Thread(target=stop_at_end_of_input, args=(spark, stop_requested), daemon=True).start()
    failure: str | None = NO_CONNECTION
    while failure is not None and NO_CONNECTION in failure and not stop_requested.is_set():
        query = writer.start()
        report("started")
        if stop_requested.is_set():
            query.stop()
        failure = await_end(query)
    if failure is not None:
        report("failed", failure.splitlines())
    report("stopped")
    spark.stop()


def counts(records: DataFrame, watermark: str) -> DataFrame:
    """Count the records per partition and ten seconds of event time."""
    windows = records.withWatermark("timestamp", watermark).groupBy(window("timestamp", "10 seconds"), "partition")
    return windows.count().select("partition", col("window.start").cast("long").alias("window"), "count")


def await_end(query: StreamingQuery) -> str | None:
    """Wait for the end of a query and return its error, if any."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        return str(error)
    return None


def stop_at_end_of_input(spark: SparkSession, stop_requested: threading.Event) -> None:
    """Stop the queries at the end of the input."""
    sys.stdin.read()
    stop_requested.set()
    for query in spark.streams.active:
        query.stop()


def session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Create a small session."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        .config("spark.sql.shuffle.partitions", "1")
    )
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def write(batch: DataFrame, path: Path, hold: Path) -> None:
    """Write a batch as soon as it is not held."""
    rows = [list(row) for row in batch.collect()]
    while hold.exists():
        hold.with_suffix(".held").touch()
        time.sleep(HOLD_POLL_S)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(rows))
    os.replace(temporary, path)


def report(status: str, *details: object) -> None:
    """Print a status line."""
    print(json.dumps({"status": status, "details": details}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
