"""Jobs written for Spark's own Kafka source, with one word changed: equal results, and one sentence for a mistake."""

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
        self.mark = uuid.uuid4().hex[:8]
        self.orders, self.refunds = f"orders-{self.mark}", f"refunds-{self.mark}"

    def options(self, more: dict[str, str]) -> dict[str, str]:
        """Options with this test's names in place of `orders` and `refunds`."""
        named = {
            name: text.replace("orders", self.orders).replace("refunds", self.refunds) for name, text in more.items()
        }
        return {"kafka.bootstrap.servers": self.servers} | named

    def write(self, topic: str, numbers: range, codec: str = "none", partitions: int = 3) -> None:
        """Records whose values are their numbers."""
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
    found = Topics(kafka_session)
    forever = {"retention.ms": "-1"}
    with Admin({"bootstrap.servers": found.servers}) as admin:
        admin.create_topic(found.orders, 3, configs=forever)
        admin.create_topic(found.refunds, 1, configs=forever)
    found.write(found.orders, range(300))
    found.write(found.refunds, range(40), codec="zstd", partitions=1)
    return found


def batch(spark: SparkSession, source: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(source).options(**options).load()


def rows(frame: DataFrame) -> list[Row]:
    return in_order([frame.collect()])


def in_order(batches: list[list[Row]]) -> list[Row]:
    found = [row for one in batches for row in one]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


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
def test_batch_equals_sparks_source(spark: SparkSession, own_source: str, topics: Topics, more: dict[str, str]) -> None:
    ours, theirs = (batch(spark, source, topics.options(more)) for source in (OURS, own_source))
    assert ours.schema == theirs.schema
    found = rows(ours)
    assert found
    assert found == rows(theirs)
    assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()


def test_max_records_per_partition(spark: SparkSession, topics: Topics) -> None:
    found = batch(spark, OURS, topics.options({"subscribe": "orders", "maxRecordsPerPartition": "30"}))
    sizes = found.groupBy(F.spark_partition_id()).count().collect()
    assert sorted(row["count"] for row in sizes) == [25] * 12


def totals(frame: DataFrame) -> DataFrame:
    """What every customer has ordered."""
    order = F.from_json(F.col("value").cast("string"), "customer string, amount long")
    return frame.select(order.alias("order")).groupBy("order.customer").agg(F.sum("order.amount").alias("total"))


def by_the_second(frame: DataFrame) -> DataFrame:
    """Records by key and time."""
    window = F.window("timestamp", "100 milliseconds")
    return frame.groupBy(window, F.col("key").cast("string")).agg(
        F.count("*").alias("n"), F.max("offset").alias("last")
    )


def headers(frame: DataFrame) -> DataFrame:
    """The headers, one by one."""
    exploded = frame.select("topic", "partition", "offset", F.explode("headers").alias("header"))
    return exploded.select("topic", "partition", "offset", "header.key", F.col("header.value").cast("string"))


def newest_of_each_key(frame: DataFrame) -> DataFrame:
    """A table from its changes."""
    newest = F.max_by(F.struct("value", "offset"), "timestamp").alias("newest")
    return frame.where("key is not null").groupBy("topic", "key").agg(newest).select("topic", "key", "newest.*")


@pytest.mark.parametrize("job", [totals, by_the_second, headers, newest_of_each_key])
def test_job_gives_same_result_with_either_source(
    spark: SparkSession, own_source: str, topics: Topics, job: Callable[[DataFrame], DataFrame]
) -> None:
    options = topics.options({"subscribe": "orders,refunds", "includeHeaders": "true"})
    ours, theirs = (job(batch(spark, source, options)).collect() for source in (OURS, own_source))
    assert ours
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)


def streamed(spark: SparkSession, source: str, options: dict[str, str], checkpoint: Path) -> list[list[Row]]:
    """The batches of a stream that reads what is there, and ends."""
    batches: list[list[Row]] = []

    def keep(frame: DataFrame, _number: int) -> None:
        batches.append(rows(frame))

    query = (
        spark.readStream.format(source)
        .options(**options)
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(DEADLINE_S), query.lastProgress
    finally:
        query.stop()
    return [one for one in batches if one]


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
    spark: SparkSession, own_source: str, topics: Topics, tmp_path: Path, more: dict[str, str]
) -> None:
    options = topics.options({"subscribe": "orders"} | more)
    first = [streamed(spark, source, options, tmp_path / source) for source in (OURS, own_source)]
    topics.write(topics.orders, range(300, 360))
    second = [streamed(spark, source, options, tmp_path / source) for source in (OURS, own_source)]
    for ours, theirs in (first, second):
        assert ours
        assert in_order(ours) == in_order(theirs)


def test_continues_checkpoint_of_sparks_source(
    spark: SparkSession, own_source: str, topics: Topics, tmp_path: Path
) -> None:
    options = topics.options({"subscribe": "orders", "startingOffsets": "earliest"})
    before = streamed(spark, own_source, options, tmp_path)
    topics.write(topics.orders, range(300, 360))
    after = streamed(spark, OURS, options, tmp_path)
    seen = [(row["partition"], row["offset"]) for one in (*before, *after) for row in one]
    assert sorted(seen) == [(partition, offset) for partition in range(3) for offset in range(120)]


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
    """What the user reads first; a failure of a task begins with Spark's own words about the stage."""
    return next(line for line in text.splitlines() if "slackwater." in line or "Traceback" in line)
