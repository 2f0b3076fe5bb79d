"""Reading of a log whose closed segments may be damaged: every valid batch, and what is lost between them.

Invariants:
- A batch is returned only if its frame, its checksum and its offsets are valid.
- After damage the search continues at the next byte where a valid batch starts. Each position is visited once, so the
  search ends, whatever the file contains.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from slackwater.broker.storage.log.batch_headers import frame_error
from slackwater.broker.storage.log.files import LOG
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.segment import Segment
from slackwater.wire.records.batch import HEADER_BYTES, LENGTH_AT, MAGIC, MAGIC_AT, BatchHeader, RecordBatch

_MAGIC: Final = bytes([MAGIC])


class LostRange(NamedTuple):
    """Bytes between two valid batches, and the offsets that they may have had."""

    path: Path
    position: int
    end: int
    first_offset: int
    last_offset: int
    reason: str

    def __str__(self) -> str:
        return (
            f"bytes {self.position} to {self.end - 1} of {self.path}, offsets {self.first_offset} to "
            f"{self.last_offset}: {self.reason}"
        )


def read_valid_batches(log: PartitionLog) -> Iterator[RecordBatch | LostRange]:
    """Return all valid batches of a log in order, and a `LostRange` for everything else."""
    for segment in log.segments:
        if segment.size:
            with segment.path(LOG).open("rb") as file:
                # The batches are views of the mapping, which lives as long as the last of them.
                mapped = mmap.mmap(file.fileno(), segment.size, prot=mmap.PROT_READ)
            yield from _read_segment(segment, mapped)


def _read_segment(segment: Segment, mapped: mmap.mmap) -> Iterator[RecordBatch | LostRange]:
    view = memoryview(mapped)
    position, next_offset = 0, segment.base_offset
    while position < len(view):
        batch = _batch_at(view, position, next_offset, segment.next_offset)
        if isinstance(batch, str):
            reason, lost_from, first_offset = batch, position, next_offset
            found = _find_batch(mapped, view, position + 1, next_offset, segment.next_offset)
            position = len(view) if found is None else found.position
            next_offset = segment.next_offset if found is None else found.base_offset
            yield LostRange(segment.path(LOG), lost_from, position, first_offset, next_offset - 1, reason)
            if found is None:
                return
            batch = found
        yield batch
        position, next_offset = position + batch.size, batch.next_offset


def _find_batch(
    mapped: mmap.mmap, view: memoryview, position: int, next_offset: int, end_offset: int
) -> RecordBatch | None:
    """Return the first valid batch at or after a position."""
    while (magic_at := mapped.find(_MAGIC, position + MAGIC_AT)) >= 0:
        position = magic_at - MAGIC_AT
        batch = _batch_at(view, position, next_offset, end_offset)
        if not isinstance(batch, str):
            return batch
        position += 1
    return None


def _batch_at(view: memoryview, position: int, next_offset: int, end_offset: int) -> RecordBatch | str:
    """Return the batch at a position, or the reason why it is not valid."""
    left = len(view) - position
    if left < HEADER_BYTES:
        return f"the last {left} bytes are shorter than a batch header"
    length = int.from_bytes(view[position + LENGTH_AT : position + LENGTH_AT + 4], "big", signed=True)
    if reason := frame_error(view[position + MAGIC_AT], length, left):
        return reason
    header = BatchHeader(view, position)
    if not next_offset <= header.base_offset <= header.last_offset < end_offset:
        return f"the batch has offsets {header.base_offset} to {header.last_offset}"
    batch = RecordBatch(view, position)
    return batch if batch.computed_crc() == batch.crc else "the checksum of the batch is wrong"
