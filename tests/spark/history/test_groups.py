"""Batches of rows, sorted by group, taken apart into groups."""

import pytest

pa = pytest.importorskip("pyarrow")


def test_a_group_is_whole_however_its_rows_are_cut_into_batches() -> None:
    from slackwater.spark.diagnosis import whole_groups

    rows = [("", "a", 1), ("", "a", 2), ("", "b", 3), ("", "b", 4), ("east", "b", 5), ("east", "c", 6)]
    for size in range(1, len(rows) + 1):
        pieces = [rows[at : at + size] for at in range(0, len(rows), size)]
        batches = [
            pa.record_batch(dict(zip(("cluster", "group", "x"), zip(*piece, strict=True), strict=True)))
            for piece in pieces
        ]
        found = [(cluster, group, table.column("x").to_pylist()) for cluster, group, table in whole_groups(batches)]
        assert found == [("", "a", [1, 2]), ("", "b", [3, 4]), ("east", "b", [5]), ("east", "c", [6])]


def test_without_rows_there_is_no_group() -> None:
    from slackwater.spark.diagnosis import whole_groups

    empty = pa.record_batch({"cluster": pa.array([], pa.string()), "group": pa.array([], pa.string())})
    assert list(whole_groups([empty])) == []
    assert list(whole_groups([])) == []
