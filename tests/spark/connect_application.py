"""A PySpark application for tests with Spark Connect: the session is in another process, without a listener.

    python -m tests.spark.connect_application HOST:PORT TOPIC GROUP COUNT CHECKPOINT

- JSON lines on standard output: the counts of `batch` and `stream`, then `stopped`.
- The query runs until its input ends.
"""

import json
import sys

from pyspark.sql import SparkSession

import slackwater.spark
from tests.waiting import wait_until

TIMEOUT_S = 180.0


def main(bootstrap: str, topic: str, group: str, count: str, checkpoint: str) -> None:
    """Read in a batch, then in a stream as a member of a group."""
    spark = SparkSession.builder.remote("local[1]").getOrCreate()
    try:
        slackwater.spark.register(spark)
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        print(json.dumps({"batch": spark.read.format("slackwater").options(**options).load().count()}), flush=True)
        query = (
            spark.readStream.format("slackwater")
            .options(**options, **{"kafka.group.id": group})
            .load()
            .select("partition", "offset")
            .writeStream.format("memory")
            .queryName("seen")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        rows = spark.table("seen")
        wait_until(lambda: rows.count() >= int(count), lambda: f"{rows.count()} rows of {count}", TIMEOUT_S)
        print(json.dumps({"stream": rows.count(), "distinct": rows.distinct().count()}), flush=True)
        sys.stdin.read()
        query.stop()
        print(json.dumps({"stopped": True}), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
