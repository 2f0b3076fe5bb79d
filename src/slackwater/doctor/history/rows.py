"""Arrow columns to the rows that rules read, many at a time.

Invariants:
- A column becomes a list of Python values in one step. Equal texts of a column are one object.
- The fields of `detail` are columns of their own, or JSON in the column `detail`. A field's column is converted when a
  rule first reads it: most fields never are.
- An empty text is None.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.doctor.events.rows import Detail, Row, SingleRowDetail
from slackwater.doctor.events.table import DETAIL, UNUSED_BY_RULES

MAX_BATCH_ROWS: Final = 4_096
"""Rows are created in batches of this size, which the processor's cache holds."""
_COLUMN_OF_FIELD: Final = {"line": "text"}
"""Fields of a row with another name in the event table."""
_DEFAULTS: Final[Mapping[str, Any]] = {"position": 0}


def to_rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table. A column that has no values may be missing."""
    table = table.combine_chunks()
    starts = range(0, table.num_rows, MAX_BATCH_ROWS)
    return chain.from_iterable(_batch_rows(table.slice(start, MAX_BATCH_ROWS)) for start in starts)


def _batch_rows(table: pa.Table) -> Iterator[Row]:
    details, indexes = _details(table)
    columns: dict[str, Iterable[Any]] = {
        "detail": details,
        "detail_index": indexes,
        "group": repeat("", table.num_rows),
    }
    for name in Row._fields:
        column = _COLUMN_OF_FIELD.get(name, name)
        if name not in columns:
            default = _DEFAULTS.get(name)
            present = column in table.column_names
            columns[name] = _values(table[column], default) if present else repeat(default, table.num_rows)
    return map(_AS_ROW, zip(*(columns[name] for name in Row._fields), strict=True))


def _details(table: pa.Table) -> tuple[Iterable[Detail], Iterable[int]]:
    """Return the columns of each row's detail and the row's index in them."""
    columns = _DetailColumns(table)
    if "detail" not in table.column_names:
        return repeat(columns, table.num_rows), range(table.num_rows)
    texts = _values(table["detail"])
    details = [SingleRowDetail(json.loads(text)) if text else columns for text in texts]
    return details, [0 if text else index for index, text in enumerate(texts)]


class _DetailColumns(dict[str, list[Any]]):
    """The columns of the fields of `detail`, converted when they are first read."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__()
        self._table: Final = table

    def __missing__(self, name: str) -> list[Any]:
        if name in UNUSED_BY_RULES:
            raise KeyError(f"{name} is not sent to the rules: remove it from UNUSED_BY_RULES in doctor/events/table.py")
        present = name in DETAIL and name in self._table.column_names
        values = self[name] = _values(self._table[name]) if present else [None] * self._table.num_rows
        return values


_AS_ROW: Final = partial(tuple.__new__, Row)
"""Creates a row without `Row._make`, which takes twice as long."""


def _values(column: pa.ChunkedArray, default: Any = None) -> list[Any]:
    """Return a column's values, with the default for null."""
    array = column.combine_chunks()
    if pa.types.is_string(array.type):
        array = array.dictionary_encode()
        names = [name or default for name in array.dictionary.to_pylist()]
        texts: list[Any] = _objects([*names, default])[array.indices.fill_null(len(names)).to_numpy()].tolist()
        return texts
    if pa.types.is_integer(array.type):
        numbers: list[Any] = array.fill_null(0).to_numpy().tolist()
        if array.null_count:
            objects = _objects(numbers)
            objects[array.is_null().to_numpy(zero_copy_only=False)] = default
            numbers = objects.tolist()
        return numbers
    return [default if value is None else value for value in array.to_pylist()]


def _objects(values: list[Any]) -> NDArray[np.object_]:
    objects = np.empty(len(values), np.object_)
    objects[:] = values
    return objects
