"""Builds Arrow record batches from a fetch response. Needs the extra `arrow` (pyarrow and numba).

Columns: offset, timestamp (microseconds, UTC), timestamp_type (0 CreateTime, 1 LogAppendTime), key, value, and
optionally headers. A timestamp out of the range of microseconds becomes the nearest one in range. A timestamp of -1
(none) becomes the millisecond before 1970, as in Spark's Kafka source.

Invariants:
- No Python object per record.
- All batches have the same schema. Key and value are `binary` with 32-bit offsets; a chunk is always below 2 GiB.
- Buffers come from Arrow's memory pool, which reuses them. Fresh pages from the operating system would cost more than
  the decoding.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.fetched import NO_LIMIT, FetchedBatches

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from slackwater.wire.records.scanner import Bytes, Chunk, Ints, Longs

# Large enough for more than ten thousand rows per batch, below which the cost per batch dominates.
CHUNK_BYTES: Final = 16 << 20
_MAX_CHUNK_BYTES: Final = 2**31 - 1
_MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000


class ArrowRecords(NamedTuple):
    """The records of a fetch response, the position after it, and the size of a truncated batch at its end."""

    table: "pa.Table"
    next_offset: int
    trailing_bytes: int


@lru_cache(maxsize=4)
def schema(*, headers: bool = False, large: bool = False) -> "pa.Schema":
    """Return the schema of the batches; `large` selects `large_binary`."""
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
) -> ArrowRecords:
    """Decode the records that a consumer reads from a fetch response. `FetchedBatches` explains the arguments."""
    import pyarrow as pa

    fetched = FetchedBatches(buffer, from_offset, until_offset, aborted=aborted, check_crcs=check_crcs)
    table = pa.Table.from_batches(
        arrow_batches(fetched, headers=headers, large=large), schema(headers=headers, large=large)
    )
    return ArrowRecords(table, fetched.next_offset, fetched.trailing_bytes)


def arrow_batches(
    fetched: FetchedBatches, *, headers: bool = False, large: bool = False, chunk_bytes: int = CHUNK_BYTES
) -> Iterator["pa.RecordBatch"]:
    """Decode the records into Arrow batches, one per chunk. Chunks without a visible record give no batch."""
    import pyarrow as pa

    from slackwater.wire.records.scanner import chunks

    columns = schema(headers=headers, large=large)
    for chunk in chunks(fetched, min(chunk_bytes, _MAX_CHUNK_BYTES)):
        arrays = _arrays(chunk, fetched.from_offset, fetched.until_offset, headers=headers)
        if not len(arrays[0]):
            continue
        if large:
            arrays[3:5] = [array.cast(pa.large_binary()) for array in arrays[3:5]]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def _arrays(chunk: "Chunk", from_offset: int, until_offset: int, *, headers: bool) -> "list[pa.Array]":
    import pyarrow as pa

    from slackwater.wire.records.scanner import scan

    records = scan(chunk, from_offset, until_offset, _allocate)
    rows = len(records.offsets)
    arrays = [
        _array(pa.int64(), records.offsets),
        _array(pa.timestamp("us", "UTC"), _microseconds(records.timestamps)),
        _array(pa.int32(), records.timestamp_types),
        _binary_array(chunk.data, records.key_starts, records.key_lengths),
        _binary_array(chunk.data, records.value_starts, records.value_lengths),
    ]
    if headers:
        arrays.append(_headers(chunk, records.header_starts, records.header_counts))
    assert all(len(array) == rows for array in arrays)
    return arrays


def _allocate(size: int, dtype: Any) -> NDArray[Any]:
    """Allocate an array in Arrow's memory pool."""
    import pyarrow as pa

    return np.frombuffer(pa.allocate_buffer(size * np.dtype(dtype).itemsize), dtype)


def _array(of: "pa.DataType", values: NDArray[Any]) -> "pa.Array":
    import pyarrow as pa

    return pa.Array.from_buffers(of, len(values), [None, pa.py_buffer(values)], 0)


def _microseconds(milliseconds: "Longs") -> "Longs":
    np.clip(milliseconds, -_MAX_TIMESTAMP_MS, _MAX_TIMESTAMP_MS, out=milliseconds)
    milliseconds *= 1000
    return milliseconds


def _binary_array(data: "Bytes", starts: "Ints", lengths: "Ints") -> "pa.Array":
    """Copy the bytes at these positions into a binary array."""
    import pyarrow as pa

    from slackwater.wire.records.scanner import copy_values

    rows = len(starts)
    size = int(np.maximum(lengths, 0).sum(dtype=np.int64))
    offsets, validity = _allocate(rows + 1, np.int32), _allocate((rows + 7) // 8, np.uint8)
    values = _allocate(size, np.uint8)
    validity.fill(0xFF)
    nulls = copy_values(data, starts, lengths, offsets, validity, values)
    buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)


def _headers(chunk: "Chunk", starts: "Ints", counts: "Ints") -> "pa.Array":
    import pyarrow as pa

    from slackwater.wire.records.scanner import scan_headers

    of = schema(headers=True).field("headers").type
    headers = scan_headers(chunk, starts, counts, _allocate)
    keys = _binary_array(chunk.data, headers.key_starts, headers.key_lengths)
    values = _binary_array(chunk.data, headers.value_starts, headers.value_lengths)
    structs = pa.StructArray.from_arrays([_strings(keys), values], fields=list(of.value_type))
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=of)


def _strings(keys: "pa.Array") -> "pa.Array":
    """Decode UTF-8; invalid bytes are replaced, as in Java."""
    import pyarrow as pa

    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
