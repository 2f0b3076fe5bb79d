"""Event rows to verdicts: selects the rows that rules read, brings those of each group together and diagnoses it.

Invariants:
- Rows that no rule reads, and those outside the selection, are dropped before they become Python objects.
- A group of which only the loading or the commits are known was not active: it gets no verdict.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.history.rows import to_rows
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, diagnose_group
from slackwater.group.events import EventKind

_UNUSED_KINDS: Final = (
    EventKind.OFFSETS_EXPIRED,
    EventKind.OFFSETS_DELETED,
    OtherEventKind.COORDINATOR_ELECTED,
    OtherEventKind.COORDINATOR_RESIGNED,
    OtherEventKind.COORDINATOR_LOADED,
    OtherEventKind.BROKER_SETTING,
)
"""Kinds that no rule reads."""
_INACTIVE_KINDS: Final = frozenset(
    {EventKind.GROUP_LOADED, EventKind.GROUP_UNLOADED, EventKind.GROUP_DELETED, EventKind.PROGRESS}
)
TOPIC_CHANGE_MS: Final = 1_000
"""Partitions of one topic that are created or deleted within this time are one change."""


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


def diagnose_rows(
    table: pa.Table, cluster_histories: Mapping[str, ClusterHistory], selection: Selection = ALL
) -> list[Verdict]:
    """Return the verdicts on the groups whose rows are in a table."""
    verdicts = []
    groups, ordered = order_by_group(table, selection)
    rows = to_rows(ordered)
    for cluster, group, count in groups:
        group_rows = list(islice(rows, count))
        if any(row.kind not in _INACTIVE_KINDS for row in group_rows):
            history = GroupHistory(group, group_rows, cluster_histories.get(cluster))
            verdicts.append(diagnose_group(history, cluster, with_timeline=selection.with_timeline))
    return verdicts


def order_by_group(table: pa.Table, selection: Selection = ALL) -> tuple[list[tuple[str, str, int]], pa.Table]:
    """Return cluster, name and row count of each group, and all their rows by group and time."""
    if "time_ms" not in table.column_names:
        return [], table.slice(0, 0)
    is_used = pc.invert(_is_one_of(table, "kind", _UNUSED_KINDS))
    table = table.filter(pc.and_(is_selected(table, selection), is_used))
    (groups, group_codes), (clusters, cluster_codes) = _encode(table, "group"), _encode(table, "cluster")
    keys = group_codes * len(clusters) + cluster_codes
    order = np.lexsort((table["time_ms"].to_numpy(), keys))
    present, counts = np.unique(keys, return_counts=True)
    names = [
        (clusters[key % len(clusters)], groups[key // len(clusters)], count)
        for key, count in zip(present.tolist(), counts.tolist(), strict=True)
    ]
    return names, table.drop_columns([name for name in ("cluster", "group") if name in table.column_names]).take(order)


def _encode(table: pa.Table, name: str) -> tuple[list[str], Any]:
    """Return the distinct values of a column, with "" for null, and each row's index among them."""
    if name not in table.column_names:
        return [""], np.zeros(table.num_rows, np.int64)
    encoded = pc.fill_null(table[name], "").combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist() or [""], encoded.indices.to_numpy().astype(np.int64)


def is_selected(table: pa.Table, selection: Selection) -> pa.Array:
    """Return which rows have a time and are in the selection; a row without a group is in every selection of groups."""
    selected = pc.is_valid(table["time_ms"])
    if selection.groups:
        is_of_groups = pc.or_(pc.is_null(table["group"]), _is_one_of(table, "group", selection.groups))
        selected = pc.and_(selected, is_of_groups)
    if selection.since_ms is not None:
        selected = pc.and_(selected, pc.greater_equal(table["time_ms"], selection.since_ms))
    if selection.until_ms is not None:
        selected = pc.and_(selected, pc.less_equal(table["time_ms"], selection.until_ms))
    return selected


def _is_one_of(table: pa.Table, name: str, values: Collection[str]) -> pa.Array:
    return pc.is_in(table[name], pa.array([str(value) for value in values], pa.string()))
