"""A PySpark application for tests: one query of a group, whose sink is a directory of files, one for each batch.

    python -m tests.spark.application '{"name": …, "directory": …, "options": {…}}'

Rules kept here
- Lines on standard input tell it what to do: `start`, `stop`; the end of the input stops it too.
- Lines on standard output say how far it is: `ready`, `started`, `progress {…}`, `stopped`, `failed …`.
- A batch's file has the topic, partition and offset of every record. It appears whole or not at all, under a name that
  says whose batch it is, so that a batch that is done again replaces what it had written; with `run`, the name says
  which run wrote it too, so that both can be seen.
- With `watermark` the query counts the records of each partition in windows of event time instead, and a batch's file
  has the counts that changed: partition, window, count.
- A batch takes as long as there is a file `NAME.hold`; `NAME.held` says that one waits for its end.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, window
from pyspark.sql.streaming.query import StreamingQuery

import slackwater.spark

# Spark gives a new Python process ten seconds to say hello. On a machine that is too busy for that, again.
NO_HELLO: Final = "Python worker failed to connect back"
HELD_LOOK_S: Final = 0.05


def main(spec: dict[str, Any]) -> None:
    """Set up, wait to be told, run, stop."""
    spark = session(spec.get("master", "local[2]"))
    slackwater.spark.register(spark)
    say("ready")
    for line in sys.stdin:
        if line.strip() == "start":
            break
    else:
        spark.stop()
        return
    directory, name = Path(spec["directory"]), spec["name"]
    sink = directory / "sink"
    sink.mkdir(exist_ok=True)
    author = f"{name}-{spec['run']}" if "run" in spec else name

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        write(batch, sink / f"{author}-{batch_id}.json", directory / f"{name}.hold")

    records = spark.readStream.format("slackwater").options(**spec["options"]).load()
    rows = counts(records, spec["watermark"]) if "watermark" in spec else records.select("topic", "partition", "offset")
    writer = (
        rows.writeStream.foreachBatch(write_batch)
        .outputMode("update" if "watermark" in spec else "append")
        .option("checkpointLocation", str(directory / f"checkpoint-{name}"))
    )
    if "trigger" in spec:
        writer = writer.trigger(**spec["trigger"])
    told = threading.Event()
    threading.Thread(target=stop_when_told, args=(spark, told), daemon=True).start()
    failure: str | None = NO_HELLO
    while failure is not None and NO_HELLO in failure and not told.is_set():
        query = writer.start()
        say("started")
        if told.is_set():
            query.stop()
        failure = ended(query)
    if failure is not None:
        say("failed", failure.splitlines())
    say("stopped")
    spark.stop()


def counts(records: DataFrame, watermark: str) -> DataFrame:
    """How many records each partition has in each ten seconds of event time."""
    windows = records.withWatermark("timestamp", watermark).groupBy(window("timestamp", "10 seconds"), "partition")
    return windows.count().select("partition", col("window.start").cast("long").alias("window"), "count")


def ended(query: StreamingQuery) -> str | None:
    """Wait for the end of a query, and say why it failed if it did."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        return str(error)
    return None


def stop_when_told(spark: SparkSession, told: threading.Event) -> None:
    """Wait for the end of the input."""
    sys.stdin.read()
    told.set()
    for query in spark.streams.active:
        query.stop()


def session(master: str) -> SparkSession:
    """A small one."""
    return (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )


def write(batch: DataFrame, path: Path, hold: Path) -> None:
    """Write a batch, when nothing holds it."""
    rows = [list(row) for row in batch.collect()]
    while hold.exists():
        hold.with_suffix(".held").touch()
        time.sleep(HELD_LOOK_S)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(rows))
    os.replace(temporary, path)


def say(what: str, *more: object, **named: object) -> None:
    """Tell whoever started this."""
    print(json.dumps({"say": what, "more": more, **named}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
