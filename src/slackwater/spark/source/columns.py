"""The columns of the source: those of Spark's own Kafka source, by name, type and order.

Rules kept here
- `SCHEMA` is what Spark is told, `arrow_schema` the same in Arrow. Spark takes a batch only if it matches exactly.
- A column that is the same in every row is made once and cut to length for each batch: nothing is copied.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

COLUMNS: Final = (
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
)
HEADERS: Final = ("headers", "array<struct<key:string,value:binary>>")
_ROWS_AT_LEAST: Final = 1 << 16


def ddl(*, headers: bool) -> str:
    """The schema as Spark writes it."""
    columns = (*COLUMNS, HEADERS) if headers else COLUMNS
    return ", ".join(f"{name} {kind}" for name, kind in columns)


@lru_cache(maxsize=2)
def arrow_schema(*, headers: bool) -> "pa.Schema":
    """The schema as Arrow has it."""
    import pyarrow as pa

    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pa.field("element", header))))
    return pa.schema(fields)


def nullable_headers(headers: "pa.Array") -> "pa.Array":
    """Headers as Spark's own source gives them: a record without any has null."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    wanted = arrow_schema(headers=True).field("headers").type
    none = pc.equal(headers.value_lengths(), 0)
    return pa.ListArray.from_arrays(headers.offsets, headers.values.cast(wanted.value_type), type=wanted, mask=none)


class ConstantColumns:
    """The columns that every row of a partition has in common."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._rows = 0
        self._grow(_ROWS_AT_LEAST)

    def _grow(self, rows: int) -> None:
        import pyarrow as pa

        name = self._topic.encode()
        starts = np.arange(0, (rows + 1) * len(name), len(name), dtype=np.int32)
        data = pa.py_buffer(name * rows)
        self._topics = pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(starts), data])
        self._partitions = pa.array(np.full(rows, self._partition, np.int32))
        self._rows = rows

    def of(self, rows: int) -> tuple["pa.Array", "pa.Array"]:
        """The topic and the partition, for so many rows."""
        if rows > self._rows:
            self._grow(1 << (rows - 1).bit_length())
        return self._topics[:rows], self._partitions[:rows]
