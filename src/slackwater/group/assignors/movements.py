"""The partition movements while an assignment is balanced.

Invariants:
- Partitions of one topic never move both from a to b and from b to a: instead of the second move, the first is undone,
  which gives the same loads with fewer moves (SK-10).
- A partition that moves again keeps its original owner; a partition that returns is forgotten.
- Of several moves that could be undone, the Java client's choice is undone (`java_order.py`).
"""

from slackwater.group.assignors.layout import GroupLayout
from slackwater.group.java_order import bucket, capacity, partition_hash, string_hash


class PartitionMovements:
    """The movements so far, by partition, and by topic and pair of members."""

    __slots__ = ("_by_pair", "_by_partition", "_layout")

    def __init__(self, layout: GroupLayout) -> None:
        self._layout = layout
        self._by_partition: dict[int, tuple[int, int]] = {}
        self._by_pair: dict[tuple[int, int, int], _Moved] = {}

    def partition_to_move(self, topic: int, partition: int, from_member: int, to_member: int) -> int:
        """The partition to move so that `to_member` gets one more: this one, or one whose earlier move is undone."""
        original_owner = self._by_partition.get(partition, (from_member, from_member))[0]
        moved = self._by_pair.get((topic, to_member, original_owner))
        if moved is None:
            return partition
        topic_hash, first = string_hash(self._layout.topics[topic]), int(self._layout.first[topic])
        buckets = capacity(moved.max_count)
        return min(
            moved.partitions,
            key=lambda moved_partition: bucket(partition_hash(topic_hash, moved_partition - first), buckets),
        )

    def record(self, topic: int, partition: int, from_member: int, to_member: int) -> None:
        """Record a movement."""
        original_owner = from_member
        if partition in self._by_partition:
            original_owner, last_owner = self._by_partition.pop(partition)
            moved = self._by_pair[topic, original_owner, last_owner]
            del moved.partitions[partition]
            if not moved.partitions:
                del self._by_pair[topic, original_owner, last_owner]
        if original_owner != to_member:
            self._by_partition[partition] = (original_owner, to_member)
            self._by_pair.setdefault((topic, original_owner, to_member), _Moved()).add(partition)


class _Moved:
    """Partitions in the order in which they moved, and their maximum number."""

    __slots__ = ("max_count", "partitions")

    def __init__(self) -> None:
        self.partitions: dict[int, None] = {}
        self.max_count = 0

    def add(self, partition: int) -> None:
        self.partitions[partition] = None
        self.max_count = max(self.max_count, len(self.partitions))
