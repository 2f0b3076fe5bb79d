"""Where offsets are to be moved, under the rules of Kafka's own tool.

Rules kept here
- An offset beyond the log is brought back to its start or its end, and the change says so.
- A time after the last record means the end. A shift needs an offset to shift.
- Pure: offsets in, changes out.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple, Self

from slackwater.client.admin.descriptions import OffsetChange
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition


class Where(Enum):
    """The kinds of places an offset can be moved to."""

    EARLIEST = "the beginning"
    LATEST = "the end"
    CURRENT = "where it is"
    OFFSET = "an offset"
    SHIFT = "by so many records"
    TIME = "a time"


class ResetTo(NamedTuple):
    """Where to move offsets; made by one of the methods."""

    where: Where
    amount: int = 0

    @classmethod
    def earliest(cls) -> Self:
        """The first record there is."""
        return cls(Where.EARLIEST)

    @classmethod
    def latest(cls) -> Self:
        """Behind the last record."""
        return cls(Where.LATEST)

    @classmethod
    def current(cls) -> Self:
        """The committed offset; the end where there is none."""
        return cls(Where.CURRENT)

    @classmethod
    def offset(cls, offset: int) -> Self:
        """This offset."""
        if offset < 0:
            raise UsageError(f"There is no offset {offset}; use 0 or more.")
        return cls(Where.OFFSET, offset)

    @classmethod
    def shift(cls, by: int) -> Self:
        """So many records on, or back."""
        return cls(Where.SHIFT, by)

    @classmethod
    def time(cls, timestamp_ms: int) -> Self:
        """The first record of this time or later."""
        if timestamp_ms < 0:
            raise UsageError(f"The time {timestamp_ms} cannot be; use milliseconds since 1970.")
        return cls(Where.TIME, timestamp_ms)


class Bounds(NamedTuple):
    """What is known of a partition: its ends, what is committed, and the offset of the time asked for."""

    start: int
    end: int
    committed: int | None
    at_time: int | None = None


def changes(
    to: ResetTo, partitions: Iterable[TopicPartition], bounds: Mapping[TopicPartition, Bounds]
) -> list[OffsetChange]:
    """What would be moved where."""
    return [_change(to, partition, bounds[partition]) for partition in sorted(partitions)]


def _change(to: ResetTo, partition: TopicPartition, known: Bounds) -> OffsetChange:
    start, end, committed, at_time = known
    match to.where:
        case Where.EARLIEST:
            return OffsetChange(partition, committed, start)
        case Where.LATEST:
            return OffsetChange(partition, committed, end)
        case Where.TIME:
            if at_time is None:
                return OffsetChange(partition, committed, end, "no record is as new: the end")
            return OffsetChange(partition, committed, at_time)
        case Where.CURRENT:
            if committed is None:
                return OffsetChange(partition, None, end, "no offset is committed: the end")
            wanted = committed
        case Where.SHIFT:
            if committed is None:
                raise UsageError(f"{partition} has no committed offset to shift; say where to move it instead.")
            wanted = committed + to.amount
        case Where.OFFSET:
            wanted = to.amount
    if wanted < start:
        return OffsetChange(partition, committed, start, f"{wanted} is before the log's start")
    if wanted > end:
        return OffsetChange(partition, committed, end, f"{wanted} is beyond the log's end")
    return OffsetChange(partition, committed, wanted)
