"""The compiled decoder: finds the fields of many records in one call, without a Python object per record.

`scan` returns one row per record with the positions of key, value and headers in the decompressed bytes. The Arrow
builder (`arrow.py`) and the consumer (`decoding.py`) copy the bytes from there. The functions compile with numba when
this module is imported (seconds the first time, then loaded from the cache next to this file). Import it only where it
is needed: numba belongs to the extra `arrow`.

Invariants:
- Compiled code never reads outside the batch, whatever the bytes are.
- The scanner accepts exactly the batches that `record.decode_records` accepts. When it rejects one, `decode_records`
  raises the error, so both decoders report the same.
- Memory is allocated only for a record count that fits into the bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic, overload, register_jitable
from numpy.typing import NDArray

from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME_BIT, RecordBatch
from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.record import (
    check_record_count,
    decode_records,
    decompress_records,
    decompress_records_into,
)

Bytes: TypeAlias = NDArray[np.uint8]
Longs: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]
Allocate: TypeAlias = Callable[[int, Any], NDArray[Any]]
P = ParamSpec("P")
R = TypeVar("R")

NO_FAULT: Final = -1
# After an error a position is INVALID: beyond every batch, so the check at the end of the record fails.
INVALID: Final = 1 << 60


class Chunk:
    """Batches whose decompressed records are in one buffer of less than 2 GiB."""

    __slots__ = ("append_time", "base_offsets", "batches", "counts", "data", "ends", "starts", "timestamps")

    def __init__(
        self, batches: Sequence[RecordBatch], data: Buffer, starts: Sequence[int], ends: Sequence[int]
    ) -> None:
        self.batches = batches
        self.data = np.frombuffer(data, np.uint8)
        # The functions are compiled for read-only bytes.
        self.data.flags.writeable = False
        self.starts = np.array(starts, np.int64)
        self.ends = np.array(ends, np.int64)
        headers = [
            (batch.record_count, batch.base_offset, batch.attributes, batch.base_timestamp, batch.max_timestamp)
            for batch in batches
        ]
        columns = np.array(headers, np.int64).reshape(len(headers), 5).T
        self.counts, self.base_offsets = columns[0].copy(), columns[1].copy()
        self.append_time = (columns[2] & LOG_APPEND_TIME_BIT) != 0
        self.timestamps = np.where(self.append_time, columns[4], columns[3])


def chunks(batches: Iterable[RecordBatch], chunk_bytes: int) -> Iterator[Chunk]:
    """Group batches into chunks of at most `chunk_bytes`, or of one larger batch.

    Compressed batches are decompressed one after the other into one buffer. The next chunk uses the same buffer, so a
    chunk is valid until the next one is requested. Uncompressed batches stay where they are, unless they follow a
    compressed one: a partition with both kinds would else give chunks of one batch.
    """
    room = memoryview(b"")
    data = room  # the buffer of the current chunk
    pending: list[RecordBatch] = []
    starts: list[int] = []
    ends: list[int] = []

    def flush() -> Chunk:
        nonlocal pending, starts, ends
        first, end = starts[0], ends[-1]
        chunk = Chunk(pending, data[first:end], [start - first for start in starts], [end - first for end in ends])
        pending, starts, ends = [], [], []
        return chunk

    try:
        for batch in batches:
            if not batch.record_count:
                continue
            if not batch.attributes & CODEC_MASK and not (pending and data is room):
                start = batch.position + HEADER_BYTES
                end = batch.position + len(batch.data)
                if pending and (data is not batch.buffer or end - starts[0] > chunk_bytes):
                    yield flush()
                check_record_count(batch, end - start)
                data = batch.buffer
            else:
                if not room:
                    room = np.empty(chunk_bytes, np.uint8).data
                if pending and data is not room:
                    yield flush()
                data = room
                start = ends[-1] if ends else 0
                size = decompress_records_into(batch, room[start:])
                if size is None and pending:
                    yield flush()
                    start = 0
                    size = decompress_records_into(batch, room)
                if size is None:
                    payload = decompress_records(batch)
                    yield Chunk([batch], payload, [0], [len(payload)])
                    continue
                end = start + size
            pending.append(batch)
            starts.append(start)
            ends.append(end)
    except WireError:
        if pending:  # an error in an earlier batch comes first
            yield flush()
        raise
    if pending:
        yield flush()


class ScannedRecords(NamedTuple):
    """One row per record. Positions refer to the chunk's data; a length of -1 is null."""

    offsets: Longs
    timestamps: Longs
    timestamp_types: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    header_starts: Ints
    header_counts: Ints


class ScannedHeaders(NamedTuple):
    """One row per header, in the order of the records. Positions refer to the chunk's data; a length of -1 is null."""

    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints


def scan(chunk: Chunk, from_offset: int, until_offset: int, allocate: Allocate = np.empty) -> ScannedRecords:
    """Find the records of a chunk between two offsets. Raises WireError if any record of the chunk is invalid."""
    count = int(chunk.counts.sum())
    offsets, timestamps = (allocate(count, np.int64) for _ in range(2))
    columns = [offsets, timestamps, *(allocate(count, np.int32) for _ in range(7))]
    faulty, rows = scan_records(
        chunk.data,
        chunk.starts,
        chunk.ends,
        chunk.counts,
        chunk.base_offsets,
        chunk.timestamps,
        chunk.append_time,
        from_offset,
        until_offset,
        *columns,
    )
    if faulty != NO_FAULT:
        batch = chunk.batches[faulty]
        for _record in decode_records(batch):
            pass
        raise batch.error("the two decoders disagree about its records; please report this bug")
    return ScannedRecords(*(column if rows == count else column[:rows] for column in columns))


def scan_headers(chunk: Chunk, starts: Ints, counts: Ints, allocate: Allocate = np.empty) -> ScannedHeaders:
    """Find the headers of records that `scan` has returned for this chunk."""
    rows = int(counts.sum())
    headers = ScannedHeaders(*(allocate(rows, np.int32) for _ in range(4)))
    scan_header_fields(chunk.data, starts, counts, *headers)
    return headers


# --- bytes by address -------------------------------------------------------------------------------------------------
# numba counts references whenever an array is passed to a function; in the loops below that costs more than reading a
# number. Compiled code therefore passes the address of the first byte. Interpreted code, which the tests run to find
# reads outside the array, passes the array itself.

Address: TypeAlias = Any


def address_of(array: Bytes) -> Address:
    """Return the address of an array."""
    return array


def byte_at(address: Address, index: int) -> int:
    """Read one byte."""
    return int(address[index])


def copy_bytes(target: Address, target_at: int, source: Address, source_at: int, size: int) -> None:
    """Copy `size` bytes."""
    target[target_at : target_at + size] = source[source_at : source_at + size]


def _load(_typing: Any, _address: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte = builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(64))

    return types.int64(types.int64), code


def _copy(_typing: Any, _target: Any, _source: Any, _size: Any) -> Any:
    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        target, source = (builder.inttoptr(argument, ir.IntType(8).as_pointer()) for argument in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


_load_byte: Any = intrinsic(_load)
_copy_memory: Any = intrinsic(_copy)
# numba's addresses are unsigned; adding a signed number to one would give a float.
overload(address_of)(lambda array: lambda array: np.int64(array.ctypes.data))
overload(byte_at)(lambda address, index: lambda address, index: _load_byte(address + index))
overload(copy_bytes)(
    lambda target, target_at, source, source_at, size: (
        lambda target, target_at, source, source_at, size: _copy_memory(target + target_at, source + source_at, size)
    )
)


# --- compiled functions -----------------------------------------------------------------------------------------------

DATA: Final = "Array(uint8, 1, 'C', readonly=True)"
"""The type of read-only bytes in a signature."""


def compiled(signature: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function for one signature immediately, or load it from numba's cache. It runs without the GIL."""

    def compile_function(function: Callable[P, R]) -> Callable[P, R]:
        try:
            return njit(signature, nogil=True, cache=True)(function)
        except RuntimeError:  # "no locator available": neither this directory nor the user's cache is writable
            return njit(signature, nogil=True)(function)

    return compile_function


@register_jitable
def read_varint(data: Address, at: int, end: int) -> tuple[int, int]:
    """Read a zigzag number of 32 bits; return it and the position after it."""
    return read_zigzag(data, at, end, 35, 0xFFFF_FFFF)


@register_jitable
def read_varlong(data: Address, at: int, end: int) -> tuple[int, int]:
    """Read a zigzag number of 64 bits; return it and the position after it."""
    return read_zigzag(data, at, end, 70, -1)


@register_jitable
def read_zigzag(data: Address, at: int, end: int, max_bits: int, mask: int) -> tuple[int, int]:
    """Read a zigzag number; return it and the position after it. Most have one or two bytes."""
    if at < end:
        byte = byte_at(data, at)
        if byte < 0x80:
            return int((byte >> 1) ^ -(byte & 1)), at + 1
        if at + 1 < end:
            second = byte_at(data, at + 1)
            if second < 0x80:
                value = (byte & 0x7F) | (second << 7)
                return int((value >> 1) ^ -(value & 1)), at + 2
    value, at = read_unsigned(data, at, end, max_bits)
    value &= mask
    # int64 has no logical shift to the right: mask the sign bit that the arithmetic shift copies.
    return int(((value >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1)), at


@register_jitable
def read_unsigned(data: Address, at: int, end: int, max_bits: int) -> tuple[int, int]:
    """Read a variable-length number of at most `max_bits`; the position is INVALID if it is longer or truncated."""
    value = 0
    for shift in range(0, max_bits, 7):
        if at >= end:
            return 0, INVALID
        byte = byte_at(data, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return 0, INVALID


@register_jitable
def skip_headers(data: Address, at: int, end: int, count: int) -> int:
    """Return the position after `count` headers."""
    if count < 0 or count > end - at:
        return INVALID
    for _ in range(count):
        length, at = read_varint(data, at, end)
        if length < 0:
            return INVALID
        length, at = read_varint(data, at + length, end)
        if length > 0:
            at += length
        if at > end:
            return INVALID
    return at


@compiled(
    f"UniTuple(int64, 2)({DATA}, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], boolean[::1], int64,"
    "int64, int64[::1], int64[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])"
)
def scan_records(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    counts: Longs,
    base_offsets: Longs,
    base_timestamps: Longs,
    append_time: Flags,
    from_offset: int,
    until_offset: int,
    offsets: Longs,
    timestamps: Longs,
    timestamp_types: Ints,
    key_starts: Ints,
    key_lengths: Ints,
    value_starts: Ints,
    value_lengths: Ints,
    header_starts: Ints,
    header_counts: Ints,
) -> tuple[int, int]:
    """Fill the columns of `ScannedRecords`; return the index of the first invalid batch and the number of rows."""
    row = 0
    address = address_of(data)
    for batch in range(len(starts)):
        at = starts[batch]
        batch_end = ends[batch]
        timestamp_type = np.int32(append_time[batch])
        for _ in range(counts[batch]):
            length, at = read_varint(address, at, batch_end)
            if length < 1 or length > batch_end - at:
                return batch, row
            end = at + length
            timestamp_delta, at = read_varlong(address, at + 1, end)
            offset_delta, at = read_varint(address, at, end)
            key_length, key_start = read_varint(address, at, end)
            value_length, value_start = read_varint(address, key_start + max(key_length, 0), end)
            headers, headers_start = read_varint(address, value_start + max(value_length, 0), end)
            at = headers_start if headers == 0 else skip_headers(address, headers_start, end, headers)
            if at != end:
                return batch, row
            offset = base_offsets[batch] + offset_delta
            if offset < from_offset or offset >= until_offset:
                continue
            offsets[row] = offset
            timestamps[row] = base_timestamps[batch] if timestamp_type else base_timestamps[batch] + timestamp_delta
            timestamp_types[row] = timestamp_type
            key_starts[row] = key_start
            key_lengths[row] = key_length
            value_starts[row] = value_start
            value_lengths[row] = value_length
            header_starts[row] = headers_start
            header_counts[row] = headers
            row += 1
        if at != batch_end:
            return batch, row
    return NO_FAULT, row


@compiled(f"void({DATA}, int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])")
def scan_header_fields(
    data: Bytes,
    header_starts: Ints,
    header_counts: Ints,
    key_starts: Ints,
    key_lengths: Ints,
    value_starts: Ints,
    value_lengths: Ints,
) -> None:
    """Fill the columns of `ScannedHeaders` for records that `scan_records` has accepted."""
    row = 0
    size = len(data)
    address = address_of(data)
    for record in range(len(header_starts)):
        at = int(header_starts[record])
        for _ in range(header_counts[record]):
            length, at = read_varint(address, at, size)
            key_starts[row] = at
            key_lengths[row] = length
            length, at = read_varint(address, at + length, size)
            value_starts[row] = at
            value_lengths[row] = length
            at += max(length, 0)
            row += 1


@compiled(f"int64({DATA}, int32[::1], int32[::1], int32[::1], uint8[::1], uint8[::1])")
def copy_values(data: Bytes, starts: Ints, lengths: Ints, ends: Ints, validity: Bytes, values: Bytes) -> int:
    """Fill the buffers of an Arrow binary array: offsets, validity bitmap (initially all ones), values.

    `values` has room for all of them. Returns the number of nulls.
    """
    end = nulls = 0
    ends[0] = 0
    source, target = address_of(data), address_of(values)
    for row in range(len(starts)):
        length = lengths[row]
        if length > 0:
            copy_bytes(target, end, source, starts[row], length)
            end += length
        elif length < 0:
            validity[row >> 3] &= ~np.uint8(1 << (row & 7))
            nulls += 1
        ends[row + 1] = end
    return nulls
