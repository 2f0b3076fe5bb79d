"""Counts of records read: ranges of offsets, and how often each record is in them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


def offset_ranges(records: Iterable[tuple[str, int, int]]) -> list[dict[str, object]]:
    """Records (topic, partition, offset) as ranges of consecutive offsets."""
    ranges: list[tuple[str, int, int, int]] = []
    for topic, partition, offset in records:
        if ranges and ranges[-1][:2] == (topic, partition) and ranges[-1][3] == offset:
            ranges[-1] = (*ranges[-1][:3], offset + 1)
        else:
            ranges.append((topic, partition, offset, offset + 1))
    names = ("topic", "partition", "start", "end")
    return [dict(zip(names, values, strict=True)) for values in ranges]


@dataclass(slots=True)
class ReadCounts:
    """The offsets that a group has read, by partition."""

    ranges: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, topic: str, partition: int, start: int, end: int) -> None:
        """Add a range of offsets."""
        ranges = self.ranges[topic, partition]
        if ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))

    def totals(self) -> tuple[int, int]:
        """The number of different records that were read, and of repeated reads."""
        distinct = reads = 0
        for ranges in self.ranges.values():
            reads += sum(end - start for start, end in ranges)
            reached = 0
            for start, end in sorted(ranges):
                distinct += max(end - max(start, reached), 0)
                reached = max(reached, end)
        return distinct, reads - distinct

    def missing(self, ends: Mapping[tuple[str, int], int]) -> int:
        """The number of records before these end offsets that were never read."""
        missing = 0
        for partition, end in ends.items():
            reached = 0
            for range_start, range_end in sorted(self.ranges.get(partition, ())):
                missing += max(min(range_start, end) - reached, 0)
                reached = max(reached, range_end)
            missing += max(end - reached, 0)
        return missing
