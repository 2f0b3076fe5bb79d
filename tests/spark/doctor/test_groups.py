"""Rows packed into buckets of groups, and taken apart into groups again."""

from collections.abc import Sequence

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.spark.doctor.diagnosis import Choice, whole_groups
from slackwater.spark.doctor.history.packing import packing_rows, unpack_names

ROWS = [
    (1, None, "a", "member_joined", None),
    (2, None, "a", "member_left", None),
    (3, None, "b", "member_joined", None),
    (4, "east", "b", "member_joined", None),
    (5, "east", "c", "member_joined", None),
    (6, "east", "c", "coordinator_found", None),
    (7, "east", "c", "heartbeat_refused", '{"error":"REBALANCE_IN_PROGRESS"}'),
    (8, "east", "c", "heartbeat_refused", '{"error":"UNKNOWN_MEMBER_ID"}'),
]


def _batch(rows: Sequence[tuple[object, ...]]) -> "pa.RecordBatch":
    names = ("time_ms", "cluster", "group", "kind", "detail")
    columns = zip(*rows, strict=True)
    kinds = (pa.int64(), *[pa.string()] * 4)
    return pa.record_batch([pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)], names=list(names))


def _times(batches: "list[pa.RecordBatch]", choice: Choice | None = None) -> dict[tuple[str, str], list[int]]:
    buckets = whole_groups(batches) if choice is None else whole_groups(batches, choice)
    return {name: one.rows["time_ms"].to_pylist()[begin:end] for one in buckets for name, begin, end in one.groups}


@pytest.mark.parametrize("buckets", [1, 3, 50])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_group_is_whole_however_its_rows_were_packed(buckets: int, size: int) -> None:
    pieces = [ROWS[at : at + size] for at in range(0, len(ROWS), size)]
    packed = [batch for piece in pieces for batch in packing_rows(buckets)([_batch(piece)])]
    assert _times(packed) == {("", "a"): [1, 2], ("", "b"): [3], ("east", "b"): [4], ("east", "c"): [5, 8]}
    of_bucket: dict[int, set[str]] = {}
    for batch in packed:
        for row in batch.to_pylist():
            with pa.ipc.open_stream(row["packed"]) as stream:
                of_bucket.setdefault(row["bucket"], set()).update(stream.read_all()["group"].to_pylist())
    assert set().union(*of_bucket.values()) == {"a", "b", "c"}


def test_only_what_was_chosen_is_judged() -> None:
    packed = list(packing_rows(4)([_batch(ROWS)]))
    assert _times(packed, Choice(groups=["b"])) == {("", "b"): [3], ("east", "b"): [4]}
    assert _times(packed, Choice(since_ms=2, until_ms=4)) == {("", "a"): [2], ("", "b"): [3], ("east", "b"): [4]}


def test_names_are_told_once() -> None:
    found = [row for batch in unpack_names(packing_rows(1)([_batch(ROWS)])) for row in batch.to_pylist()]
    named = sorted((row["cluster"] or "", row["group"], row["member"]) for row in found)
    assert named == [("", "a", None), ("", "b", None), ("east", "b", None), ("east", "c", None)]


def test_without_rows_there_is_no_group() -> None:
    assert _times([]) == {}
    assert _times(list(packing_rows(4)([]))) == {}
