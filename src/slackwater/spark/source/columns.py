"""The columns of the source: the names, types and order of Spark's Kafka source.

Invariants:
- `ddl` and `arrow_schema` describe the same schema. Spark accepts a batch only if it matches exactly.
- Columns with one value per partition are built once and sliced for each batch, without copying.
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
_MIN_ROWS: Final = 1 << 16


def ddl(*, headers: bool) -> str:
    """Return the schema as a Spark DDL string."""
    columns = (*COLUMNS, HEADERS) if headers else COLUMNS
    return ", ".join(f"{name} {sql_type}" for name, sql_type in columns)


@lru_cache(maxsize=2)
def arrow_schema(*, headers: bool) -> "pa.Schema":
    """Return the schema as an Arrow schema."""
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
    """Convert headers to Spark's form, in which a record without headers has null."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    target = arrow_schema(headers=True).field("headers").type
    is_empty = pc.equal(headers.value_lengths(), 0)
    return pa.ListArray.from_arrays(headers.offsets, headers.values.cast(target.value_type), type=target, mask=is_empty)


class ConstantColumns:
    """The topic and partition columns of one partition."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._rows = 0
        self._grow(_MIN_ROWS)

    def _grow(self, rows: int) -> None:
        import pyarrow as pa

        name = self._topic.encode()
        starts = np.arange(0, (rows + 1) * len(name), len(name), dtype=np.int32)
        data = pa.py_buffer(name * rows)
        self._topics = pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(starts), data])
        self._partitions = pa.array(np.full(rows, self._partition, np.int32))
        self._rows = rows

    def slice(self, rows: int) -> tuple["pa.Array", "pa.Array"]:
        """Return the topic and partition columns for a number of rows."""
        if rows > self._rows:
            self._grow(1 << (rows - 1).bit_length())
        return self._topics[:rows], self._partitions[:rows]
