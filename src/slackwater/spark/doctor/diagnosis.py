"""Event rows to verdicts: Spark brings the rows of each group together, and a worker diagnoses it.

Invariants:
- A worker receives a bucket of groups (history/buckets.py) and diagnoses one after another, in time linear in their
  rows.
- Rows that no rule reads, and those outside the selection, are dropped before they become Python objects.
- The history of a cluster's brokers and topics concerns all its groups. It is small and goes to every worker.
- A group of which only the loading or the commits are known was not active: it gets no verdict.
"""

import pickle
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.events.rows import Row, read_row
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, diagnose_group
from slackwater.group.events import EventKind
from slackwater.spark.doctor.garbage_collection import garbage_collection_paused
from slackwater.spark.doctor.history.lines import SHOWN_CHARACTERS

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_UNUSED_KINDS: Final = (
    EventKind.PARTITIONS_REVOKED,
    EventKind.PARTITIONS_LOST,
    EventKind.COORDINATOR_FOUND,
    EventKind.OFFSETS_EXPIRED,
    EventKind.OFFSETS_DELETED,
    OtherEventKind.COORDINATOR_ELECTED,
    OtherEventKind.COORDINATOR_RESIGNED,
    OtherEventKind.COORDINATOR_LOADED,
    OtherEventKind.BROKER_SETTING,
)
"""Kinds that no rule reads."""
_REBALANCING: Final = "REBALANCE_IN_PROGRESS"
"""The error of a heartbeat that every member receives in every rebalance: no rule reads it."""
_INACTIVE_KINDS: Final = frozenset(
    {EventKind.GROUP_LOADED, EventKind.GROUP_UNLOADED, EventKind.GROUP_DELETED, EventKind.PROGRESS}
)
_TOPIC_CHANGE_MS: Final = 1_000
"""Partitions of one topic that are created or deleted within this time are one change."""
VERDICTS: Final = "verdicts binary"


@dataclass(frozen=True, slots=True)
class Selection:
    """The groups and the time span to diagnose."""

    groups: Collection[str] = ()
    """All groups if empty."""
    since_ms: int | None = None
    until_ms: int | None = None
    with_timeline: bool = True
    """Whether verdicts need the single rebalances, minutes and member timelines of a report."""


ALL: Final = Selection()


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

        from slackwater.spark.doctor.rows import to_rows

        with garbage_collection_paused():
            verdicts = []
            groups, table = rows_by_group(bucket, selection)
            rows = to_rows(table)
            for cluster, group, count in groups:
                group_rows = list(islice(rows, count))
                if any(row.kind not in _INACTIVE_KINDS for row in group_rows):
                    history = GroupHistory(group, group_rows, cluster_histories.get(cluster))
                    verdicts.append(diagnose_group(history, cluster, with_timeline=selection.with_timeline))
            # One pickle for all verdicts of a bucket: their common texts are written once.
            return pa.table({"verdicts": pa.array([pickle.dumps(verdicts)], pa.binary())})

    return _diagnose_bucket


def rows_by_group(bucket: "pa.Table", selection: Selection = ALL) -> tuple[list[tuple[str, str, int]], "pa.Table"]:
    """Return cluster, name and row count of each group of a bucket, and all their rows by group and time."""
    import numpy as np

    from slackwater.spark.doctor.history.buckets import unbucket

    table = unbucket(bucket["rows"])
    if "time_ms" not in table.column_names:
        return [], table.slice(0, 0)
    table = table.filter(_is_selected(table, selection))
    (groups, group_codes), (clusters, cluster_codes) = _encode(table, "group"), _encode(table, "cluster")
    keys = group_codes * len(clusters) + cluster_codes
    order = np.lexsort((table["time_ms"].to_numpy(), keys))
    present, counts = np.unique(keys, return_counts=True)
    names = [
        (clusters[key % len(clusters)], groups[key // len(clusters)], count)
        for key, count in zip(present.tolist(), counts.tolist(), strict=True)
    ]
    return names, table.drop_columns([name for name in ("cluster", "group") if name in table.column_names]).take(order)


def _encode(table: "pa.Table", name: str) -> tuple[list[str], Any]:
    """Return the distinct values of a column, with "" for null, and each row's index among them."""
    import numpy as np
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if name not in table.column_names:
        return [""], np.zeros(table.num_rows, np.int64)
    encoded = pc.fill_null(table[name], "").combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist() or [""], encoded.indices.to_numpy().astype(np.int64)


def _is_selected(table: "pa.Table", selection: Selection) -> "pa.Array":
    """Return which rows rules read, and the selection includes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def is_one_of(name: str, values: Collection[str]) -> "pa.Array":
        return pc.is_in(table[name], pa.array([str(value) for value in values], pa.string()))

    selected = pc.and_(pc.is_valid(table["time_ms"]), pc.invert(is_one_of("kind", _UNUSED_KINDS)))
    is_refusal = is_one_of("kind", (EventKind.HEARTBEAT_REFUSED,))
    if "error" in table.column_names:
        selected = pc.and_not(selected, pc.and_(is_refusal, is_one_of("error", (_REBALANCING,))))
    if "detail" in table.column_names:
        matches = pc.fill_null(pc.match_substring(table["detail"], f'"error":"{_REBALANCING}"'), False)
        selected = pc.and_not(selected, pc.and_(is_refusal, matches))
    if selection.groups:
        selected = pc.and_(selected, is_one_of("group", selection.groups))
    if selection.since_ms is not None:
        selected = pc.and_(selected, pc.greater_equal(table["time_ms"], selection.since_ms))
    if selection.until_ms is not None:
        selected = pc.and_(selected, pc.less_equal(table["time_ms"], selection.until_ms))
    return selected


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
        F.expr(f"time_ms div {_TOPIC_CHANGE_MS}").alias("second"),
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
