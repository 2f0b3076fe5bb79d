"""Computes offset resets, with the rules of Kafka's own tool.

Invariants:
- An offset outside the log is moved to its start or end, and the change has a note.
- A time after the last record means the end. A shift needs a committed offset.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Self

from slackwater.client.admin.descriptions import OffsetChange
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition


class ResetTarget(Enum):
    """The kinds of reset."""

    EARLIEST = "the beginning"
    LATEST = "the end"
    CURRENT = "the committed offset"
    OFFSET = "an offset"
    OFFSETS = "an offset per partition"
    SHIFT = "a number of records"
    TIME = "a time"


class ResetTo(NamedTuple):
    """Where to move offsets; created by one of the class methods."""

    target: ResetTarget
    amount: int = 0
    by_partition: Mapping[TopicPartition, int] = MappingProxyType({})

    @classmethod
    def earliest(cls) -> Self:
        """Move to the first available record."""
        return cls(ResetTarget.EARLIEST)

    @classmethod
    def latest(cls) -> Self:
        """Move behind the last record."""
        return cls(ResetTarget.LATEST)

    @classmethod
    def current(cls) -> Self:
        """Keep the committed offset; use the end where there is none."""
        return cls(ResetTarget.CURRENT)

    @classmethod
    def offset(cls, offset: int) -> Self:
        """Move to this offset."""
        if offset < 0:
            raise UsageError(f"There is no offset {offset}; use 0 or more.")
        return cls(ResetTarget.OFFSET, offset)

    @classmethod
    def offsets(cls, offsets: Mapping[TopicPartition, int]) -> Self:
        """Move each of these partitions to its offset."""
        for partition, offset in offsets.items():
            if offset < 0:
                raise UsageError(f"{partition} has no offset {offset}; use 0 or more.")
        return cls(ResetTarget.OFFSETS, by_partition=dict(offsets))

    @classmethod
    def shift(cls, by: int) -> Self:
        """Move forward by a number of records; backward if it is negative."""
        return cls(ResetTarget.SHIFT, by)

    @classmethod
    def time(cls, timestamp_ms: int) -> Self:
        """Move to the first record of this time or later."""
        if timestamp_ms < 0:
            raise UsageError(f"{timestamp_ms} is not a timestamp; use milliseconds since 1970.")
        return cls(ResetTarget.TIME, timestamp_ms)


class PartitionOffsets(NamedTuple):
    """The offsets of a partition that a reset needs; `at_time` is the offset of the requested time."""

    start: int
    end: int
    committed: int | None
    at_time: int | None = None


def changes(
    to: ResetTo, partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, PartitionOffsets]
) -> list[OffsetChange]:
    """Return the change of each partition."""
    return [_change(to, partition, offsets[partition]) for partition in sorted(partitions)]


def _change(to: ResetTo, partition: TopicPartition, offsets: PartitionOffsets) -> OffsetChange:
    start, end, committed, at_time = offsets
    match to.target:
        case ResetTarget.EARLIEST:
            return OffsetChange(partition, committed, start)
        case ResetTarget.LATEST:
            return OffsetChange(partition, committed, end)
        case ResetTarget.TIME:
            if at_time is None:
                return OffsetChange(partition, committed, end, "no record is as new: the end")
            return OffsetChange(partition, committed, at_time)
        case ResetTarget.CURRENT:
            if committed is None:
                return OffsetChange(partition, None, end, "no offset is committed: the end")
            offset = committed
        case ResetTarget.SHIFT:
            if committed is None:
                raise UsageError(f"{partition} has no committed offset to shift; use another reset.")
            offset = committed + to.amount
        case ResetTarget.OFFSET:
            offset = to.amount
        case ResetTarget.OFFSETS:
            offset = to.by_partition[partition]
    if offset < start:
        return OffsetChange(partition, committed, start, f"{offset} is before the log's start")
    if offset > end:
        return OffsetChange(partition, committed, end, f"{offset} is beyond the log's end")
    return OffsetChange(partition, committed, offset)
