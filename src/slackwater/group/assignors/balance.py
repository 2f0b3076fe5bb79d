"""Moves partitions from members with many to members with few until no move improves the balance.

Invariants:
- A partition may move if a subscriber of its topic has at least two partitions fewer than its owner. If no partition
  may move, the assignment is balanced (SK-08).
- Topics with the fewest subscribers come first; passes repeat until one moves nothing. A partition moves to the least
  loaded member, ties by id, or back to its owner of an earlier generation if that improves the balance too.
- Two members never swap partitions of one topic (SK-10, `movements.py`).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout
from slackwater.group.assignors.movements import PartitionMovements
from slackwater.group.assignors.partitions import BoolArray, IntArray

_MAX_PARTITIONS_TO_RECHECK: Final = 20_000  # partitions; checking this many is faster than processing one topic


class PartitionBalancer:
    """Balances one assignment in place: `owner` of every partition and `load` of every member."""

    __slots__ = (
        "kind_of_topic",
        "kind_starts",
        "layout",
        "load",
        "members_by_kind",
        "movements",
        "older_owner",
        "owner",
        "subscribers",
        "topics",
    )

    def __init__(
        self,
        layout: GroupLayout,
        owner: IntArray,
        load: IntArray,
        older_owner: IntArray,
        order: Sequence[int],
        subscribers: Sequence[IntArray],
    ) -> None:
        self.layout = layout
        self.owner = owner
        self.load = load
        self.older_owner = older_owner
        self.subscribers = subscribers
        self.movements = PartitionMovements(layout)
        # A topic with one subscriber cannot move.
        self.topics = [topic for topic in order if len(subscribers[topic]) > 1]
        # Topics share arrays of members (`GroupLayout.subscribers`): concatenate the distinct ones.
        kinds = {id(subscribers[topic]): subscribers[topic] for topic in self.topics}
        number = {key: index for index, key in enumerate(kinds)}
        self.kind_of_topic = np.array([number[id(subscribers[topic])] for topic in self.topics], dtype=np.int64)
        self.members_by_kind = np.concatenate([np.zeros(0, np.int64), *kinds.values()])
        self.kind_starts = np.cumsum([0, *map(len, kinds.values())])[:-1]

    def members(self) -> IntArray:
        """The members that share a topic with another member."""
        return np.unique(self.members_by_kind)

    def improve(self, among: BoolArray | None) -> bool:
        """Move partitions (all, or those in `among`) until no move helps; returns whether any moved."""
        moved = False
        while self.topics and self._pass(among):
            moved = True
        return moved

    def _pass(self, among: BoolArray | None) -> bool:
        """Process every partition once; returns whether any moved."""
        first = self.layout.first
        moved = is_stale = False
        uneven = self._uneven()
        for index, topic in enumerate(self.topics):
            if is_stale and len(self.owner) <= _MAX_PARTITIONS_TO_RECHECK:
                uneven, is_stale = self._uneven(), False
            if (is_stale or uneven[index]) and self._even_out(topic, int(first[topic]), int(first[topic + 1]), among):
                moved = is_stale = True
        return moved

    def _uneven(self) -> list[bool]:
        """For every topic, whether one of its partitions may move."""
        lowest = np.minimum.reduceat(self.load[self.members_by_kind], self.kind_starts)[self.kind_of_topic]
        highest = np.maximum.reduceat(self.load[self.owner], self.layout.first[:-1])[self.topics]
        uneven: list[bool] = (highest > lowest + 1).tolist()
        return uneven

    def _even_out(self, topic: int, start: int, end: int, among: BoolArray | None) -> bool:
        """Process the partitions of one topic once; returns whether any moved."""
        members, load, owner_of = self.subscribers[topic], self.load, self.owner
        least = int(members[load[members].argmin()])
        moved = False
        while start < end:
            may_move = load[owner_of[start:end]] > load[least] + 1
            if among is not None:
                may_move &= among[start:end]
            candidates: list[int] = (may_move.nonzero()[0] + start).tolist()
            start = end
            for partition in candidates:
                owner = int(owner_of[partition])
                if load[owner] <= load[least] + 1:
                    continue
                to_member = self._former_owner(members, partition, owner)
                if to_member == UNASSIGNED:
                    to_member = least
                actual = self.movements.partition_to_move(topic, partition, owner, to_member)
                from_member = int(owner_of[actual])
                self.movements.record(topic, actual, from_member, to_member)
                owner_of[actual] = to_member
                load[from_member] -= 1
                load[to_member] += 1
                moved = True
                is_regular_move = to_member == least and from_member == owner
                least = int(members[load[members].argmin()])
                if not is_regular_move:
                    # A move from this partition's owner to the least loaded member creates no new candidates. Any
                    # other may: check the remaining partitions again.
                    start = partition + 1
                    break
        return moved

    def _former_owner(self, members: IntArray, partition: int, owner: int) -> int:
        """The owner in an earlier generation, if moving the partition back helps; else UNASSIGNED."""
        older_owner = int(self.older_owner[partition])
        if older_owner == UNASSIGNED or self.load[owner] <= self.load[older_owner] + 1:
            return UNASSIGNED
        index = int(np.searchsorted(members, older_owner))
        return older_owner if index < len(members) and members[index] == older_owner else UNASSIGNED


def balance_score(loads: IntArray) -> int:
    """The sum of the load differences between all pairs of members; lower is more balanced."""
    ascending = np.sort(loads)
    return int(ascending @ (2 * np.arange(len(loads)) - len(loads) + 1))
