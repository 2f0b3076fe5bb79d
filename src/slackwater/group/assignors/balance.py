"""Moving partitions from loaded to less loaded members until no move helps.

Rules kept here
- A partition may move when some member that subscribes to its topic holds at least two fewer than its owner. When no
  partition may, the assignment is balanced: sizes are within one, or no move would help (SK-08).
- Partitions are looked at in the order of topics with the fewest possible members, again and again until a whole
  pass moves none. Each goes to the least loaded, ties by id, or back to the member that had it in an earlier
  generation, if that helps too.
- Two members never swap partitions of one topic (SK-10, `movements.py`).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout
from slackwater.group.assignors.movements import PartitionMovements
from slackwater.group.assignors.partitions import BoolArray, IntArray

_CHEAP_TO_LOOK_AT: Final = 20_000  # partitions; so many are looked at sooner than one topic is worked through


class PartitionBalancer:
    """One assignment being balanced, in place: `owner` of every partition and `load` of every member."""

    __slots__ = (
        "former",
        "kind_of_topic",
        "kind_starts",
        "layout",
        "load",
        "members_by_kind",
        "movements",
        "owner",
        "subscribers",
        "topics",
    )

    def __init__(
        self,
        layout: GroupLayout,
        owner: IntArray,
        load: IntArray,
        former: IntArray,
        order: Sequence[int],
        subscribers: Sequence[IntArray],
    ) -> None:
        self.layout = layout
        self.owner = owner
        self.load = load
        self.former = former
        self.subscribers = subscribers
        self.movements = PartitionMovements(layout)
        # A topic with one possible member cannot change hands.
        self.topics = [topic for topic in order if len(subscribers[topic]) > 1]
        # Topics share arrays of members (`Layout.subscribers`): the distinct ones, one after the other.
        kinds = {id(subscribers[topic]): subscribers[topic] for topic in self.topics}
        number = {key: at for at, key in enumerate(kinds)}
        self.kind_of_topic = np.array([number[id(subscribers[topic])] for topic in self.topics], dtype=np.int64)
        self.members_by_kind = np.concatenate([np.zeros(0, np.int64), *kinds.values()])
        self.kind_starts = np.cumsum([0, *map(len, kinds.values())])[:-1]

    def members(self) -> IntArray:
        """The members that take part: those that share a topic with somebody."""
        return np.unique(self.members_by_kind)

    def improve(self, among: BoolArray | None) -> bool:
        """Move partitions (of those `among`, or all) until no move helps; say whether any moved."""
        moved = False
        while self.topics and self._pass(among):
            moved = True
        return moved

    def _pass(self, among: BoolArray | None) -> bool:
        """Go once through the partitions; say whether any moved."""
        first = self.layout.first
        moved = stale = False
        uneven = self._uneven()
        for at, topic in enumerate(self.topics):
            if stale and len(self.owner) <= _CHEAP_TO_LOOK_AT:
                uneven, stale = self._uneven(), False
            if (stale or uneven[at]) and self._even_out(topic, int(first[topic]), int(first[topic + 1]), among):
                moved = stale = True
        return moved

    def _uneven(self) -> list[bool]:
        """For every topic whether a partition of it may move."""
        lowest = np.minimum.reduceat(self.load[self.members_by_kind], self.kind_starts)[self.kind_of_topic]
        highest = np.maximum.reduceat(self.load[self.owner], self.layout.first[:-1])[self.topics]
        found: list[bool] = (highest > lowest + 1).tolist()
        return found

    def _even_out(self, topic: int, start: int, end: int, among: BoolArray | None) -> bool:
        """Go once through the partitions of a topic; say whether any moved."""
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
                taker = self._former_owner(members, partition, owner)
                if taker == UNASSIGNED:
                    taker = least
                actual = self.movements.instead_of(topic, partition, owner, taker)
                giver = int(owner_of[actual])
                self.movements.record(topic, actual, giver, taker)
                owner_of[actual] = taker
                load[giver] -= 1
                load[taker] += 1
                moved = True
                usual = taker == least and giver == owner
                least = int(members[load[members].argmin()])
                if not usual:
                    # A move from this partition's owner to the least loaded makes no new candidates. Any other may:
                    # look again at what follows.
                    start = partition + 1
                    break
        return moved

    def _former_owner(self, members: IntArray, partition: int, owner: int) -> int:
        """The member that had the partition in an earlier generation, if giving it back helps; else UNASSIGNED."""
        former = int(self.former[partition])
        if former == UNASSIGNED or self.load[owner] <= self.load[former] + 1:
            return UNASSIGNED
        at = int(np.searchsorted(members, former))
        return former if at < len(members) and members[at] == former else UNASSIGNED


def balance_score(loads: IntArray) -> int:
    """The sum of the differences in load between any two members; the lower, the more balanced."""
    ascending = np.sort(loads)
    return int(ascending @ (2 * np.arange(len(loads)) - len(loads) + 1))
