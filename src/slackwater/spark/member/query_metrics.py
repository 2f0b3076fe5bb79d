"""Exports the metrics of Spark members to Prometheus, under the names of the Java consumer's metrics.

A query reports its metrics with its progress, so the values are those of its last batch.
"""

import json
from collections.abc import Iterator, Mapping
from math import nan
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from slackwater.client.consumer import metrics as consumer_metrics
from slackwater.client.consumer.metrics import FETCH_GROUP, MetricName
from slackwater.group.member.metrics import COORDINATOR_GROUP

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry
    from pyspark.sql import SparkSession


class QueryMetrics(StreamingQueryListener):
    """Keeps the last metrics of every running query that is a group member."""

    def __init__(self) -> None:
        self._metrics: dict[str, dict[MetricName, float]] = {}  # by run id

    def read(self) -> dict[MetricName, float]:
        """Return the metrics of all running queries."""
        return {name: value for metrics in list(self._metrics.values()) for name, value in metrics.items()}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignored: the first progress has the first metrics."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Keep the metrics of this progress."""
        metrics: dict[MetricName, float] = {}
        for source in event.progress.sources:
            metrics.update(parse_metrics(source.latestOffset))
        if metrics:
            self._metrics[str(event.progress.runId)] = metrics

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignored."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Remove the metrics of a query that ended."""
        self._metrics.pop(str(event.runId), None)


def parse_metrics(latest_offset: str | None) -> Iterator[tuple[MetricName, float]]:
    """Yield the metrics in the `latestOffset` of a source; none if it is not a group member of ours."""
    try:
        reported: Any = json.loads(latest_offset or "null")
    except ValueError:
        return
    if not isinstance(reported, Mapping) or "client" not in reported or "metrics" not in reported:
        return
    client_id = str(reported["client"])
    for name, value in reported["metrics"].items():
        yield MetricName(name, COORDINATOR_GROUP, client_id), nan if value is None else float(value)
    owned = sum(map(len, reported["owned"].values()))
    yield MetricName("assigned-partitions", COORDINATOR_GROUP, client_id), float(owned)
    lags = [lag for partitions in reported["lag"].values() for lag in partitions.values()]
    yield MetricName("records-lag-max", FETCH_GROUP, client_id), float(max(lags, default=nan))


def export(
    spark: "SparkSession", *, registry: "CollectorRegistry | None" = None, cut_total: bool = False
) -> QueryMetrics:
    """Add a listener to the session and register its metrics with prometheus_client."""
    metrics = QueryMetrics()
    spark.streams.addListener(metrics)
    consumer_metrics.export(metrics.read, registry=registry, cut_total=cut_total)
    return metrics
