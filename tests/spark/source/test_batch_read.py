"""Jobs that were written for Spark's Kafka source give equal results with this source, and short error messages."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from slackwater import Admin, Producer
from slackwater.testing.kafka import Kafka

OURS = "slackwater"
BASE_MS = 1_700_000_000_000
DEADLINE_S = 120


class Topics:
    """Topics of one test, and the options that read them."""

    def __init__(self, kafka: Kafka) -> None:
        self.servers = kafka.bootstrap_servers
        self.suffix = uuid.uuid4().hex[:8]
        self.orders, self.refunds = f"orders-{self.suffix}", f"refunds-{self.suffix}"

    def options(self, options: dict[str, str]) -> dict[str, str]:
        """Options in which `orders` and `refunds` are replaced by this test's topics."""
        named = {
            name: text.replace("orders", self.orders).replace("refunds", self.refunds) for name, text in options.items()
        }
        return {"kafka.bootstrap.servers": self.servers} | named

    def write(self, topic: str, numbers: range, codec: str = "none", partitions: int = 3) -> None:
        """Write records whose values contain their numbers."""
        with Producer({"bootstrap.servers": self.servers, "compression.type": codec}) as producer:
            for number in numbers:
                producer.send(
                    topic,
                    json.dumps({"customer": f"c{number % 7}", "amount": number}).encode() if number % 11 else None,
                    b"k%d" % (number % 7) if number % 5 else None,
                    headers=[("source", b"test"), ("n", b"%d" % number)] if number % 3 else [],
                    partition=number % partitions,
                    timestamp_ms=BASE_MS + number,
                )


@pytest.fixture
def topics(kafka_session: Kafka) -> Topics:
    created = Topics(kafka_session)
    forever = {"retention.ms": "-1"}
    with Admin({"bootstrap.servers": created.servers}) as admin:
        admin.create_topic(created.orders, 3, configs=forever)
        admin.create_topic(created.refunds, 1, configs=forever)
    created.write(created.orders, range(300))
    created.write(created.refunds, range(40), codec="zstd", partitions=1)
    return created


def batch(spark: SparkSession, source: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(source).options(**options).load()


def rows(frame: DataFrame) -> list[Row]:
    return in_order([frame.collect()])


def in_order(batches: list[list[Row]]) -> list[Row]:
    all_rows = [row for batch_rows in batches for row in batch_rows]
    return sorted(all_rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.mark.parametrize(
    "more",
    [
        {"subscribe": "orders"},
        {"subscribe": "orders,refunds", "includeHeaders": "true"},
        {"subscribePattern": "(orders|refunds).*"},
        {"assign": '{"orders":[0,2]}'},
        {
            "subscribe": "orders",
            "startingOffsets": '{"orders":{"0":10,"1":-2,"2":99}}',
            "endingOffsets": '{"orders":{"0":-1,"1":50,"2":100}}',
        },
        {"subscribe": "orders", "startingTimestamp": str(BASE_MS + 100), "endingTimestamp": str(BASE_MS + 201)},
        {
            "subscribe": "orders",
            "startingOffsetsByTimestamp": f'{{"orders":{{"0":{BASE_MS},"1":{BASE_MS + 50},"2":{BASE_MS + 290}}}}}',
            "endingOffsetsByTimestamp": f'{{"orders":{{"0":{BASE_MS + 9},"1":{BASE_MS + 99},"2":{BASE_MS + 999}}}}}',
        },
        {"subscribe": "orders,refunds", "minPartitions": "9"},
    ],
    ids=lambda more: ",".join(more),
)
def test_batch_equals_sparks_source(
    spark: SparkSession, spark_source: str, topics: Topics, more: dict[str, str]
) -> None:
    ours, theirs = (batch(spark, source, topics.options(more)) for source in (OURS, spark_source))
    assert ours.schema == theirs.schema
    our_rows = rows(ours)
    assert our_rows
    assert our_rows == rows(theirs)
    assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()


def test_max_records_per_partition(spark: SparkSession, topics: Topics) -> None:
    frame = batch(spark, OURS, topics.options({"subscribe": "orders", "maxRecordsPerPartition": "30"}))
    sizes = frame.groupBy(F.spark_partition_id()).count().collect()
    assert sorted(row["count"] for row in sizes) == [25] * 12


def totals(frame: DataFrame) -> DataFrame:
    """The total of each customer."""
    order = F.from_json(F.col("value").cast("string"), "customer string, amount long")
    return frame.select(order.alias("order")).groupBy("order.customer").agg(F.sum("order.amount").alias("total"))


def by_key_and_window(frame: DataFrame) -> DataFrame:
    """Records by key and time window."""
    window = F.window("timestamp", "100 milliseconds")
    return frame.groupBy(window, F.col("key").cast("string")).agg(
        F.count("*").alias("n"), F.max("offset").alias("last")
    )


def headers(frame: DataFrame) -> DataFrame:
    """One row per header."""
    exploded = frame.select("topic", "partition", "offset", F.explode("headers").alias("header"))
    return exploded.select("topic", "partition", "offset", "header.key", F.col("header.value").cast("string"))


def newest_per_key(frame: DataFrame) -> DataFrame:
    """The newest record of each key."""
    newest = F.max_by(F.struct("value", "offset"), "timestamp").alias("newest")
    return frame.where("key is not null").groupBy("topic", "key").agg(newest).select("topic", "key", "newest.*")


@pytest.mark.parametrize("job", [totals, by_key_and_window, headers, newest_per_key])
def test_job_gives_same_result_with_either_source(
    spark: SparkSession, spark_source: str, topics: Topics, job: Callable[[DataFrame], DataFrame]
) -> None:
    options = topics.options({"subscribe": "orders,refunds", "includeHeaders": "true"})
    ours, theirs = (job(batch(spark, source, options)).collect() for source in (OURS, spark_source))
    assert ours
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)


def streamed(spark: SparkSession, source: str, options: dict[str, str], checkpoint: Path) -> list[list[Row]]:
    """The batches of a stream that reads all available records and ends."""
    batches: list[list[Row]] = []

    def collect(frame: DataFrame, _number: int) -> None:
        batches.append(rows(frame))

    query = (
        spark.readStream.format(source)
        .options(**options)
        .load()
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(DEADLINE_S), query.lastProgress
    finally:
        query.stop()
    return [batch_rows for batch_rows in batches if batch_rows]


@pytest.mark.parametrize(
    "more",
    [
        {"startingOffsets": "earliest"},
        {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "70", "includeHeaders": "true"},
        {"startingOffsets": '{"orders":{"0":10,"1":-2,"2":-1}}'},
        {"startingTimestamp": str(BASE_MS + 100), "minPartitions": "5"},
    ],
    ids=lambda more: ",".join(more),
)
def test_stream_equals_sparks_source(
    spark: SparkSession, spark_source: str, topics: Topics, tmp_path: Path, more: dict[str, str]
) -> None:
    options = topics.options({"subscribe": "orders"} | more)
    first = [streamed(spark, source, options, tmp_path / source) for source in (OURS, spark_source)]
    topics.write(topics.orders, range(300, 360))
    second = [streamed(spark, source, options, tmp_path / source) for source in (OURS, spark_source)]
    for ours, theirs in (first, second):
        assert ours
        assert in_order(ours) == in_order(theirs)


def test_continues_checkpoint_of_sparks_source(
    spark: SparkSession, spark_source: str, topics: Topics, tmp_path: Path
) -> None:
    options = topics.options({"subscribe": "orders", "startingOffsets": "earliest"})
    before = streamed(spark, spark_source, options, tmp_path)
    topics.write(topics.orders, range(300, 360))
    after = streamed(spark, OURS, options, tmp_path)
    read = [(row["partition"], row["offset"]) for batch_rows in (*before, *after) for row in batch_rows]
    assert sorted(read) == [(partition, offset) for partition in range(3) for offset in range(120)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"subscribe": "orders", "startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"subscribe": "orders", "assign": '{"orders":[0]}'}, "subscribe and assign cannot be set together"),
        ({"subscribe": "orders", "startingOffsets": "{"}, "startingOffsets = '{' is invalid"),
        ({"subscribe": "no-such-topic"}, "There is no topic no-such-topic"),
        ({"subscribe": "orders", "kafka.bootstrap.servers": "127.0.0.1:1"}, "No broker can be reached"),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":900,"1":0,"2":0}}', "endingOffsets": "END"},
            "Data loss: ",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else ",".join(value),
)
def test_error_is_in_first_line(spark: SparkSession, topics: Topics, more: dict[str, str], message: str) -> None:
    end = topics.options({"end": '{"orders":{"0":950,"1":1,"2":1}}'})["end"]
    options: dict[str, Any] = topics.options(more)
    options = {name: end if text == "END" else text for name, text in options.items()}
    with pytest.raises(PySparkException) as raised:
        batch(spark, OURS, options).collect()
    assert message in first_line(str(raised.value))
    assert "Traceback" not in first_line(str(raised.value))


def first_line(text: str) -> str:
    """The line with the error; the failure of a task starts with Spark's lines about the stage."""
    return next(line for line in text.splitlines() if "slackwater." in line or "Traceback" in line)
