"""The quick way into a fetch response that holds nothing but plain batches: their headers are read all together.

Rules kept here
- Plain is: format 2, not packed, nobody's marker, and under `read_committed` of no transaction. Everything else, and
  whatever looks damaged, is left to `FetchedBatches`, which knows what to do and what to say.
- What is given out is what `records_scan.chunks` would have given, in one chunk.

A producer's batch is 16 kB or less, so a fetch of some megabytes holds hundreds. An object for each costs as much as
finding the records in all of them.
"""

import struct
from collections.abc import Sequence
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from slackwater.wire.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    RecordBatch,
)
from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.crc import crc32c
from slackwater.wire.records.scan import Chunk, Longs

HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_MOST_BYTES: Final = 2**31 - 1
_LEAST_RECORD_BYTES: Final = 7


def plain_chunk(
    buffer: Buffer, from_offset: int, until_offset: int, *, check_crcs: bool, committed_only: bool
) -> Chunk | None:
    """The batches of a response that lie between two offsets, or None if they are not all plain."""
    at = _starts(buffer)
    if not len(at) or len(buffer) > _MOST_BYTES:
        return None
    data = np.frombuffer(buffer, np.uint8)
    headers = data[at[:, None] + np.arange(HEADER_BYTES)].view(HEADER)[:, 0]
    base_offsets = headers["base_offset"].astype(np.int64)
    wanted = (base_offsets < until_offset) & (base_offsets + headers["last_offset_delta"] >= from_offset)
    wanted &= headers["count"] != 0
    headers, at, base_offsets = headers[wanted], at[wanted], base_offsets[wanted]
    ends = at + headers["length"] + LENGTH_ENDS_AT
    starts = at + HEADER_BYTES
    if not len(at) or not _are_plain(headers, ends - starts, committed_only):
        return None
    view = memoryview(buffer)
    if check_crcs and not _are_whole(view, at, ends, headers["crc"]):
        return None
    return _chunk(view, headers, base_offsets, starts, ends)


def _starts(buffer: Buffer) -> Longs:
    """Where whole batches begin, found by their lengths alone."""
    found: list[int] = []
    at, last, unpack = 0, len(buffer) - HEADER_BYTES, _LENGTH.unpack_from
    while at <= last:
        found.append(at)
        (length,) = unpack(buffer, at + _LENGTH_AT)
        if length < HEADER_BYTES - LENGTH_ENDS_AT:
            return np.empty(0, np.int64)
        at += length + LENGTH_ENDS_AT
    if found and at > len(buffer):
        found.pop()  # the response has cut it off
    return np.array(found, np.int64)


def _are_plain(headers: NDArray[np.void], sizes: Longs, committed_only: bool) -> bool:
    not_plain = CODEC_MASK | CONTROL_BIT | (TRANSACTIONAL_BIT if committed_only else 0)
    counts = headers["count"]
    return bool(
        (headers["magic"] == MAGIC).all()
        and not (headers["attributes"] & not_plain).any()
        and (headers["last_offset_delta"] >= 0).all()
        and (counts > 0).all()
        and (counts * np.int64(_LEAST_RECORD_BYTES) <= sizes).all()
    )


def _are_whole(view: memoryview, at: Longs, ends: Longs, expected: NDArray[np.uint32]) -> bool:
    pairs = zip((at + ATTRIBUTES_AT).tolist(), ends.tolist(), strict=True)
    found = [crc32c(view[start:end]) for start, end in pairs]
    return bool(np.array_equal(found, expected))


def _chunk(view: memoryview, headers: NDArray[np.void], base_offsets: Longs, starts: Longs, ends: Longs) -> Chunk:
    first, end = int(starts[0]), int(ends[-1])
    chunk = Chunk.__new__(Chunk)
    chunk.batches = _Found(view, (starts - HEADER_BYTES).tolist())
    chunk.data = np.frombuffer(view[first:end], np.uint8)
    chunk.data.flags.writeable = False
    chunk.starts = starts - first
    chunk.ends = ends - first
    chunk.counts = headers["count"].astype(np.int64)
    chunk.base_offsets = base_offsets
    chunk.stamped = (headers["attributes"] & LOG_APPEND_TIME_BIT) != 0
    chunk.timestamps = np.where(chunk.stamped, headers["max_timestamp"], headers["base_timestamp"]).astype(np.int64)
    return chunk


class _Found(Sequence[RecordBatch]):
    """The batches, made only for whoever asks: a fault names the one that it is in."""

    def __init__(self, view: memoryview, at: list[int]) -> None:
        self._view = view
        self._at = at

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, index: int) -> RecordBatch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordBatch]: ...
    def __getitem__(self, index: int | slice) -> RecordBatch | Sequence[RecordBatch]:
        if isinstance(index, slice):
            return _Found(self._view, self._at[index])
        return RecordBatch(self._view, self._at[index])
