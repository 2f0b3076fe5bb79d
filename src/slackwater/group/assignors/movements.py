"""Which partitions moved from whom to whom while an assignment was being balanced.

Rules kept here
- Partitions of one topic never move both from a to b and from b to a: the second move is replaced by undoing the
  first, which leaves both members with the same load and one move less (SK-10).
- A partition that moves on is remembered as moved from where it started; one that comes home is forgotten.
- Of several moves that could be undone, the one the Java client would undo (`java_order.py`).
"""

from slackwater.group.assignors.layout import GroupLayout
from slackwater.group.java_order import bucket, capacity, partition_hash, string_hash


class PartitionMovements:
    """The moves so far, by partition, and by topic and pair of members."""

    __slots__ = ("_by_pair", "_by_partition", "_layout")

    def __init__(self, layout: GroupLayout) -> None:
        self._layout = layout
        self._by_partition: dict[int, tuple[int, int]] = {}
        self._by_pair: dict[tuple[int, int, int], _Moved] = {}

    def instead_of(self, topic: int, partition: int, giver: int, taker: int) -> int:
        """The partition to move so that the taker gets one more: this one, or one whose earlier move is undone."""
        home = self._by_partition.get(partition, (giver, giver))[0]
        moved = self._by_pair.get((topic, taker, home))
        if moved is None:
            return partition
        topic_hash, first = string_hash(self._layout.topics[topic]), int(self._layout.first[topic])
        buckets = capacity(moved.most)
        return min(moved.partitions, key=lambda one: bucket(partition_hash(topic_hash, one - first), buckets))

    def record(self, topic: int, partition: int, giver: int, taker: int) -> None:
        """Remember that a partition moves."""
        home = giver
        if partition in self._by_partition:
            home, last = self._by_partition.pop(partition)
            moved = self._by_pair[topic, home, last]
            del moved.partitions[partition]
            if not moved.partitions:
                del self._by_pair[topic, home, last]
        if home != taker:
            self._by_partition[partition] = (home, taker)
            self._by_pair.setdefault((topic, home, taker), _Moved()).add(partition)


class _Moved:
    """Partitions in the order in which they moved, and how many there were at most."""

    __slots__ = ("most", "partitions")

    def __init__(self) -> None:
        self.partitions: dict[int, None] = {}
        self.most = 0

    def add(self, partition: int) -> None:
        self.partitions[partition] = None
        self.most = max(self.most, len(self.partitions))
