"""Searches of a log by time, as in ListOffsets.

Invariants:
- A search works in slices, because it may have to decompress many batches. Retention may remove segments between two
  slices.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from slackwater.broker.slices import Sliced
from slackwater.wire.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from slackwater.broker.storage.log.partition_log import PartitionLog

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5


class TimestampOffset(NamedTuple):
    """An offset and the timestamp of its record; -1 if no record was searched for."""

    timestamp: int
    offset: int


def search(log: "PartitionLog", timestamp: int, *, committed: bool = False) -> Sliced[TimestampOffset | None]:
    """Find the first record at or after a timestamp, or resolve a special timestamp; None if there is no record.

    With `committed`, the log ends at the last stable offset, and a later record is not found. Raises `DamagedSegment`.
    """
    found = yield from _search(log, timestamp)
    if committed and found is not None:
        end = log.last_stable_offset
        if timestamp == LATEST:
            return TimestampOffset(NO_TIMESTAMP, end)
        return found if found.offset < end or timestamp in (EARLIEST, EARLIEST_LOCAL) else None
    return found


def _search(log: "PartitionLog", timestamp: int) -> Sliced[TimestampOffset | None]:
    if timestamp >= 0:
        return (yield from _find(log, timestamp))
    if timestamp == LATEST:
        return TimestampOffset(NO_TIMESTAMP, log.high_watermark)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampOffset(NO_TIMESTAMP, log.log_start_offset)
    if timestamp == MAX_TIMESTAMP:
        return (yield from _find_newest(log))
    # LATEST_TIERED and other timestamps for remote storage, which does not exist here.
    return TimestampOffset(NO_TIMESTAMP, -1)


def _find(log: "PartitionLog", timestamp: int) -> Sliced[TimestampOffset | None]:
    limit = log.config.message_max_uncompressed_bytes
    for segment in list(log.segments):
        position = yield from segment.find_timestamp(timestamp, log.log_start_offset, limit)
        if position is not None:
            return TimestampOffset(*position)
    return None


def _find_newest(log: "PartitionLog") -> Sliced[TimestampOffset | None]:
    """Find the first record with the newest timestamp at or after the log start offset."""
    newest = NO_TIMESTAMP
    limit = log.config.message_max_uncompressed_bytes
    for segment in list(log.segments):
        if segment.base_offset >= log.log_start_offset:
            newest = max(newest, segment.max_timestamp)
        elif segment.max_timestamp > newest:
            while newer := (yield from segment.find_timestamp(newest + 1, log.log_start_offset, limit)):
                newest = newer[0]
    return (yield from _find(log, newest)) if newest >= 0 else None
