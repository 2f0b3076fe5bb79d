"""Many partitions, stored as numbers per topic instead of tuples.

Invariants:
- The leader of a large group handles a million partitions; none becomes a Python object before it is iterated over.
- Immutable: the arrays are never written to, so members of a group may share them.
- The order is kept, and topics may repeat, because other clients' bytes may contain anything.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from slackwater.group.topic_partition import TopicPartition

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


class PartitionsByTopic:
    """Runs of partition numbers: run i has `counts[i]` numbers and belongs to `topics[i]`."""

    __slots__ = ("counts", "numbers", "topics")

    def __init__(self, topics: tuple[str, ...], counts: IntArray, numbers: IntArray) -> None:
        self.topics: Final = topics
        self.counts: Final = counts
        self.numbers: Final = numbers

    @classmethod
    def of(cls, partitions: "Iterable[TopicPartition] | PartitionsByTopic") -> "PartitionsByTopic":
        """Group partitions by topic: topics in order of first appearance, numbers in the order given."""
        if isinstance(partitions, PartitionsByTopic):
            return partitions
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        if not by_topic:
            return NO_PARTITIONS
        counts = np.fromiter(map(len, by_topic.values()), np.int64, len(by_topic))
        numbers = np.array([number for run in by_topic.values() for number in run], dtype=np.int64)
        return cls(tuple(by_topic), counts, numbers)

    def runs(self) -> Iterator[tuple[str, IntArray]]:
        """Each topic with its numbers."""
        end = 0
        for topic, count in zip(self.topics, self.counts.tolist(), strict=True):
            start, end = end, end + count
            yield topic, self.numbers[start:end]

    def __iter__(self) -> Iterator[TopicPartition]:
        numbers = iter(self.numbers.tolist())
        for topic, count in zip(self.topics, self.counts.tolist(), strict=True):
            for _ in repeat(None, count):
                yield TopicPartition(topic, next(numbers))

    def __len__(self) -> int:
        return len(self.numbers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionsByTopic):
            return NotImplemented
        # Runs may be split differently (a repeated topic, an empty run), so compare the partitions.
        return len(self) == len(other) and (
            (
                self.topics == other.topics
                and np.array_equal(self.counts, other.counts)
                and np.array_equal(self.numbers, other.numbers)
            )
            or tuple(self) == tuple(other)
        )

    def __hash__(self) -> int:
        return hash(self.numbers.tobytes())

    def __repr__(self) -> str:
        return f"PartitionsByTopic({', '.join(map(str, self))})"


NO_PARTITIONS: Final = PartitionsByTopic((), np.zeros(0, np.int64), np.zeros(0, np.int64))
