"""`df.writeStream.format("slackwater")`: a group query that writes to a topic."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater import Producer
from tests.spark.sink.topics import DEADLINE_S, Topics


def test_stream_writes_every_record(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create("in"), topics.create("out")
    with Producer({"bootstrap.servers": topics.servers}) as producer:
        for number in range(300):
            producer.send(source, b"%d" % number, b"k%d" % (number % 7))
    options = {"kafka.bootstrap.servers": topics.servers}
    query = (
        spark.readStream.format("slackwater")
        .options(subscribe=source, startingOffsets="earliest", **{"kafka.group.id": source}, **options)
        .load()
        .selectExpr("key", "concat('done ', cast(value AS string)) AS value")
        .writeStream.format("slackwater")
        .options(topic=target, checkpointLocation=str(tmp_path), **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(row[3] or b"" for row in topics.read(target)) == sorted(b"done %d" % n for n in range(300))
    by_key = [(row[1], row[2], row[3]) for row in topics.read(source)]
    copied = [(row[1], row[2], row[3]) for row in topics.read(target)]
    assert sorted(row[:2] for row in copied) == sorted(row[:2] for row in by_key)  # the partitioner of the producer


def test_wrong_input_ends_the_query_with_one_sentence(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": topics.servers, "checkpointLocation": str(tmp_path)}
    query = spark.readStream.format("rate").load().writeStream.format("slackwater").options(**options).start()
    with pytest.raises(PySparkException) as raised:
        query.awaitTermination(int(DEADLINE_S))
    line = next(line for line in str(raised.value).splitlines() if "slackwater." in line)
    assert line.endswith("UsageError: The column value is bigint; it must be string or binary. Cast it.")
