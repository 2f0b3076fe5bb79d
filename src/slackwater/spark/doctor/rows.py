"""Columns to the rows that rules read, many at once.

Rules kept here
- A column becomes a list of Python values in one step, and a row is made of values that are there already. A text that
  many rows have in common is made once.
- The fields of a row's detail are columns (or stand together in one, as JSON, where a row came by Spark's own ways). A
  field's column is turned into values when a rule first asks for it: most fields of most rows never are.
- An empty text is none.
- Rows come parted by their groups, and do not name them again.
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

AT_ONCE: Final = 4_096
"""So many rows are made at a time: what is made of them finds them still near the processor."""
_COLUMN_OF: Final = {"line": "text"}
"""Fields of a row that are called otherwise in the event table."""
_ALWAYS: Final[Mapping[str, Any]] = {"position": 0}
"""What stands where nothing is told."""


def rows_of(table: pa.Table) -> Iterator[Row]:
    """The rows of a table in which each kind of value has a column, or none if no row has one."""
    whole = table.combine_chunks()
    return chain.from_iterable(_some(whole.slice(begin, AT_ONCE)) for begin in range(0, table.num_rows, AT_ONCE))


def _some(table: pa.Table) -> Iterator[Row]:
    have = set(table.column_names)
    details, places = _details(table)
    columns: dict[str, Iterable[Any]] = {"detail": details, "place": places, "group": repeat("", table.num_rows)}
    for name in Row._fields:
        column = _COLUMN_OF.get(name, name)
        if name not in columns:
            nothing = _ALWAYS.get(name)
            columns[name] = _values(table[column], nothing) if column in have else repeat(nothing, table.num_rows)
    return map(_AS_ROW, zip(*(columns[name] for name in Row._fields), strict=True))


def _details(table: pa.Table) -> tuple[Iterable[Detail], Iterable[int]]:
    """The columns that each row's detail is in, and its place there."""
    fields = _Fields(table)
    if "detail" not in table.column_names:
        return repeat(fields, table.num_rows), range(table.num_rows)
    texts = _values(table["detail"])
    alone = [SingleRowDetail(json.loads(text)) if text else fields for text in texts]
    return alone, [0 if text else place for place, text in enumerate(texts)]


class _Fields(dict[str, list[Any]]):
    """The columns of fields, as values once they are asked for."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__()
        self._table = table
        self._have: Final = set(table.column_names)

    def __missing__(self, name: str) -> list[Any]:
        if name in UNUSED_BY_RULES:
            raise KeyError(f"{name} was left behind: take it out of UNUSED_BY_RULES in event_table.py to ask for it")
        known = name in DETAIL and name in self._have
        values = self[name] = _values(self._table[name]) if known else [None] * self._table.num_rows
        return values


_AS_ROW: Final = partial(tuple.__new__, Row)
"""A tuple as what it is, by no code of Python's: what `_make` adds takes as long again."""


def _values(column: pa.ChunkedArray, nothing: Any = None) -> list[Any]:
    """A column's values; `nothing` where there is none."""
    values = column.combine_chunks()
    if pa.types.is_dictionary(values.type) and len(values.dictionary) > len(values):
        values = values.dictionary_decode()  # most of its names are those of other rows
    if pa.types.is_string(values.type):
        values = values.dictionary_encode()
    if pa.types.is_dictionary(values.type):
        names = [one or nothing for one in values.dictionary.to_pylist()]
        texts: list[Any] = _objects([*names, nothing])[values.indices.fill_null(len(names)).to_numpy()].tolist()
        return texts
    if pa.types.is_integer(values.type):
        numbers: list[Any] = values.fill_null(0).to_numpy().tolist()
        if values.null_count:
            some = _objects(numbers)
            some[values.is_null().to_numpy(zero_copy_only=False)] = nothing
            numbers = some.tolist()
        return numbers
    return [nothing if one is None else one for one in values.to_pylist()]


def _objects(values: list[Any]) -> NDArray[np.object_]:
    found = np.empty(len(values), np.object_)
    found[:] = values
    return found
