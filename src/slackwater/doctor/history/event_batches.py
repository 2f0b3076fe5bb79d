"""Rows as batches of the event table, with their detail as JSON or as a struct."""

import json
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from slackwater.doctor.events.table import COLUMNS, DETAIL, EVIDENCE
from slackwater.doctor.history.log_events import ARROW_TYPES

ID_COLUMNS: Final = ("cluster", "group", "client", "member", "instance")


def to_json_rows(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows with their detail as JSON."""
    names = [name for name in DETAIL if name in rows.column_names]
    detail = [
        json.dumps({name: value for name, value in row.items() if value is not None}, separators=(",", ":"))
        for row in rows.select(names).to_pylist()
    ] or ["{}"] * rows.num_rows
    return _event_batch(rows, pa.array(detail, pa.string()))


def to_events(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows with their detail as a struct."""
    fields = {name: typed_column(rows, name, kind) for name, kind in DETAIL.items()}
    return _event_batch(rows, pa.StructArray.from_arrays(list(fields.values()), names=list(fields)))


def _event_batch(rows: pa.Table, detail: pa.Array) -> pa.RecordBatch:
    columns = {name: typed_column(rows, name, kind) for name, kind in COLUMNS.items()}
    evidence = {name: typed_column(rows, name, kind) for name, kind in EVIDENCE.items()}
    return pa.record_batch({**columns, "detail": detail, **evidence})


def typed_column(rows: pa.Table, name: str, kind: str) -> pa.Array:
    """Return a column with its type in the event table, null if it is missing."""
    if name not in rows.column_names:
        return pa.nulls(rows.num_rows, ARROW_TYPES[kind])
    return rows[name].combine_chunks().cast(ARROW_TYPES[kind])
