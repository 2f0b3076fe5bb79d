"""Iteration over the batch headers of a segment file. Everything that walks over a log uses it.

Invariants:
- A step advances by at least one header, or the iteration ends with `DamagedSegment`: a damaged length never leads back
  to the same bytes and never beyond the end of the file.
- Offsets increase from batch to batch. The checksum does not cover the offset and the length, so both are checked here.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from slackwater.wire.records.batch import HEADER_BYTES, LENGTH_ENDS_AT, MAGIC

# Base offset, length, magic, last offset delta, base timestamp and max timestamp.
_FIELDS: Final = struct.Struct(">qi4xb6xiqq")
_MIN_LENGTH: Final = HEADER_BYTES - LENGTH_ENDS_AT
_READ_BYTES: Final = 16 * 1024


class DamagedSegment(Exception):
    """No valid batch starts at a position of a segment file."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}.")
        self.path = path
        self.position = position
        self.reason = reason


class BatchPosition(NamedTuple):
    """Position and header fields of one batch in a segment."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def frame_error(magic: int, length: int, left: int) -> str | None:
    """Return why no batch can start where `left` bytes are left, or None; `length` is the batch's length field."""
    if magic != MAGIC or length < _MIN_LENGTH:
        return f"no record batch starts there (magic {magic}, length {length})"
    if length + LENGTH_ENDS_AT > left:
        return f"the batch has {length + LENGTH_ENDS_AT} bytes, but only {left} are left"
    return None


def first_batch_size(data: bytes | memoryview, left: int, path: Callable[[], Path], position: int) -> int:
    """Return the size of the batch at the start of `data`, read at `position`, where the file has `left` bytes left."""
    if len(data) < HEADER_BYTES:
        raise DamagedSegment(path(), position, f"{len(data)} bytes are shorter than a batch header")
    _, length, magic, *_ = _FIELDS.unpack_from(data)
    if reason := frame_error(magic, length, left):
        raise DamagedSegment(path(), position, reason)
    size: int = length + LENGTH_ENDS_AT
    return size


def iter_batch_headers(
    read: Callable[[int, int], bytes | memoryview], path: Callable[[], Path], position: int, end: int
) -> Iterator[BatchPosition]:
    """Iterate over the headers from `position`, which must be the start of a batch, to `end`.

    `read` takes a size and a position and returns bytes of the file, `path` names the file. Raises `DamagedSegment`.
    """
    next_offset = 0
    while position < end:
        data = read(min(_READ_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(data):
            base_offset, length, magic, last_delta, _, max_timestamp = _FIELDS.unpack_from(data, at)
            if reason := frame_error(magic, length, end - position - at):
                raise DamagedSegment(path(), position + at, reason)
            if base_offset < next_offset or last_delta < 0:
                offsets = f"{base_offset} to {base_offset + last_delta}"
                raise DamagedSegment(path(), position + at, f"the batch has offsets {offsets} after {next_offset - 1}")
            next_offset = base_offset + last_delta + 1
            yield BatchPosition(position + at, length + LENGTH_ENDS_AT, base_offset, next_offset - 1, max_timestamp)
            at += length + LENGTH_ENDS_AT
        if not at:
            raise DamagedSegment(path(), position, f"the last {end - position} bytes are shorter than a batch header")
        position += at
