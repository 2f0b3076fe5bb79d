"""What was read: runs of offsets, and how often each record is in them.

Rules kept here
- A ledger counts every offset of every partition: what was read once, and what was read again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


def runs(records: Iterable[tuple[str, int, int]]) -> list[dict[str, object]]:
    """Records (topic, partition, offset) as runs of offsets."""
    found: list[tuple[str, int, int, int]] = []
    for topic, partition, offset in records:
        if found and found[-1][:2] == (topic, partition) and found[-1][3] == offset:
            found[-1] = (*found[-1][:3], offset + 1)
        else:
            found.append((topic, partition, offset, offset + 1))
    return [{"topic": topic, "partition": at, "from": start, "until": until} for topic, at, start, until in found]


@dataclass(slots=True)
class Read:
    """What a group has read of its topic."""

    ranges: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, topic: str, partition: int, start: int, until: int) -> None:
        """A run of offsets was read."""
        ranges = self.ranges[topic, partition]
        if ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], until)
        else:
            ranges.append((start, until))

    def counts(self) -> tuple[int, int]:
        """How many different records were read, and how many readings were of a record read before."""
        distinct = readings = 0
        for ranges in self.ranges.values():
            readings += sum(until - start for start, until in ranges)
            reached = 0
            for start, until in sorted(ranges):
                distinct += max(until - max(start, reached), 0)
                reached = max(reached, until)
        return distinct, readings - distinct

    def missing(self, ends: Mapping[tuple[str, int], int]) -> int:
        """How many records before these ends were never read."""
        missing = 0
        for partition, end in ends.items():
            reached = 0
            for start, until in sorted(self.ranges.get(partition, ())):
                missing += max(min(start, end) - reached, 0)
                reached = max(reached, until)
            missing += max(end - reached, 0)
        return missing
