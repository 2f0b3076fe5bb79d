"""A fetch response as Arrow: columns that Spark, pandas and every other reader of Arrow take as they are.

Rules kept here
- No Python object per record: keys and values are found, and copied together, in bulk.
- The columns: offset, timestamp in microseconds UTC, timestamp_type (0 create, 1 log append), key, value, and headers
  if asked for. A time too far for microseconds is given as the farthest that fits; -1, no timestamp, as the millisecond
  before 1970, as Spark's own source does.
- Every `RecordBatch` has the same schema, of `binary` columns: bytes come in chunks, and none outgrows the 2 GiB that
  32-bit offsets reach. Whoever wants `large_binary` says so.

Two ways, one result. Compiled, one pass finds the records and fills the columns, in memory of Arrow's own pool: what a
batch has given back serves the next one, while pages that come fresh from the system cost more than the decoding.
Without a compiler, a scan finds bounds, and those of all values are themselves the offsets of an Arrow array over the
unpacked bytes, in which every second element is a value and the others are what lies between: `take` of the even ones
is one pass of memcpy.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.fetched import NO_LIMIT, FetchedBatches
from slackwater.wire.records.scan import (
    NO_FAULT,
    Bytes,
    Chunk,
    Columns,
    Flags,
    Ints,
    Longs,
    NumpyScanner,
    Scanner,
    chunks,
    fault_in,
    scan,
    scan_headers,
    scanner_for,
)

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

# About what a processor's cache holds, and well above the ten thousand rows below which a batch costs more than it
# carries.
CHUNK_BYTES: Final = 16 << 20
_MAX_CHUNK_BYTES: Final = 2**31 - 1
_FARTHEST_MS: Final = (2**63 - 1) // 1000

Scalar = TypeVar("Scalar", bound=np.generic)


class ArrowRecords(NamedTuple):
    """The records of a fetch response, the position after it, and the bytes of a batch that it cut off."""

    table: "pa.Table"
    next_offset: int
    trailing_bytes: int


def schema(*, headers: bool = False, large: bool = False) -> "pa.Schema":
    """The columns that are given out."""
    import pyarrow as pa

    binary = pa.large_binary() if large else pa.binary()
    fields = [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", binary),
        pa.field("value", binary),
    ]
    if headers:
        header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pa.field("element", header, nullable=False)), nullable=False))
    return pa.schema(fields)


def read_arrow(
    buffer: Buffer,
    from_offset: int = 0,
    until_offset: int = NO_LIMIT,
    *,
    headers: bool = False,
    large: bool = False,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crcs: bool = True,
    scanner: Scanner | None = None,
) -> ArrowRecords:
    """All that a consumer reads from a fetch response; `FetchedBatches` describes the arguments."""
    import pyarrow as pa

    readable = FetchedBatches(buffer, from_offset, until_offset, aborted=aborted, check_crcs=check_crcs)
    batches = list(arrow_batches(readable, headers=headers, large=large, scanner=scanner))
    table = pa.Table.from_batches(batches, schema(headers=headers, large=large))
    return ArrowRecords(table, readable.next_offset, readable.trailing_bytes)


def arrow_batches(
    readable: FetchedBatches,
    *,
    headers: bool = False,
    large: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    scanner: Scanner | None = None,
) -> Iterator["pa.RecordBatch"]:
    """The records as Arrow batches, each made when it is asked for."""
    for chunk in chunks(readable, min(chunk_bytes, _MAX_CHUNK_BYTES)):
        batch = chunk_batch(
            chunk, readable.from_offset, readable.until_offset, headers=headers, large=large, scanner=scanner
        )
        if batch is not None:
            yield batch


def chunk_batch(
    chunk: Chunk,
    from_offset: int,
    until_offset: int,
    *,
    headers: bool = False,
    large: bool = False,
    scanner: Scanner | None = None,
) -> "pa.RecordBatch | None":
    """The records of a chunk between two offsets; None if there are none."""
    import pyarrow as pa

    scanner = scanner or scanner_for(int(chunk.counts.sum()))
    columns = schema(headers=headers, large=large)
    of = columns.field("headers").type if headers else None
    if isinstance(scanner, NumpyScanner):
        arrays = _scanned(chunk, from_offset, until_offset, of, scanner)
    else:
        arrays = _gathered(chunk, from_offset, until_offset, of, scanner)
    if not len(arrays[0]):
        return None
    if large:
        arrays[3:5] = [array.cast(pa.large_binary()) for array in arrays[3:5]]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


# --- compiled ---------------------------------------------------------------------------------------------------------


def _gathered(
    chunk: Chunk, from_offset: int, until_offset: int, headers: "pa.DataType | None", scanner: Scanner
) -> "list[pa.Array]":
    """The columns, filled in one pass."""
    import pyarrow as pa

    from slackwater.wire.records.scan_numba import gather

    rows = int(chunk.counts.sum())
    offsets, timestamps = _Room(rows, np.int64), _Room(rows, np.int64)
    types = _Room(rows, np.int32)
    keys, values = _BinaryRoom(rows, len(chunk.data)), _BinaryRoom(rows, len(chunk.data))
    found = np.empty((2, rows if headers is not None else 0), np.int32)
    fault, batch, number, rows, null_keys, null_values = gather(
        chunk.data,
        chunk.starts,
        chunk.ends,
        chunk.counts,
        chunk.base_offsets,
        chunk.timestamps,
        chunk.stamped,
        from_offset,
        until_offset,
        _FARTHEST_MS,
        offsets.array,
        timestamps.array,
        types.array,
        *keys.arrays,
        *values.arrays,
        *found,
    )
    if fault != NO_FAULT:
        raise fault_in(chunk, fault, batch, number)
    arrays = [
        offsets.column(pa.int64(), rows),
        timestamps.column(pa.timestamp("us", "UTC"), rows),
        types.column(pa.int32(), rows),
        keys.column(rows, null_keys),
        values.column(rows, null_values),
    ]
    if headers is not None:
        starts, counts = found[:, :rows]
        arrays.append(_headers(chunk, pa.py_buffer(chunk.data), starts, counts, headers, scanner))
    return arrays


class _Room(Generic[Scalar]):
    """Memory of Arrow's pool, as an array to write to."""

    __slots__ = ("array", "buffer")

    def __init__(self, size: int, kind: type[Scalar]) -> None:
        import pyarrow as pa

        self.buffer = pa.allocate_buffer(size * np.dtype(kind).itemsize)
        self.array: NDArray[Scalar] = np.frombuffer(self.buffer, kind)

    def column(self, of: "pa.DataType", rows: int) -> "pa.Array":
        """The first rows as a column."""
        import pyarrow as pa

        return pa.Array.from_buffers(of, rows, [None, self.buffer], 0)


class _BinaryRoom:
    """Memory for a column of bytes: bounds, what is valid, and the bytes."""

    __slots__ = ("bounds", "data", "valid")

    def __init__(self, rows: int, size: int) -> None:
        self.bounds = _Room(rows + 1, np.int32)
        self.valid = _Room((rows + 7) // 8, np.uint8)
        self.valid.array.fill(0xFF)
        self.data = _Room(size, np.uint8)

    @property
    def arrays(self) -> tuple[Ints, Bytes, Bytes]:
        """In the order in which they are asked for."""
        return self.bounds.array, self.valid.array, self.data.array

    def column(self, rows: int, nulls: int) -> "pa.Array":
        """The first rows as a column."""
        import pyarrow as pa

        valid = self.valid.buffer if nulls else None
        used = self.data.buffer.slice(0, int(self.bounds.array[rows]))
        return pa.Array.from_buffers(pa.binary(), rows, [valid, self.bounds.buffer, used], nulls)


# --- without a compiler -----------------------------------------------------------------------------------------------


def _scanned(
    chunk: Chunk, from_offset: int, until_offset: int, headers: "pa.DataType | None", scanner: Scanner
) -> "list[pa.Array]":
    """The columns, made from the bounds that a scan finds."""
    import pyarrow as pa

    found = scan(chunk, scanner)
    rows = _rows_between(found, from_offset, until_offset)
    data = pa.py_buffer(chunk.data)
    arrays = [
        pa.array(_picked(found.offsets, rows)),
        _timestamps(_picked(found.timestamps, rows)),
        pa.array(_picked(found.timestamp_types, rows)),
        _binaries(data, found.key_bounds, found.key_is_null, rows),
        _binaries(data, found.value_bounds, found.value_is_null, rows),
    ]
    if headers is not None:
        starts, counts = _picked(found.header_starts, rows), _picked(found.header_counts, rows)
        arrays.append(_headers(chunk, data, starts, counts, headers, scanner))
    return arrays


def _rows_between(found: Columns, from_offset: int, until_offset: int) -> Longs | None:
    """The rows to keep; None for all, which is the rule."""
    kept = (found.offsets >= from_offset) & (found.offsets < until_offset)
    return None if kept.all() else np.flatnonzero(kept)


def _picked(column: NDArray[Scalar], rows: Longs | None) -> NDArray[Scalar]:
    return column if rows is None else column[rows]


def _timestamps(milliseconds: Longs) -> "pa.Array":
    import pyarrow as pa

    microseconds = np.clip(milliseconds, -_FARTHEST_MS, _FARTHEST_MS)
    microseconds *= 1000
    return pa.array(microseconds).view(pa.timestamp("us", "UTC"))


def _binaries(data: "pa.Buffer", bounds: Ints, is_null: Flags, rows: Longs | None) -> "pa.Array":
    """The bytes between the bounds of each row, copied together."""
    import pyarrow as pa

    nulls = _picked(is_null, rows)
    if nulls.all():
        return pa.nulls(len(nulls), pa.binary())
    all_and_gaps = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), data])
    even = np.arange(0, len(bounds), 2, dtype=np.int32) if rows is None else (2 * rows).astype(np.int32)
    return all_and_gaps.take(pa.array(even, mask=nulls if nulls.any() else None))


# --- headers ----------------------------------------------------------------------------------------------------------


def _headers(
    chunk: Chunk, data: "pa.Buffer", starts: Ints, counts: Ints, of: "pa.DataType", scanner: Scanner
) -> "pa.Array":
    import pyarrow as pa

    headers = scan_headers(chunk, starts, counts, scanner)
    keys = _binaries(data, headers.key_bounds, np.zeros(len(headers.value_is_null), np.bool_), None)
    values = _binaries(data, headers.value_bounds, headers.value_is_null, None)
    structs = pa.StructArray.from_arrays([_texts(keys), values], fields=list(of.value_type))
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=of)


def _texts(keys: "pa.Array") -> "pa.Array":
    """Bytes as text; those that are no UTF-8 are replaced, as in Java."""
    import pyarrow as pa

    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
