"""Sticky assignment when members subscribe to different topics.

Invariants:
- A member keeps its partitions unless it no longer subscribes to the topic.
- Free partitions: topics with the fewest subscribers first; each goes to the least loaded subscriber, ties by id
  (SK-08).
- Then the result is balanced (`balance.py`). If nothing was revoked, partitions that were free move first (SK-09). A
  reassignment that does not improve the balance is undone (SK-08).
- With racks, partitions outside the owner's rack are freed first, and free partitions are assigned within racks before
  the rest.
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

_MAX_LOOP_PARTITIONS: Final = 24  # partitions; up to this many, a loop is faster than array operations


class GeneralAssignmentBuilder:
    """Builds one assignment; members are numbered in id order."""

    __slots__ = ("layout", "load", "older_owner", "order", "owner", "racks", "subscribed", "subscribers")

    def __init__(self, layout: GroupLayout, owner: IntArray, older_owner: IntArray, racks: RackTable | None) -> None:
        """`owner` is the previous owner of each partition, `older_owner` the owner in an earlier generation."""
        self.layout = layout
        self.owner = owner
        self.older_owner = older_owner
        self.racks = racks
        self.subscribed = layout.subscribed()
        self.subscribers = layout.subscribers(self.subscribed)
        # Topics are numbered by name, so a stable sort keeps ties in name order.
        self.order: list[int] = sorted(range(len(layout.topics)), key=lambda topic: len(self.subscribers[topic]))
        self.load: IntArray

    def build(self) -> IntArray:
        """Keep as many partitions as possible, assign the rest, then balance."""
        revoked = self._drop()
        self.load = np.bincount(self.owner + 1, minlength=len(self.layout.member_ids) + 1)[1:]
        fresh = not self.load.any()
        free = self.owner == UNASSIGNED
        if self.racks is not None:
            self._assign_free_in_racks(self.racks)
        self._assign_free()
        if self.load.max() <= self.load.min() + 1:
            return self.owner

        balance = PartitionBalancer(self.layout, self.owner, self.load, self.older_owner, self.order, self.subscribers)
        before, load_before = self.owner.copy(), self.load.copy()
        if not revoked:
            balance.improve(free)
        moved = balance.improve(None)
        members = balance.members()
        if moved and not fresh and balance_score(self.load[members]) >= balance_score(load_before[members]):
            return before
        return self.owner

    def _drop(self) -> bool:
        """Free partitions that their owner must not keep; returns whether there were any."""
        kind = np.append(self.layout.member_kind, UNASSIGNED)[self.owner]
        dropped = (self.owner != UNASSIGNED) & ~self.subscribed[kind, self.layout.topic_of]
        if self.racks is not None:
            dropped |= self.racks.mismatch(self.owner)
        self.owner[dropped] = UNASSIGNED
        return bool(dropped.any())

    def _free_by_subscribers(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Subscribers and free partitions, in the order of assignment.

        Consecutive topics with the same subscribers are combined.
        """
        free = (self.owner == UNASSIGNED).nonzero()[0]
        rank = np.empty(len(self.order), np.int64)
        rank[self.order] = np.arange(len(self.order))
        free = free[stable_order(rank[self.layout.topic_of[free]])]
        topics = self.layout.topic_of[free]
        starts = np.diff(topics, prepend=-1).nonzero()[0]
        stretches = zip(topics[starts].tolist(), np.diff(starts, append=len(free)).tolist(), strict=True)
        start = 0
        for _, group in groupby(stretches, key=lambda stretch: id(self.subscribers[stretch[0]])):
            served = list(group)
            end = start + sum(count for _, count in served)
            yield self.subscribers[served[0][0]], free[start:end]
            start = end

    def _assign_free(self) -> None:
        for members, free in self._free_by_subscribers():
            loads = self.load[members]
            if len(free) <= _MAX_LOOP_PARTITIONS:
                takers = []
                for _ in range(len(free)):
                    to_member = loads.argmin()
                    loads[to_member] += 1
                    takers.append(to_member)
                self.owner[free] = members[takers]
            else:
                dealt = least_loaded(loads, len(free))
                loads += np.bincount(dealt, minlength=len(members))
                self.owner[free] = members[dealt]
            self.load[members] = loads

    def _assign_free_in_racks(self, racks: RackTable) -> None:
        rack_of: list[int] = racks.of_member.tolist()
        for members, free in self._free_by_subscribers():
            queues: dict[int, list[tuple[int, int]]] = {}
            for load, member in zip(self.load[members].tolist(), members.tolist(), strict=True):
                queues.setdefault(rack_of[member], []).append((load, member))
            for queue in queues.values():
                heapify(queue)
            for partition, placement in zip(free.tolist(), racks.placement[free].tolist(), strict=True):
                nearby = [queues[rack] for rack in (*racks.racks_of_placement[placement], NO_RACK) if rack in queues]
                if nearby:
                    queue = min(nearby, key=_head)
                    load, member = queue[0]
                    heapreplace(queue, (load + 1, member))
                    self.owner[partition] = member
                    self.load[member] = load + 1


def _head(queue: list[tuple[int, int]]) -> tuple[int, int]:
    return queue[0]


def least_loaded(loads: IntArray, count: int) -> IntArray:
    """The members that get `count` partitions, each time the first of the least loaded."""
    # A member with load n can take a partition at the levels n, n + 1, …; the result is the first `count` of those by
    # level. First, the level that is not exceeded:
    ascending = np.sort(loads)
    before = np.cumsum(ascending) - ascending
    reached = int(np.searchsorted(ascending * np.arange(len(loads)) - before, count))
    level = -(-(count + int(ascending[:reached].sum())) // reached)
    slots = np.maximum(level - loads, 0)
    takers = np.repeat(np.arange(len(loads)), slots)
    first = np.cumsum(slots) - slots
    levels = np.arange(len(takers)) + np.repeat(loads - first, slots)
    return takers[stable_order(levels - ascending[0])][:count]
