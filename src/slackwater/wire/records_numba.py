"""The scan of `records_scan`, compiled.

Rules kept here
- No index leaves the batch it belongs to, whatever the bytes are: compiled code that reads outside takes the process
  with it.
- What is called from outside compiles when this module is imported (seconds, once; then it comes from the cache beside
  this file), and runs without the interpreter's lock. What it calls itself becomes part of it.

A position only ever moves forward. What goes wrong within a record sends it to FAR, from where no field is read any
more, so one comparison at the record's end finds every fault.
"""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import numpy as np
from numba import njit
from numba.extending import register_jitable

from slackwater.wire.records_scan import (
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

_DATA: Final = "Array(uint8, 1, 'C', readonly=True)"

P = ParamSpec("P")
R = TypeVar("R")


def _compiled(signature: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile now, for these types alone; from the cache where a place for one can be written to."""

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        try:
            return njit(signature, nogil=True, cache=True)(function)
        except RuntimeError:  # No locator available: neither this directory nor the user's cache can be written to.
            return njit(signature, nogil=True)(function)

    return compiled


@register_jitable
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag number of 32 bits, and the position behind it."""
    value = np.int64(0)
    for shift in range(0, 35, 7):
        if at >= end:
            return 0, FAR
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFF_FFFF
            return int((value >> 1) ^ -(value & 1)), at
    return 0, FAR


@register_jitable
def read_varlong(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag number of 64 bits, and the position behind it."""
    value = np.int64(0)
    for shift in range(0, 70, 7):
        if at >= end:
            return 0, FAR
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # int64 has no logical shift to the right: the sign bit that came down with it is masked off.
            return int(((value >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1)), at
    return 0, FAR


@register_jitable
def skip_headers(data: Bytes, at: int, end: int, count: int) -> int:
    """The position behind `count` headers."""
    if count < 0 or count > end - at:
        return FAR
    for _ in range(count):
        length, at = read_varint(data, at, end)
        if length < 0:
            return FAR
        length, at = read_varint(data, at + length, end)
        if length > 0:
            at += length
        if at > end:
            return FAR
    return at


@_compiled(
    f"UniTuple(int64, 3)({_DATA}, int64[::1], int64[::1], int64[::1], int64[::1], int32[::1],"
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
    for batch in range(len(starts)):
        at = starts[batch]
        batch_end = ends[batch]
        for number in range(counts[batch]):
            length, at = read_varint(data, at, batch_end)
            if length < 1 or length > batch_end - at:
                return OUTSIDE_ITS_BATCH, batch, number
            end = at + length
            timestamp_deltas[row], at = read_varlong(data, at + 1, end)
            offset_deltas[row], at = read_varint(data, at, end)
            length, at = read_varint(data, at, end)
            key_start = at
            key_end = at + max(length, 0)
            value_length, value_start = read_varint(data, key_end, end)
            value_end = value_start + max(value_length, 0)
            headers, headers_start = read_varint(data, value_end, end)
            at = headers_start if headers == 0 else skip_headers(data, headers_start, end, headers)
            if at != end:
                return FIELDS_AND_LENGTH_DIFFER, batch, number
            key_is_null[row] = length < 0
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


@_compiled(f"void({_DATA}, int32[::1], int32[::1], int32[::1], int32[::1], boolean[::1])")
def scan_headers(
    data: Bytes, header_starts: Ints, header_counts: Ints, key_bounds: Ints, value_bounds: Ints, value_is_null: Flags
) -> None:
    """Fill the columns of the headers, one row per header, of records that `scan` found no fault in."""
    row = 0
    size = len(data)
    for record in range(len(header_starts)):
        at = int(header_starts[record])
        for _ in range(header_counts[record]):
            length, at = read_varint(data, at, size)
            key_bounds[2 * row] = at
            at += length
            key_bounds[2 * row + 1] = at
            length, at = read_varint(data, at, size)
            value_is_null[row] = length < 0
            value_bounds[2 * row] = at
            if length > 0:
                at += length
            value_bounds[2 * row + 1] = at
            row += 1
