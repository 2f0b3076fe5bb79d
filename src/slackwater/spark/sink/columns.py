"""The columns that the sink writes, and their conversion from Arrow.

Invariants:
- Columns have the names and types of Spark's Kafka sink. The other columns of the source (offset, timestamp,
  timestampType) are ignored, so that records can be copied from topic to topic. Any other column is an error.
- No Python object per record.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    VarcharType,
)

from slackwater.group.errors import UsageError
from slackwater.spark.source.columns import COLUMNS as SOURCE_COLUMNS
from slackwater.spark.source.columns import HEADERS as SOURCE_HEADERS

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from slackwater.wire.records.encoder import ByteColumn, HeaderColumn, RecordColumns
    from slackwater.wire.records.scanner import Ints, Longs

COLUMNS: Final = (
    ("value", "string or binary", "The value; null deletes the key in a compacted topic."),
    ("key", "string or binary", "The key (optional)."),
    ("topic", "string", "The topic; required without the option `topic`."),
    ("partition", "int", "The partition (optional); null lets the partitioner choose."),
    ("headers", SOURCE_HEADERS[1], "The headers (optional)."),
)
_NAMES: Final = tuple(name for name, _, _ in COLUMNS)
_IGNORED: Final = frozenset(name for name, _ in SOURCE_COLUMNS) - set(_NAMES)
_TEXT: Final = (StringType, CharType, VarcharType)


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The positions of the columns in the batches that Spark passes."""

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None

    @classmethod
    def of(cls, schema: StructType, *, has_topic_option: bool) -> Self:
        """Check the columns of a DataFrame. Raises UsageError for invalid ones."""
        positions: dict[str, int] = {}
        for position, column in enumerate(schema.fields):
            if column.name in _IGNORED:
                continue
            if column.name not in _NAMES:
                raise UsageError(_unknown(column.name))
            if column.name in positions:
                raise UsageError(f"The DataFrame has two columns {column.name}; select one.")
            _check_type(column.name, column.dataType)
            positions[column.name] = position
        if "value" not in positions:
            raise UsageError("The DataFrame has no column value; select an expression AS value.")
        if "topic" not in positions and not has_topic_option:
            raise UsageError("No topic to write to; set the option topic, or add a topic column.")
        return cls(**positions)


def _unknown(name: str) -> str:
    matches = get_close_matches(name.lower(), _NAMES, n=1, cutoff=0.6)
    hint = f"did you mean {matches[0]}?" if matches else "drop it, or put it into the value."
    return f"{name} is not a column of this sink, which writes {', '.join(_NAMES)}; {hint}"


def _check_type(name: str, found: DataType) -> None:
    match name:
        case "value" | "key":
            is_valid, needed = isinstance(found, BinaryType | StringType | CharType | VarcharType), "string or binary"
        case "topic":
            is_valid, needed = isinstance(found, _TEXT), "string"
        case "partition":
            is_valid, needed = isinstance(found, IntegerType), "int"
        case _:
            is_valid, needed = _are_headers(found), SOURCE_HEADERS[1]
    if not is_valid:
        raise UsageError(f"The column {name} is {found.simpleString()}; it must be {needed}. Cast it.")


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in found.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


# --- Arrow ------------------------------------------------------------------------------------------------------------


def record_columns(columns: SinkColumns, batch: "pa.RecordBatch") -> "RecordColumns":
    """Return the keys, values and headers of a batch."""
    from slackwater.wire.records.encoder import NO_COLUMN, NO_HEADER_COLUMN, RecordColumns

    return RecordColumns(
        byte_column(batch.column(columns.value)),
        NO_COLUMN if columns.key is None else byte_column(batch.column(columns.key)),
        NO_HEADER_COLUMN if columns.headers is None else header_column(batch.column(columns.headers)),
    )


def byte_column(array: "pa.Array") -> "ByteColumn":
    """Return the positions of the bytes of a string or binary array."""
    import pyarrow as pa

    from slackwater.wire.records.encoder import NO_COLUMN, ByteColumn

    if not len(array):
        return NO_COLUMN
    is_large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    offset_type = np.dtype(np.int64 if is_large else np.int32)
    bounds: Longs = np.frombuffer(offsets, offset_type)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(bounds)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else NO_COLUMN.data
    content.flags.writeable = False
    return ByteColumn(content, bounds[:-1], lengths)


def header_column(array: "pa.Array") -> "HeaderColumn":
    """Return the headers of each row; a null list has none."""
    from slackwater.wire.records.encoder import HeaderColumn

    bounds = array.offsets.to_numpy().astype(np.int64)
    counts = np.diff(bounds)
    if array.null_count:
        counts[array.is_null().to_numpy(zero_copy_only=False)] = 0
    first, end = int(bounds[0]), int(bounds[-1])
    keys, values = array.values[first:end].flatten()
    if keys.null_count:
        raise UsageError("A header has no key; a record's headers need keys, and their values may be null.")
    return HeaderColumn(bounds[:-1] - first, counts, byte_column(keys), byte_column(values))


def rows_by_topic(array: "pa.Array") -> "list[tuple[str, Longs]]":
    """Return the rows of each topic, in their order."""
    if array.null_count:
        raise UsageError("A record has no topic: the topic column is null; set the option topic, or filter such rows.")
    encoded = array.dictionary_encode()
    codes = encoded.indices.to_numpy()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        return [(names[0], np.arange(len(array), dtype=np.int64))]
    order = np.argsort(codes, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    return [(name, rows) for name, rows in zip(names, np.split(order, ends[:-1]), strict=True)]


def partition_numbers(array: "pa.Array") -> "Ints":
    """Return the partitions that the rows name; -1 for null."""
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    lowest = pc.min(array).as_py()
    if lowest is not None and lowest < 0:
        raise UsageError(f"The partition column has {lowest}; partitions count from 0, and null lets Kafka choose.")
    return np.array(array.fill_null(-1).to_numpy(zero_copy_only=False), np.int32)
