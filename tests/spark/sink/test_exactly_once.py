"""delivery=exactly_once in Spark: a group query that is restarted, and a batch write that fails."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import window
from pyspark.sql.streaming.query import StreamingQuery

from slackwater import Admin, Producer
from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.errors import BrokerError
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.spark.sink.topics import DEADLINE_S, Topics
from tests.waiting import wait_until

HAND_OVER_S = 180.0  # several batches of two queries, on a busy machine


def test_group_query_writes_every_record_once(spark: SparkSession, cluster: ClusterUnderTest, tmp_path: Path) -> None:
    topics = Topics(cluster.bootstrap_servers)
    source, target = topics.create("in", 2), topics.create("out", 2)
    options = {"kafka.bootstrap.servers": topics.servers}

    def send(numbers: range) -> None:
        with Producer({"bootstrap.servers": topics.servers}) as producer:
            for number in numbers:
                producer.send(source, b"%d" % number, partition=number % 2)

    def run() -> None:
        query = (
            spark.readStream.format("slackwater")
            .options(subscribe=source, startingOffsets="earliest", **{"kafka.group.id": source}, **options)
            .load()
            .select("value")
            .writeStream.format("slackwater")
            .options(topic=target, checkpointLocation=str(tmp_path), **options)
            .options(delivery="exactly_once", transactionalIdPrefix=target)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def visible(count: int) -> list[int]:
        return wait_for_numbers(topics, target, count)

    send(range(100))
    run()
    assert visible(100) == list(range(100))
    committed = cluster.admin.committed(source)
    assert sorted(offset.offset for offset in committed.values()) == [50, 50]
    assert all(CommitMarker.parse(offset) is not None for offset in committed.values())

    shutil.rmtree(tmp_path / "commits")  # as if the driver had died after the decision
    send(range(100, 150))
    run()
    assert visible(150) == list(range(150))


def test_batch_without_new_records_of_a_source(spark: SparkSession, kafka_session: Kafka, tmp_path: Path) -> None:
    topics = Topics(kafka_session.bootstrap_servers)
    sources, target = [topics.create(name, 1) for name in ("a", "b")], topics.create("out", 1)
    options = {"kafka.bootstrap.servers": topics.servers, "kafka.group.id": target, "startingOffsets": "earliest"}

    def run(*written: int) -> None:
        with Producer({"bootstrap.servers": topics.servers}) as producer:
            for topic, number in zip(sources, written, strict=False):
                producer.send(topic, b"%d" % number)
        first, second = (
            spark.readStream.format("slackwater").options(subscribe=topic, **options).load() for topic in sources
        )
        query = (
            first.union(second)
            .select("value")
            .writeStream.format("slackwater")
            .options(topic=target, checkpointLocation=str(tmp_path), **{"kafka.bootstrap.servers": topics.servers})
            .options(delivery="exactly_once", transactionalIdPrefix=target)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run(1, 2)
    run(3)  # the second source is idle
    assert wait_for_numbers(topics, target, 3) == [1, 2, 3]
    with Admin({"bootstrap.servers": topics.servers}) as admin:
        committed = {at.topic: offset.offset for at, offset in admin.committed(target).items()}
    assert committed == dict(zip(sources, (2, 1), strict=True))


def test_batch_without_new_records_closes_windows(spark: SparkSession, kafka_session: Kafka, tmp_path: Path) -> None:
    topics = Topics(kafka_session.bootstrap_servers)
    source, target = topics.create("in", 1), topics.create("out", 1)
    options = {"kafka.bootstrap.servers": topics.servers}
    with Producer({"bootstrap.servers": topics.servers}) as producer:
        for minute in (1, 2, 3, 60):
            producer.send(source, b"x", timestamp_ms=minute * 60_000)
    query = (
        spark.readStream.format("slackwater")
        .options(subscribe=source, startingOffsets="earliest", **{"kafka.group.id": source}, **options)
        .load()
        .withWatermark("timestamp", "1 minute")
        .groupBy(window("timestamp", "10 minutes"))
        .count()
        .selectExpr("cast(count AS string) AS value")
        .writeStream.format("slackwater")
        .options(topic=target, checkpointLocation=str(tmp_path), **options)
        .options(delivery="exactly_once", transactionalIdPrefix=target)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert wait_for_numbers(topics, target, 1) == [3]


def test_older_checkpoint_loses_no_record(spark: SparkSession, kafka_session: Kafka, tmp_path: Path) -> None:
    topics = Topics(kafka_session.bootstrap_servers)
    source, target = topics.create("in", 1), topics.create("out", 1)
    options = {"kafka.bootstrap.servers": topics.servers}

    def run(number: int) -> None:
        with Producer({"bootstrap.servers": topics.servers}) as producer:
            producer.send(source, b"%d" % number)
        query = (
            spark.readStream.format("slackwater")
            .options(subscribe=source, startingOffsets="earliest", **{"kafka.group.id": source}, **options)
            .load()
            .select("value")
            .writeStream.format("slackwater")
            .options(topic=target, checkpointLocation=str(tmp_path / "new"), **options)
            .options(delivery="exactly_once", transactionalIdPrefix=target)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run(0)
    shutil.copytree(tmp_path / "new", tmp_path / "copy")
    run(1)
    shutil.rmtree(tmp_path / "new")
    shutil.move(tmp_path / "copy", tmp_path / "new")
    with pytest.raises(StreamingQueryException, match="Batch 1 of this query was committed before"):
        run(2)
    assert wait_for_numbers(topics, target, 2) == [0, 1]
    with Admin({"bootstrap.servers": topics.servers}) as admin:
        assert [offset.offset for offset in admin.committed(source).values()] == [2]


def test_hand_over_between_two_queries_writes_every_record_once(
    spark: SparkSession, kafka_session: Kafka, tmp_path: Path
) -> None:
    topics = Topics(kafka_session.bootstrap_servers)
    source, target = topics.create("in", 4), topics.create("out", 2)
    options = {"kafka.bootstrap.servers": topics.servers}

    def send(numbers: range) -> None:
        with Producer({"bootstrap.servers": topics.servers}) as producer:
            for number in numbers:
                producer.send(source, b"%d" % number, partition=number % 4)

    def start(name: str) -> StreamingQuery:
        return (
            spark.readStream.format("slackwater")
            .options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="20")
            .options(**{"kafka.group.id": source, "kafka.client.id": name}, **options)
            .load()
            .select("value")
            .writeStream.format("slackwater")
            .options(topic=target, checkpointLocation=str(tmp_path / name), **options)
            .options(delivery="exactly_once", transactionalIdPrefix=f"{target}-{name}")
            .start()
        )

    def shares() -> list[int]:
        with suppress(BrokerError):  # before the first member joins
            (group,) = admin.describe_groups([source])
            return [len(member.partitions or ()) for member in group.members] if group.state == "Stable" else []
        return []

    queries: list[StreamingQuery] = []
    try:
        with Admin({"bootstrap.servers": topics.servers}) as admin:
            queries += [start("stopped")]
            wait_until(lambda: shares() == [4], shares, HAND_OVER_S)
            queries += [start("other")]
            wait_until(lambda: shares() == [2, 2], shares, HAND_OVER_S)
            send(range(160))  # eight batches
            wait_for_numbers(topics, target, 1, HAND_OVER_S)
            queries[0].stop()  # while batches of both run
            wait_until(lambda: shares() == [4], shares, HAND_OVER_S)
            send(range(160, 180))
            assert wait_for_numbers(topics, target, 180, HAND_OVER_S) == list(range(180))
    finally:
        for query in queries:
            query.stop()
    assert wait_for_numbers(topics, target, 180) == list(range(180))


def test_batch_is_visible_as_a_whole_or_not_at_all(spark: SparkSession, cluster: ClusterUnderTest) -> None:
    topics = Topics(cluster.bootstrap_servers)
    target = topics.create("out", 2)
    settings = {"topic": target, "delivery": "exactly_once", "transactionalIdPrefix": target}
    failing = spark.range(200, numPartitions=2).selectExpr(
        "if(id = 199, raise_error('no more'), cast(id AS string)) AS value"
    )
    with pytest.raises(PySparkException, match="no more"):
        topics.write(failing, "slackwater", **settings)
    assert topics.read(target) == []
    topics.write(spark.range(200, numPartitions=2).selectExpr("cast(id AS string) AS value"), "slackwater", **settings)
    assert wait_for_numbers(topics, target, 200) == list(range(200))


def wait_for_numbers(topics: Topics, topic: str, count: int, deadline_s: float = DEADLINE_S) -> list[int]:
    """Wait for records: the coordinator confirms a commit before its markers are in the partitions."""

    def numbers() -> list[int]:
        return sorted(int(row[3] or b"") for row in topics.read(topic))

    wait_until(lambda: len(numbers()) >= count, numbers, deadline_s)
    return numbers()
