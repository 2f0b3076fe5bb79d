"""All incidents of the corpus, in one run: every rebalance is found and no relevant line is unrecognized."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.incidents import incidents_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slackwater.spark.doctor.history.event_history import EventHistory

pytestmark = pytest.mark.repetition  # tests/doctor checks the same without Spark
OPEN = incidents_directory()


@pytest.fixture(scope="module")
def history(spark: "SparkSession") -> "Iterator[EventHistory]":
    """The history of every incident, each as its own cluster."""
    from slackwater.spark.doctor.history.event_history import EventHistory, HistorySource

    with EventHistory(spark, HistorySource([str(OPEN)], clusters_dir=str(OPEN))) as history:
        yield history


@pytest.fixture(scope="module")
def events(history: "EventHistory") -> "DataFrame":
    """The events of every incident, read once."""
    return history.events.cache()


def _truth() -> dict[tuple[str, str], int]:
    labels = (json.loads(path.read_text()) for path in sorted(OPEN.glob("*/truth.json")))
    return {(label["id"], name): group["rebalances"] for label in labels for name, group in label["groups"].items()}


def test_every_rebalance_is_found_and_every_line_read(history: "EventHistory", events: "DataFrame") -> None:
    formed = events.filter("kind = 'generation_formed' AND source = 'broker_log'")
    counts = {(row.cluster, row["group"]): row["count"] for row in formed.groupBy("cluster", "group").count().collect()}
    assert {key: counts.get(key, 0) for key in _truth()} == _truth()
    assert [row.asDict() for row in history.unrecognized.collect()] == []


def test_every_event_has_its_time_group_and_client(events: "DataFrame") -> None:
    assert events.filter("time_ms IS NULL OR (source = 'client_log' AND `group` IS NULL)").collect() == []
    unnamed = events.filter("source = 'client_log' AND client IS NULL AND instance IS NULL")
    # Sarama prints no name except its member id, so a client that never joined stays unknown.
    assert {row.kind for row in unnamed.collect()} <= {"client_started", "coordinator_found"}
