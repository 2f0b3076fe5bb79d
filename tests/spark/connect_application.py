"""A PySpark application for tests with Spark Connect: the session is in another process, without a listener.

    python -m tests.spark.connect_application HOST:PORT TOPIC GROUP COUNT CHECKPOINT

- JSON lines on standard output: the counts of `batch`, `written` (with both deliveries) and `stream`, then `stopped`.
- The query runs until its input ends.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import slackwater.spark
from tests.spark.application import NO_CONNECTION
from tests.waiting import wait_until

TIMEOUT_S = 180.0


def main(bootstrap: str, topic: str, group: str, count: str, checkpoint: str) -> None:
    """Read in a batch, then in a stream as a member of a group."""
    spark = SparkSession.builder.remote("local[1]").getOrCreate()
    try:
        slackwater.spark.register(spark)
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        print(json.dumps({"batch": spark.read.format("slackwater").options(**options).load().count()}), flush=True)
        servers = {"kafka.bootstrap.servers": bootstrap}
        exactly_once = {"delivery": "exactly_once", "transactionalIdPrefix": "connect"}
        written = [
            write_and_count(spark, {**servers, "topic": f"{topic}-1"}),
            write_and_count(spark, {**servers, **exactly_once, "topic": f"{topic}-2"}),
        ]
        print(json.dumps({"written": written}), flush=True)
        options = {**options, "kafka.group.id": group}
        query, rows = start(spark, options, checkpoint)
        while not is_read(query, rows, int(count)):  # again with another checkpoint: the memory sink continues none
            checkpoint += "-again"
            query, rows = start(spark, options, checkpoint)
        print(json.dumps({"stream": rows.count(), "distinct": rows.distinct().count()}), flush=True)
        sys.stdin.read()
        query.stop()
        print(json.dumps({"stopped": True}), flush=True)
    finally:
        spark.stop()


def start(spark: SparkSession, options: dict[str, str], checkpoint: str) -> tuple[StreamingQuery, DataFrame]:
    """Start the query; return it and its rows."""
    query = (
        spark.readStream.format("slackwater")
        .options(**options)
        .load()
        .select("partition", "offset")
        .writeStream.format("memory")
        .queryName("seen")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    return query, spark.table("seen")


def is_read(query: StreamingQuery, rows: DataFrame, count: int) -> bool:
    """Wait until all records are read; False if a Python process did not connect to Spark in time."""
    wait_until(lambda: rows.count() >= count or not query.isActive, lambda: f"{rows.count()} of {count}", TIMEOUT_S)
    if (error := query.exception()) is not None and NO_CONNECTION not in str(error):
        raise error
    return query.isActive


def write_and_count(spark: SparkSession, options: dict[str, str]) -> int:
    """Write ten records to a topic, and return how many are committed there."""
    rows = spark.range(10).selectExpr("cast(id AS string) AS value")
    rows.write.format("slackwater").options(**options).mode("append").save()
    reading = {"subscribe": options["topic"], "kafka.isolation.level": "read_committed"}
    servers = {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"]}
    written = spark.read.format("slackwater").options(**servers, **reading).load()
    wait_until(lambda: written.count() >= 10, lambda: f"{written.count()} records", TIMEOUT_S)
    return written.count()


if __name__ == "__main__":
    main(*sys.argv[1:])
