"""Sticky assignment when members subscribe to different topics.

Rules kept here
- What a member owned it keeps, unless it no longer subscribes to the topic.
- Free partitions: topics with the fewest possible members first; each goes to the possible member with the least
  load, ties by id (SK-08).
- Then the result is balanced (`balance.py`). If nothing had to be revoked, partitions that were free before move
  first (SK-09). A reshuffle that did not improve the balance is undone (SK-08).
- With racks, what is owned outside the member's rack is freed first, and free partitions go where a rack matches
  before the others go anywhere.
"""

from collections.abc import Iterator
from heapq import heapify, heapreplace
from itertools import groupby
from typing import Final

import numpy as np

from slackwater.group.assignors.balance import PartitionBalancer, balance_score
from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout, stable_order
from slackwater.group.assignors.partitions import IntArray
from slackwater.group.assignors.racks import NO_RACK, RackTable

_FEW: Final = 24  # partitions; so few are handed out one by one sooner than all at once


class GeneralAssignmentBuilder:
    """One assignment in the making; members are numbered in id order."""

    __slots__ = ("former", "layout", "load", "order", "owner", "racks", "subscribed", "subscribers")

    def __init__(self, layout: GroupLayout, owner: IntArray, former: IntArray, racks: RackTable | None) -> None:
        """`owner` says who owned each partition, `former` who had it in an earlier generation."""
        self.layout = layout
        self.owner = owner
        self.former = former
        self.racks = racks
        self.subscribed = layout.subscribed()
        self.subscribers = layout.subscribers(self.subscribed)
        # Topics are numbered by name, so a stable sort leaves equals in name order.
        self.order: list[int] = sorted(range(len(layout.topics)), key=lambda topic: len(self.subscribers[topic]))
        self.load: IntArray

    def build(self) -> IntArray:
        """Keep what can be kept, hand out the rest, then balance."""
        revoked = self._drop()
        self.load = np.bincount(self.owner + 1, minlength=len(self.layout.member_ids) + 1)[1:]
        fresh = not self.load.any()
        free = self.owner == UNASSIGNED
        if self.racks is not None:
            self._hand_out_in_racks(self.racks)
        self._hand_out()
        if self.load.max() <= self.load.min() + 1:
            return self.owner

        balance = PartitionBalancer(self.layout, self.owner, self.load, self.former, self.order, self.subscribers)
        before, load_before = self.owner.copy(), self.load.copy()
        if not revoked:
            balance.improve(free)
        moved = balance.improve(None)
        members = balance.members()
        if moved and not fresh and balance_score(self.load[members]) >= balance_score(load_before[members]):
            return before
        return self.owner

    def _drop(self) -> bool:
        """Free what its owner may not or should not keep; say whether there was such a thing."""
        kind = np.append(self.layout.member_kind, UNASSIGNED)[self.owner]
        dropped = (self.owner != UNASSIGNED) & ~self.subscribed[kind, self.layout.topic_of]
        if self.racks is not None:
            dropped |= self.racks.mismatch(self.owner)
        self.owner[dropped] = UNASSIGNED
        return bool(dropped.any())

    def _free_by_subscribers(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Possible members and free partitions, in the order in which they are served.

        Topics with the same possible members that follow each other are served as one.
        """
        free = (self.owner == UNASSIGNED).nonzero()[0]
        rank = np.empty(len(self.order), np.int64)
        rank[self.order] = np.arange(len(self.order))
        free = free[stable_order(rank[self.layout.topic_of[free]])]
        topics = self.layout.topic_of[free]
        starts = np.diff(topics, prepend=-1).nonzero()[0]
        stretches = zip(topics[starts].tolist(), np.diff(starts, append=len(free)).tolist(), strict=True)
        start = 0
        for _, alike in groupby(stretches, key=lambda stretch: id(self.subscribers[stretch[0]])):
            served = list(alike)
            end = start + sum(count for _, count in served)
            yield self.subscribers[served[0][0]], free[start:end]
            start = end

    def _hand_out(self) -> None:
        for members, free in self._free_by_subscribers():
            loads = self.load[members]
            if len(free) <= _FEW:
                takers = []
                for _ in range(len(free)):
                    taker = loads.argmin()
                    loads[taker] += 1
                    takers.append(taker)
                self.owner[free] = members[takers]
            else:
                dealt = least_loaded(loads, len(free))
                loads += np.bincount(dealt, minlength=len(members))
                self.owner[free] = members[dealt]
            self.load[members] = loads

    def _hand_out_in_racks(self, racks: RackTable) -> None:
        rack_of: list[int] = racks.of_member.tolist()
        for members, free in self._free_by_subscribers():
            queues: dict[int, list[tuple[int, int]]] = {}
            for load, member in zip(self.load[members].tolist(), members.tolist(), strict=True):
                queues.setdefault(rack_of[member], []).append((load, member))
            for queue in queues.values():
                heapify(queue)
            for partition, place in zip(free.tolist(), racks.place[free].tolist(), strict=True):
                near = [queues[rack] for rack in (*racks.racks_of_place[place], NO_RACK) if rack in queues]
                if near:
                    queue = min(near, key=_head)
                    load, member = queue[0]
                    heapreplace(queue, (load + 1, member))
                    self.owner[partition] = member
                    self.load[member] = load + 1


def _head(queue: list[tuple[int, int]]) -> tuple[int, int]:
    return queue[0]


def least_loaded(loads: IntArray, count: int) -> IntArray:
    """Who takes `count` partitions one after the other, each time the first of those with the least load."""
    # Whoever has load n is there to be taken at the levels n, n + 1, …; the takers are the first of all those places
    # by level. First, the level that is not exceeded:
    ascending = np.sort(loads)
    before = np.cumsum(ascending) - ascending
    reached = int(np.searchsorted(ascending * np.arange(len(loads)) - before, count))
    level = -(-(count + int(ascending[:reached].sum())) // reached)
    places = np.maximum(level - loads, 0)
    takers = np.repeat(np.arange(len(loads)), places)
    first = np.cumsum(places) - places
    levels = np.arange(len(takers)) + np.repeat(loads - first, places)
    return takers[stable_order(levels - ascending[0])][:count]
