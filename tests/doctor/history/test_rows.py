"""Arrow columns to the rows that rules read."""

import json
import random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.doctor.events.rows import read_row
from slackwater.doctor.events.table import DETAIL, UNUSED_BY_RULES
from slackwater.doctor.history.rows import MAX_BATCH_ROWS, to_rows

_TEXTS = ("group", "cluster", "trigger", "member", "instance", "client", "host", "assignor", "state_before")
_EVIDENCE = ("evidence", "text", "file")
_FIELDS = {
    "reason": pa.string(),
    "old_generation": pa.int64(),
    "member_ids": pa.list_(pa.string()),
    "pending": pa.bool_(),
}


def random_row(random_source: random.Random) -> dict[str, Any]:
    """A row's columns, many of them missing or empty."""
    row: dict[str, Any] = {
        "time_ms": random_source.randrange(10),
        "kind": random_source.choice("abc"),
        "source": "broker_log",
    }
    row |= {name: random_source.choice((None, "", "x", "y")) for name in (*_TEXTS, *_EVIDENCE)}
    row |= {name: random_source.choice((None, 0, 7)) for name in ("generation", "members", "position")}
    row["reason"] = random_source.choice((None, "because", "why not"))
    row["old_generation"] = random_source.choice((None, 0, 3))
    row["member_ids"] = random_source.choice((None, ["m1"], ["m1", "m2"]))
    row["pending"] = random_source.choice((None, True, False))
    return row


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as columns."""
    return pa.table({name: pa.array([row[name] for row in rows], _FIELDS.get(name) or _kind(name)) for name in rows[0]})


def _kind(name: str) -> pa.DataType:
    return pa.int64() if name in ("time_ms", "generation", "members", "position") else pa.string()


@pytest.mark.parametrize("seed", range(20))
def test_columns_become_the_same_rows_as_single_rows(seed: int) -> None:
    random_source = random.Random(seed)
    missing = {name for name in (*_TEXTS, *_EVIDENCE, *_FIELDS) if random_source.random() < 0.3}
    columns = [
        {name: value for name, value in random_row(random_source).items() if name not in missing}
        for _ in range(random_source.randrange(1, 40))
    ]
    for row, values in zip(to_rows(table(columns)), columns, strict=True):
        detail = {name: values.get(name) for name in _FIELDS}
        expected = read_row({**{name: values[name] for name in values if name not in _FIELDS}, "detail": detail})
        assert row._replace(detail=expected.detail, detail_index=0) == expected._replace(group="")
        fields = {name: row.detail_value(name) for name in DETAIL if name not in UNUSED_BY_RULES}
        assert {name: value for name, value in fields.items() if value is not None} == {
            name: value for name, (value,) in expected.detail.items()
        }


def test_field_that_is_not_sent_to_rules_is_an_error() -> None:
    (row,) = to_rows(pa.table({"time_ms": [1], "kind": ["a"], "source": ["broker_log"]}))
    assert row.detail_value("reason") is None
    with pytest.raises(KeyError, match="leader is not sent to the rules"):
        row.detail_text("leader")


def test_to_rows_several_batches_are_complete() -> None:
    count = 2 * MAX_BATCH_ROWS + 7
    table = {"time_ms": range(count), "kind": ["a"] * count, "source": ["broker_log"] * count}
    rows = list(to_rows(pa.table(table | {"reason": [str(number) for number in range(count)]})))
    assert [(row.time_ms, row.detail_text("reason")) for row in rows] == [
        (number, str(number)) for number in range(count)
    ]


def test_json_detail_is_read() -> None:
    events = pa.table(
        {
            "time_ms": [1, 2],
            "kind": ["a", "b"],
            "source": ["client_log", "client_log"],
            "detail": [json.dumps({"error": "GONE", "limit_ms": 5}), None],
            "reason": pa.array([None, "slow"]),
        }
    )
    first, second = to_rows(events)
    assert (first.detail_text("error"), first.detail_number("limit_ms"), first.detail_text("reason")) == ("GONE", 5, "")
    assert (second.detail_text("error"), second.detail_number("limit_ms"), second.detail_text("reason")) == (
        "",
        None,
        "slow",
    )
