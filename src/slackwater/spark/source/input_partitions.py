"""Turns offset ranges into Spark's input partitions, one per task.

Invariants:
- An empty range gives no input partition. Without options, a range is one input partition.
- `maxRecordsPerPartition` splits longer ranges. `minPartitions` splits long ranges in proportion to their length until
  there are about that many. The arithmetic is that of Spark's Kafka source.
- An input partition contains only its range; everything else is in the reader, which Spark sends once.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql.datasource import InputPartition

from slackwater.group.offset_range import OffsetRange

_ROUND_HALF_UP: Final = 0.5


class RangeInputPartition(InputPartition):
    """The offset range that one task reads."""

    def __init__(self, range: OffsetRange) -> None:
        super().__init__(tuple(range))

    @property
    def range(self) -> OffsetRange:
        """The offset range."""
        return OffsetRange(*self.value)


def plan_input_partitions(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[InputPartition]:
    """Return the input partitions for these ranges."""
    nonempty = [offset_range for offset_range in ranges if offset_range.size]
    parts = nonempty
    if max_records_per_partition:
        parts = [
            part
            for offset_range in nonempty
            for part in split_range(offset_range, -(-offset_range.size // max_records_per_partition))
        ]
    if min_partitions and min_partitions > len(parts):
        parts = _split_in_proportion(nonempty, min_partitions)
    return [RangeInputPartition(part) for part in parts]


def split_range(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Split a range into parts of about equal length."""
    parts = []
    start, size_left = whole.from_offset, whole.size
    for parts_left in range(count, 0, -1):
        size = size_left // parts_left
        if size:
            parts.append(whole.with_offsets(start, start + size))
        start, size_left = start + size, size_left - size
    return parts


def _split_in_proportion(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Split long ranges in proportion to their length; ranges that stay whole do not count."""
    total = sum(offset_range.size for offset_range in ranges)
    whole = {offset_range for offset_range in ranges if _part_count(offset_range, total, min_partitions) == 1}
    size_left = total - sum(offset_range.size for offset_range in whole)
    partitions_left = max(min_partitions - len(whole), 1)
    parts: list[OffsetRange] = []
    for offset_range in ranges:
        if offset_range in whole:
            parts.append(offset_range)
        else:
            parts += split_range(offset_range, _part_count(offset_range, size_left, partitions_left))
    return parts


def _part_count(offset_range: OffsetRange, total: int, min_partitions: int) -> int:
    return max(int(offset_range.size / total * min_partitions + _ROUND_HALF_UP), 1)
