"""Streaming queries of a group in a real Spark: triggers, commits, and error messages."""

import json
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import slackwater.spark
from slackwater import Broker, Producer
from slackwater.group.events import MemberJoined
from slackwater.group.topic_partition import TopicPartition
from tests.waiting import wait_until

TIMEOUT_S = 180.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


class Job:
    """A query that collects its rows, with its own topic and group."""

    def __init__(self, spark: SparkSession, broker: Broker, name: str, checkpoint: Path) -> None:
        self.spark, self.broker, self.name, self.checkpoint = spark, broker, name, checkpoint
        self.batches: list[list[tuple[int, int]]] = []
        broker.create_topic(name, 2)

    def fill(self, count: int) -> None:
        with Producer({"bootstrap.servers": self.broker.bootstrap_servers}) as producer:
            for number in range(count):
                producer.send(self.name, b"x", partition=number % 2)

    def start(self, trigger: dict[str, Any], **options: str) -> Any:
        """Start the query and wait for its first batch or its end."""
        query = self._start(trigger, **options)
        wait_until(lambda: self.batches or not query.isActive, lambda: query.status, TIMEOUT_S)
        return query

    def _start(self, trigger: dict[str, Any], **options: str) -> Any:
        self.batches.clear()
        settings = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "subscribe": self.name,
            "startingOffsets": "earliest",
            "kafka.group.id": self.name,
        } | {name.replace("_", "."): value for name, value in options.items()}
        records = self.spark.readStream.format("slackwater").options(**settings).load()
        writer = records.writeStream.foreachBatch(self._collect).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger).start()

    def _collect(self, batch: DataFrame, _batch_id: int) -> None:
        self.batches.append([(row["partition"], row["offset"]) for row in batch.collect()])

    def committed(self) -> list[int]:
        committed = self.broker.committed(self.name)
        return [committed.get(TopicPartition(self.name, number), -1) for number in range(2)]


@pytest.fixture
def job(spark: SparkSession, broker: Broker, tmp_path: Path) -> Iterator[Job]:
    yield Job(spark, broker, f"job-{uuid.uuid4().hex[:8]}", tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()


def test_default_client_id_names_the_application(job: Job, spark: SparkSession) -> None:
    def client_id(**options: str) -> str:
        job.fill(2)
        query = job.start({"processingTime": "100 milliseconds"}, **options)
        (member,) = job.broker.describe_group(job.name).members
        query.stop()
        wait_until(lambda: job.broker.describe_group(job.name).members == (), lambda: "still a member", TIMEOUT_S)
        return str(member.client_id)

    application = f"{spark.sparkContext.appName}-{spark.sparkContext.applicationId}"
    first, second = client_id(), client_id()
    assert re.fullmatch(rf"{re.escape(application)}-\d+", first)
    assert first != second  # two queries of one application have separate metrics
    assert client_id(kafka_client_id="mine") == "mine"
    joins = [event.detail for event in job.broker.events(job.name) if isinstance(event.detail, MemberJoined)]
    assert {join.client_software for join in joins if join.client_software} == {"slackwater-spark"}


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"once": True}])
def test_finished_query_commits_and_continues_there(job: Job, trigger: dict[str, Any]) -> None:
    for count, committed in ((20, [10, 10]), (6, [13, 13])):
        job.fill(count)
        query = job.start(trigger, maxOffsetsPerTrigger="8")
        assert query.awaitTermination(TIMEOUT_S)
        wait_until(lambda: job.broker.describe_group(job.name).members == (), job.committed, TIMEOUT_S)

        assert sum(map(len, job.batches)) == count
        assert job.committed() == committed


def test_batch_is_committed_when_it_ends(job: Job, spark: SparkSession) -> None:
    registry = CollectorRegistry()
    slackwater.spark.export_metrics(spark, registry=registry)
    job.fill(4)
    query = job.start({"processingTime": "1 hour"})
    wait_until(lambda: job.batches, lambda: query.lastProgress, TIMEOUT_S)
    ended = time.monotonic()

    wait_until(lambda: job.committed() == [2, 2], job.committed, TIMEOUT_S)

    print(f"committed {time.monotonic() - ended:.2f} s after the batch")
    progress = wait_until(lambda: query.lastProgress, lambda: "no progress", TIMEOUT_S)
    reported = json.loads(progress["sources"][0]["latestOffset"])
    assert reported["totalLag"] == 0
    assert reported["metrics"]["rebalance-total"] == 1
    assert reported["metrics"]["rebalance-latency-max"] >= 0
    client = {"client_id": reported["client"]}

    def exported(name: str) -> float | None:
        return registry.get_sample_value(f"kafka_consumer_consumer_{name}", client)

    wait_until(lambda: exported("coordinator_metrics_rebalance_total") == 1, lambda: "no metric", TIMEOUT_S)
    assert exported("coordinator_metrics_assigned_partitions") == 2
    assert exported("fetch_manager_metrics_records_lag_max") == 0
    query.stop()
    wait_until(lambda: exported("coordinator_metrics_rebalance_total") is None, lambda: "still there", TIMEOUT_S)
    wait_until(lambda: job.broker.describe_group(job.name).members == (), lambda: "still a member", TIMEOUT_S)


def test_spark_has_no_real_time_mode_for_python_sources(job: Job, spark: SparkSession, tmp_path: Path) -> None:
    """docs/spark.md says so; if this test fails, Spark has it now."""
    records = spark.readStream.format("slackwater").option("subscribe", job.name)
    writer: Any = (  # the stubs of pyspark 4.3 lack realTime
        records.option("kafka.bootstrap.servers", job.broker.bootstrap_servers)
        .load()
        .writeStream.format("console")
        .option("checkpointLocation", str(tmp_path))
        .outputMode("update")
    )
    with pytest.raises(StreamingQueryException, match="REAL_TIME"):
        writer.trigger(realTime="5 seconds").start().awaitTermination(TIMEOUT_S)


def test_error_is_in_first_line(job: Job) -> None:
    query = job.start({"processingTime": "0 seconds"}, subscribe="missing-topic")

    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(TIMEOUT_S)

    first_line = str(caught.value).splitlines()[0]
    assert first_line.endswith("There is no topic missing-topic.")
