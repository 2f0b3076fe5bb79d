"""Rows in buckets, brought together group by group."""

import gc
from collections.abc import Sequence

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.doctor.grouping import Selection, order_by_group
from slackwater.doctor.history.garbage_collection import garbage_collection_paused
from slackwater.group.errors import UsageError
from slackwater.spark.doctor.history.buckets import bucket_json_rows, names_of_rows, unbucket

ROWS = [
    (1, None, "a", "member_joined", None),
    (2, None, "a", "member_left", None),
    (3, None, "b", "member_joined", None),
    (4, "east", "b", "member_joined", None),
    (5, "east", "c", "member_joined", None),
    (6, "east", "c", "coordinator_loaded", None),
    (7, "east", "c", "heartbeat_refused", '{"error":"REBALANCE_IN_PROGRESS"}'),
    (8, "east", "c", "heartbeat_refused", '{"error":"UNKNOWN_MEMBER_ID"}'),
]


def _batch(rows: Sequence[tuple[object, ...]]) -> "pa.RecordBatch":
    names = ("time_ms", "cluster", "group", "kind", "detail")
    types = (pa.int64(), *[pa.string()] * 4)
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(values, kind) for values, kind in zip(columns, types, strict=True)], list(names))


def _times(batches: "list[pa.RecordBatch]", selection: Selection | None = None) -> dict[tuple[str, str], list[int]]:
    """Return the times of each group's rows, after Spark's shuffle by bucket."""
    table = pa.Table.from_batches(batches)
    times_by_group: dict[tuple[str, str], list[int]] = {}
    for bucket in set(table["bucket"].to_pylist()):
        of_bucket = table.filter(pa.compute.equal(table["bucket"], bucket))
        groups, rows = order_by_group(unbucket(of_bucket["rows"]), selection or Selection())
        times = iter(rows["time_ms"].to_pylist())
        times_by_group |= {(cluster, group): [next(times) for _ in range(count)] for cluster, group, count in groups}
    return times_by_group


@pytest.mark.parametrize("buckets", [1, 3, 50])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_bucket_has_all_rows_of_its_groups(buckets: int, size: int) -> None:
    pieces = [ROWS[start : start + size] for start in range(0, len(ROWS), size)]
    batches = [batch for piece in pieces for batch in bucket_json_rows(buckets)([_batch(piece)])]
    assert _times(batches) == {("", "a"): [1, 2], ("", "b"): [3], ("east", "b"): [4], ("east", "c"): [5, 7, 8]}


def test_only_selected_rows_are_judged() -> None:
    batches = list(bucket_json_rows(4)([_batch(ROWS)]))
    assert _times(batches, Selection(groups=["b"])) == {("", "b"): [3], ("east", "b"): [4]}
    assert _times(batches, Selection(since_ms=2, until_ms=4)) == {("", "a"): [2], ("", "b"): [3], ("east", "b"): [4]}


def test_names_of_rows_are_distinct() -> None:
    rows = [row for batch in names_of_rows(bucket_json_rows(1)([_batch(ROWS)])) for row in batch.to_pylist()]
    names = sorted((row["cluster"] or "", row["group"], row["member"]) for row in rows)
    assert names == [("", "a", None), ("", "b", None), ("east", "b", None), ("east", "c", None)]


@pytest.mark.parametrize("was_enabled", [True, False])
def test_garbage_collection_is_restored(was_enabled: bool) -> None:
    def fail() -> None:
        with garbage_collection_paused():
            assert not gc.isenabled()
            raise UsageError("failed")

    before = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        with pytest.raises(UsageError, match="failed"):
            fail()
        assert gc.isenabled() == was_enabled
    finally:
        (gc.enable if before else gc.disable)()
