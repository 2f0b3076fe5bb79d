"""A stream-stream join whose two streams are members of a group."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from slackwater import Broker, Producer
from slackwater.group.topic_partition import TopicPartition
from tests.spark.application import NO_CONNECTION
from tests.spark.conftest import spark  # noqa: F401

TIMEOUT_S: Final = 240
PARTITIONS: Final = 2
GROUP: Final = "payments-of-orders"


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with both topics."""
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        for topic in ("orders", "payments"):
            broker.create_topic(topic, PARTITIONS)
        yield broker


def write(broker: Broker, topic: str, keys: range) -> None:
    """Write one record per key."""
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for key in keys:
            producer.send(topic, b"x", key=b"%d" % key)


def stream(session: SparkSession, broker: Broker, topic: str) -> DataFrame:
    """The keys of a topic, as a member of the group."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.group.id": GROUP}
    records = session.readStream.format("slackwater").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    keys = records.options(**options).load().selectExpr("CAST(CAST(key AS STRING) AS INT) AS key", f"timestamp {topic}")
    return keys.withWatermark(topic, "1 hour")


def test_join_of_two_members_continues_after_restart(
    spark: SparkSession,  # noqa: F811
    broker: Broker,
    tmp_path: Path,
) -> None:
    joined: list[int] = []

    def collect(batch: DataFrame, _number: int) -> None:
        joined.extend(row.key for row in batch.collect())

    def join() -> None:
        """Join what is available, and end. On a busy machine a new Python process may connect too late for Spark."""
        rows = stream(spark, broker, "orders").join(stream(spark, broker, "payments"), "key")
        writer = rows.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path))
        while True:
            try:
                assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)
                return
            except StreamingQueryException as error:
                if NO_CONNECTION not in str(error):
                    raise

    write(broker, "orders", range(20))
    write(broker, "payments", range(8))
    join()
    assert sorted(joined) == list(range(8))
    write(broker, "payments", range(8, 20))
    write(broker, "orders", range(20, 22))
    join()
    assert sorted(joined) == list(range(20))  # orders of the first run are in the state
    committed = broker.committed(GROUP)
    for topic, count in (("orders", 22), ("payments", 20)):
        assert sum(committed[TopicPartition(topic, number)] for number in range(PARTITIONS)) == count
