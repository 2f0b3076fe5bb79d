"""Event rows to verdicts: Spark brings the rows of each group together, and a worker diagnoses it.

Invariants:
- A worker receives a bucket of groups (history/buckets.py) and diagnoses one after another, in time linear in their
  rows.
- The history of a cluster's brokers and topics concerns all its groups. It is small and goes to every worker.
"""

import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.events.rows import Row, read_row
from slackwater.doctor.grouping import ALL, TOPIC_CHANGE_MS, Selection, diagnose_rows
from slackwater.doctor.history.garbage_collection import garbage_collection_paused
from slackwater.doctor.history.lines import SHOWN_CHARACTERS
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.verdict import Verdict
from slackwater.spark.doctor.history.buckets import unbucket

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

VERDICTS: Final = "verdicts binary"


def diagnose_groups(
    bucketed: DataFrame, cluster_histories: dict[str, ClusterHistory], selection: Selection = ALL
) -> list[Verdict]:
    """Return the verdict on every selected group, ordered by cluster and name."""
    results = bucketed.groupBy("bucket").applyInArrow(_diagnose_bucket(cluster_histories, selection), VERDICTS)
    verdicts: list[Verdict] = [verdict for row in results.collect() for verdict in pickle.loads(bytes(row.verdicts))]
    return sorted(verdicts, key=lambda verdict: (verdict.cluster, verdict.group))


def _diagnose_bucket(
    cluster_histories: dict[str, ClusterHistory], selection: Selection
) -> Callable[["pa.Table"], "pa.Table"]:
    def _diagnose_bucket(bucket: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        with garbage_collection_paused():
            verdicts = diagnose_rows(unbucket(bucket["rows"]), cluster_histories, selection)
            # One pickle for all verdicts of a bucket: their common texts are written once.
            return pa.table({"verdicts": pa.array([pickle.dumps(verdicts)], pa.binary())})

    return _diagnose_bucket


def read_cluster_histories(cluster_events: DataFrame | None, ended_ms: Mapping[str, int]) -> dict[str, ClusterHistory]:
    """Return the history of each cluster's brokers and topics; `ended_ms` is the time of its last row."""
    rows = _cluster_rows(cluster_events) if cluster_events is not None else {}
    return {name: ClusterHistory.of(rows.get(name, ()), ended_ms.get(name, 0)) for name in rows.keys() | ended_ms}


def _cluster_rows(cluster_events: DataFrame) -> dict[str, list[Row]]:
    events = cluster_events.filter("time_ms IS NOT NULL").withColumn(
        "fields", F.from_json("detail", "topic string, node string, partition bigint")
    )
    changes = events.groupBy(
        F.coalesce("cluster", F.lit("")).alias("cluster"),
        "kind",
        "fields.topic",
        "fields.node",
        F.expr(f"time_ms div {TOPIC_CHANGE_MS}").alias("second"),
    ).agg(
        F.min("time_ms").alias("time_ms"),
        F.min("fields.partition").alias("partition"),
        F.min_by(F.coalesce("evidence", F.expr("concat(file, ':', position)")), "time_ms").alias("evidence"),
        F.min_by("source", "time_ms").alias("source"),
        F.min_by(F.substring("text", 1, SHOWN_CHARACTERS), "time_ms").alias("text"),
    )
    rows: dict[str, list[Row]] = {}
    for change in changes.collect():
        columns = change.asDict()
        detail = {name: columns.pop(name) for name in ("topic", "node", "partition")}
        rows.setdefault(columns["cluster"], []).append(read_row(columns | {"detail": detail}))
    return rows
