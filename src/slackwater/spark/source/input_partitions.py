"""Ranges of partitions made into Spark's tasks.

Rules kept here
- A range without offsets is no task. Without options, a range is one task.
- `maxRecordsPerPartition` cuts every range that is longer; `minPartitions` cuts the long ones, in proportion to their
  length, until there are about as many tasks as asked for. The arithmetic is that of Spark's own source.
- A task carries its range alone: what all tasks share is in the reader, which Spark sends once.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql.datasource import InputPartition

from slackwater.group.offset_range import OffsetRange

_HALF: Final = 0.5


class RangeInputPartition(InputPartition):
    """What one task reads."""

    def __init__(self, range: OffsetRange) -> None:
        super().__init__(tuple(range))

    @property
    def range(self) -> OffsetRange:
        """The offsets."""
        return OffsetRange(*self.value)


def plan_input_partitions(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[InputPartition]:
    """The tasks that read these ranges."""
    wanted = [one for one in ranges if one.size]
    pieces = wanted
    if max_records_per_partition:
        pieces = [part for one in wanted for part in cut(one, -(-one.size // max_records_per_partition))]
    if min_partitions and min_partitions > len(pieces):
        pieces = _at_least(wanted, min_partitions)
    return [RangeInputPartition(one) for one in pieces]


def cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """A range in parts of equal length, as far as that goes."""
    pieces = []
    start, left = whole.from_offset, whole.size
    for waiting in range(parts, 0, -1):
        size = left // waiting
        if size:
            pieces.append(whole.with_offsets(start, start + size))
        start, left = start + size, left - size
    return pieces


def _at_least(ranges: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Long ranges in several parts; those that stay whole are left out of the proportions."""
    total = sum(one.size for one in ranges)
    whole = [one for one in ranges if _parts(one, total, wanted) == 1]
    left = total - sum(one.size for one in whole)
    parts_left = max(wanted - len(whole), 1)
    kept = set(whole)
    return [part for one in ranges for part in ([one] if one in kept else cut(one, _parts(one, left, parts_left)))]


def _parts(one: OffsetRange, total: int, wanted: int) -> int:
    return max(int(one.size / total * wanted + _HALF), 1)
