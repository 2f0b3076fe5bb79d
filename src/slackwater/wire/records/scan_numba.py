"""The scan of `records_scan`, compiled.

Rules kept here
- No index leaves the batch it belongs to, whatever the bytes are: compiled code that reads outside takes the process
  with it.
- What is called from outside compiles when this module is imported (seconds, once; then it comes from the cache beside
  this file), and runs without the interpreter's lock. What it calls itself becomes part of it.
- Within a loop, bytes are read by address: numba counts references to an array that is passed on, and that takes longer
  than reading a number.

A position only ever moves forward. What goes wrong within a record sends it to FAR, from where no field is read any
more, so one comparison at the record's end finds every fault.
"""

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic, overload, register_jitable

from slackwater.wire.records.compiling import DATA, compiled
from slackwater.wire.records.scan import (
    FAR,
    FIELDS_AND_LENGTH_DIFFER,
    LEFT_OVER,
    NO_FAULT,
    OUTSIDE_ITS_BATCH,
    Bytes,
    Flags,
    Ints,
    Longs,
)

# --- bytes by address -------------------------------------------------------------------------------------------------

# Compiled, a place is an address, and whoever reads there has looked at the bounds. Interpreted, it is the array.
Place: TypeAlias = Any


def place_of(array: Bytes) -> Place:
    """Where an array begins."""
    return array


def byte_at(place: Place, at: int) -> int:
    """One byte."""
    return int(place[at])


def copy_bytes(room: Place, room_at: int, place: Place, at: int, size: int) -> None:
    """Copy bytes from one place to another."""
    room[room_at : room_at + size] = place[at : at + size]


def _load(_typing: Any, _address: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte = builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(64))

    return types.int64(types.int64), code


def _copy(_typing: Any, _to: Any, _source: Any, _size: Any) -> Any:
    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        to, source = (builder.inttoptr(one, ir.IntType(8).as_pointer()) for one in arguments[:2])
        cgutils.raw_memcpy(builder, to, source, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


_load_byte: Any = intrinsic(_load)
_copy_memory: Any = intrinsic(_copy)
# numba has addresses without a sign, and would add a number to one as floats.
overload(place_of)(lambda array: lambda array: np.int64(array.ctypes.data))
overload(byte_at)(lambda place, at: lambda place, at: _load_byte(place + at))
overload(copy_bytes)(
    lambda room, room_at, place, at, size: (
        lambda room, room_at, place, at, size: _copy_memory(room + room_at, place + at, size)
    )
)


# --- numbers ----------------------------------------------------------------------------------------------------------


@register_jitable
def read_varint(base: Place, at: int, end: int) -> tuple[int, int]:
    """A zigzag number of 32 bits, and the position behind it; most have one byte or two."""
    if at < end:
        byte = byte_at(base, at)
        if byte < 0x80:
            return int((byte >> 1) ^ -(byte & 1)), at + 1
        if at + 1 < end:
            second = byte_at(base, at + 1)
            if second < 0x80:
                value = (byte & 0x7F) | (second << 7)
                return int((value >> 1) ^ -(value & 1)), at + 2
    return read_long_varint(base, at, end)


@register_jitable
def read_long_varint(base: Place, at: int, end: int) -> tuple[int, int]:
    """The same, however long it is."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= end:
            return 0, FAR
        byte = byte_at(base, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFF_FFFF
            return int((value >> 1) ^ -(value & 1)), at
    return 0, FAR


@register_jitable
def read_varlong(base: Place, at: int, end: int) -> tuple[int, int]:
    """A zigzag number of 64 bits, and the position behind it."""
    if at < end:
        byte = byte_at(base, at)
        if byte < 0x80:
            return int((byte >> 1) ^ -(byte & 1)), at + 1
        if at + 1 < end:
            second = byte_at(base, at + 1)
            if second < 0x80:
                value = (byte & 0x7F) | (second << 7)
                return int((value >> 1) ^ -(value & 1)), at + 2
    return read_long_varlong(base, at, end)


@register_jitable
def read_long_varlong(base: Place, at: int, end: int) -> tuple[int, int]:
    """The same, however long it is."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            return 0, FAR
        byte = byte_at(base, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # int64 has no logical shift to the right: the sign bit that came down with it is masked off.
            return int(((value >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1)), at
    return 0, FAR


@register_jitable
def skip_headers(base: Place, at: int, end: int, count: int) -> int:
    """The position behind `count` headers."""
    if count < 0 or count > end - at:
        return FAR
    for _ in range(count):
        length, at = read_varint(base, at, end)
        if length < 0:
            return FAR
        length, at = read_varint(base, at + length, end)
        if length > 0:
            at += length
        if at > end:
            return FAR
    return at


@compiled(
    f"UniTuple(int64, 3)({DATA}, int64[::1], int64[::1], int64[::1], int64[::1], int32[::1],"
    "int32[::1], boolean[::1], int32[::1], boolean[::1], int32[::1], int32[::1])"
)
def scan(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    counts: Longs,
    timestamp_deltas: Longs,
    offset_deltas: Ints,
    key_bounds: Ints,
    key_is_null: Flags,
    value_bounds: Ints,
    value_is_null: Flags,
    header_starts: Ints,
    header_counts: Ints,
) -> tuple[int, int, int]:
    """Fill the columns, one row per record; the fault, the batch it is in and the record's number there."""
    row = 0
    base = place_of(data)
    for batch in range(len(starts)):
        at = starts[batch]
        batch_end = ends[batch]
        for number in range(counts[batch]):
            length, at = read_varint(base, at, batch_end)
            if length < 1 or length > batch_end - at:
                return OUTSIDE_ITS_BATCH, batch, number
            end = at + length
            timestamp_deltas[row], at = read_varlong(base, at + 1, end)
            offset_deltas[row], at = read_varint(base, at, end)
            key_length, key_start = read_varint(base, at, end)
            key_end = key_start + max(key_length, 0)
            value_length, value_start = read_varint(base, key_end, end)
            value_end = value_start + max(value_length, 0)
            headers, headers_start = read_varint(base, value_end, end)
            at = headers_start if headers == 0 else skip_headers(base, headers_start, end, headers)
            if at != end:
                return FIELDS_AND_LENGTH_DIFFER, batch, number
            key_is_null[row] = key_length < 0
            key_bounds[2 * row] = key_start
            key_bounds[2 * row + 1] = key_end
            value_is_null[row] = value_length < 0
            value_bounds[2 * row] = value_start
            value_bounds[2 * row + 1] = value_end
            header_starts[row] = headers_start
            header_counts[row] = headers
            row += 1
        if at != batch_end:
            return LEFT_OVER, batch, counts[batch]
    return NO_FAULT, 0, 0


@compiled(f"void({DATA}, int32[::1], int32[::1], int32[::1], int32[::1], boolean[::1])")
def scan_headers(
    data: Bytes, header_starts: Ints, header_counts: Ints, key_bounds: Ints, value_bounds: Ints, value_is_null: Flags
) -> None:
    """Fill the columns of the headers, one row per header, of records that `scan` found no fault in."""
    row = 0
    size = len(data)
    base = place_of(data)
    for record in range(len(header_starts)):
        at = int(header_starts[record])
        for _ in range(header_counts[record]):
            length, at = read_varint(base, at, size)
            key_bounds[2 * row] = at
            at += length
            key_bounds[2 * row + 1] = at
            length, at = read_varint(base, at, size)
            value_is_null[row] = length < 0
            value_bounds[2 * row] = at
            if length > 0:
                at += length
            value_bounds[2 * row + 1] = at
            row += 1


@compiled(
    f"UniTuple(int64, 6)({DATA}, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], boolean[::1],"
    "int64, int64, int64, int64[::1], int64[::1], int32[::1], int32[::1], uint8[::1], uint8[::1],"
    "int32[::1], uint8[::1], uint8[::1], int32[::1], int32[::1])"
)
def gather(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    counts: Longs,
    base_offsets: Longs,
    base_timestamps: Longs,
    stamped: Flags,
    from_offset: int,
    until_offset: int,
    farthest_ms: int,
    offsets: Longs,
    microseconds: Longs,
    timestamp_types: Ints,
    key_bounds: Ints,
    key_is_valid: Bytes,
    keys: Bytes,
    value_bounds: Ints,
    value_is_valid: Bytes,
    values: Bytes,
    header_starts: Ints,
    header_counts: Ints,
) -> tuple[int, int, int, int, int, int]:
    """Fill the columns of Arrow with the records between two offsets, keys and values copied together.

    The bitmaps of what is valid come full of ones. `keys` and `values` have room for all of `data`. Headers are found
    if there is room for them. Gives what `scan` gives, and how many rows, null keys and null values there are.
    """
    row = keys_end = values_end = null_keys = null_values = 0
    key_bounds[0] = value_bounds[0] = 0
    with_headers = len(header_starts) > 0
    base, keys_base, values_base = place_of(data), place_of(keys), place_of(values)
    for batch in range(len(starts)):
        at = starts[batch]
        batch_end = ends[batch]
        kind = np.int32(stamped[batch])
        for number in range(counts[batch]):
            length, at = read_varint(base, at, batch_end)
            if length < 1 or length > batch_end - at:
                return OUTSIDE_ITS_BATCH, batch, number, 0, 0, 0
            end = at + length
            timestamp_delta, at = read_varlong(base, at + 1, end)
            offset_delta, at = read_varint(base, at, end)
            key_length, key_start = read_varint(base, at, end)
            value_length, value_start = read_varint(base, key_start + max(key_length, 0), end)
            headers, headers_start = read_varint(base, value_start + max(value_length, 0), end)
            at = headers_start if headers == 0 else skip_headers(base, headers_start, end, headers)
            if at != end:
                return FIELDS_AND_LENGTH_DIFFER, batch, number, 0, 0, 0
            offset = base_offsets[batch] + offset_delta
            if offset < from_offset or offset >= until_offset:
                continue
            offsets[row] = offset
            milliseconds = base_timestamps[batch] if kind else base_timestamps[batch] + timestamp_delta
            microseconds[row] = min(max(milliseconds, -farthest_ms), farthest_ms) * 1000
            timestamp_types[row] = kind
            if key_length > 0:
                copy_bytes(keys_base, keys_end, base, key_start, key_length)
                keys_end += key_length
            elif key_length < 0:
                key_is_valid[row >> 3] &= ~np.uint8(1 << (row & 7))
                null_keys += 1
            if value_length > 0:
                copy_bytes(values_base, values_end, base, value_start, value_length)
                values_end += value_length
            elif value_length < 0:
                value_is_valid[row >> 3] &= ~np.uint8(1 << (row & 7))
                null_values += 1
            if with_headers:
                header_starts[row] = headers_start
                header_counts[row] = headers
            row += 1
            key_bounds[row] = keys_end
            value_bounds[row] = values_end
        if at != batch_end:
            return LEFT_OVER, batch, counts[batch], 0, 0, 0
    return NO_FAULT, 0, 0, row, null_keys, null_values
