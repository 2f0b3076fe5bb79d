"""Columns to the rows that rules read."""

import json
import random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.doctor.events.rows import read_row
from slackwater.doctor.events.table import DETAIL, UNUSED_BY_RULES
from slackwater.spark.doctor.rows import AT_ONCE, rows_of

_TEXTS = ("group", "cluster", "trigger", "member", "instance", "client", "host", "assignor", "state_before")
_EVIDENCE = ("evidence", "text", "file")
_FIELDS = {
    "reason": pa.string(),
    "old_generation": pa.int64(),
    "member_ids": pa.list_(pa.string()),
    "pending": pa.bool_(),
}


def made_up(chance: random.Random) -> dict[str, Any]:
    """A row's columns, many of them missing or empty."""
    row: dict[str, Any] = {"time_ms": chance.randrange(10), "kind": chance.choice("abc"), "source": "broker_log"}
    row |= {name: chance.choice((None, "", "x", "y")) for name in (*_TEXTS, *_EVIDENCE)}
    row |= {name: chance.choice((None, 0, 7)) for name in ("generation", "members", "position")}
    row["reason"] = chance.choice((None, "because", "why not"))
    row["old_generation"] = chance.choice((None, 0, 3))
    row["member_ids"] = chance.choice((None, ["m1"], ["m1", "m2"]))
    row["pending"] = chance.choice((None, True, False))
    return row


def table(rows: list[dict[str, Any]], once: set[str]) -> pa.Table:
    """The rows as columns, some of which tell each value once."""
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        column = pa.chunked_array([pa.array(values, _FIELDS.get(name) or _kind(name))])
        columns[name] = column.dictionary_encode() if name in once else column
    return pa.table(columns)


def _kind(name: str) -> pa.DataType:
    return pa.int64() if name in ("time_ms", "generation", "members", "position") else pa.string()


@pytest.mark.parametrize("seed", range(20))
def test_many_rows_at_once_are_what_each_is_by_itself(seed: int) -> None:
    chance = random.Random(seed)
    columns = [made_up(chance) for _ in range(chance.randrange(1, 40))]
    once = {name for name in ("kind", "source", "group", "file", "trigger", "member") if chance.random() < 0.5}
    missing = {name for name in (*_TEXTS, *_EVIDENCE, *_FIELDS) if chance.random() < 0.3}
    columns = [{name: value for name, value in one.items() if name not in missing} for one in columns]
    found = list(rows_of(table(columns, once)))
    for row, one in zip(found, columns, strict=True):
        detail = {name: one.get(name) for name in _FIELDS}
        expected = read_row({**{name: one[name] for name in one if name not in _FIELDS}, "detail": detail})
        assert row._replace(detail=expected.detail, place=0) == expected._replace(group="")
        told = {name: row.detail_value(name) for name in DETAIL if name not in UNUSED_BY_RULES}
        assert {name: value for name, value in told.items() if value is not None} == {
            name: one for name, (one,) in expected.detail.items()
        }


def test_a_field_that_does_not_come_with_the_rows_is_refused_and_not_taken_for_untold() -> None:
    (row,) = rows_of(pa.table({"time_ms": [1], "kind": ["a"], "source": ["broker_log"]}))
    assert row.detail_value("reason") is None
    with pytest.raises(KeyError, match="leader was left behind"):
        row.detail_text("leader")


def test_rows_are_made_some_at_a_time_and_all_of_them() -> None:
    count = 2 * AT_ONCE + 7
    table = {"time_ms": range(count), "kind": ["a"] * count, "source": ["broker_log"] * count}
    rows = list(rows_of(pa.table(table | {"reason": [str(number) for number in range(count)]})))
    assert [(row.time_ms, row.detail_text("reason")) for row in rows] == [
        (number, str(number)) for number in range(count)
    ]


def test_a_detail_that_came_as_json_is_read() -> None:
    told = pa.table(
        {
            "time_ms": [1, 2],
            "kind": ["a", "b"],
            "source": ["client_log", "client_log"],
            "detail": [json.dumps({"error": "GONE", "limit_ms": 5}), None],
            "reason": pa.array([None, "slow"]),
        }
    )
    first, second = rows_of(told)
    assert (first.detail_text("error"), first.detail_number("limit_ms"), first.detail_text("reason")) == ("GONE", 5, "")
    assert (second.detail_text("error"), second.detail_number("limit_ms"), second.detail_text("reason")) == (
        "",
        None,
        "slow",
    )


def test_tables_that_were_put_together_may_tell_values_once_each_in_its_own_order() -> None:
    one = pa.table({"time_ms": [1], "kind": ["a"], "source": ["s"], "client": pa.array(["x"]).dictionary_encode()})
    two = pa.table({"time_ms": [2, 3], "kind": ["b", "b"], "source": ["s", "s"]}).append_column(
        "client", pa.chunked_array([pa.array(["y", None]).dictionary_encode()])
    )
    assert [row.client for row in rows_of(pa.concat_tables([one, two]))] == ["x", "y", None]
