"""Sticky assignment when all members subscribe to the same topics.

Rules kept here
- Everybody gets floor(P/C) partitions, and P % C members one more (SK-01).
- What a member owned it keeps, up to its quota, lowest partition first and then by topic; the rest is freed (SK-02).
- Which of several full members keep the odd one is decided in the Java client's order (`java_order.py`, SK-04).
- Free partitions, by topic and partition, go round and round over the members below quota in id order, then one each
  to members at it.
- With racks, what is owned outside the member's rack is freed too, and free partitions go first where a rack matches,
  those with the fewest candidates before the others.
"""

from bisect import bisect_left
from collections import deque

import numpy as np

from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout, stable_order
from slackwater.group.assignors.partitions import BoolArray, IntArray
from slackwater.group.assignors.racks import RackTable
from slackwater.group.java_order import hash_map_order


class ConstrainedAssignmentBuilder:
    """One assignment in the making; members are numbered in id order."""

    __slots__ = ("at_quota", "below_quota", "held", "layout", "odd_ones_left", "owner", "quota", "racks")

    def __init__(self, layout: GroupLayout, owner: IntArray, racks: RackTable | None) -> None:
        """`owner` says who owned each partition; `build` turns it into who gets it."""
        self.layout = layout
        self.owner = owner
        self.racks = racks
        self.quota, self.odd_ones_left = divmod(layout.partition_count, len(layout.member_ids))
        self.held: IntArray
        self.below_quota: IntArray
        self.at_quota: list[int]  # those that may still get one of the odd ones

    def build(self) -> IntArray:
        """Keep what can be kept, then hand out the rest."""
        self._keep()
        free = np.flatnonzero(self.owner == UNASSIGNED)
        if self.racks is not None:
            free = self._fill_in_racks(free, self.racks)
        self._fill(free)
        return self.owner

    def _keep(self) -> None:
        if self.racks is not None:
            self.owner[self.racks.mismatch(self.owner)] = UNASSIGNED
        members = len(self.layout.member_ids)
        self.held = np.bincount(self.owner + 1, minlength=members + 1)[1:]
        keep_odd = self._keepers_of_odd_ones(self.held > self.quota)
        self.odd_ones_left -= len(keep_odd)
        limit = np.full(members, self.quota)
        limit[keep_odd] += 1
        self._free_excess(limit)
        self.held = np.minimum(self.held, limit)
        self.below_quota = np.flatnonzero(self.held < self.quota)
        self.at_quota = np.flatnonzero(self.held == self.quota).tolist() if self.odd_ones_left else []

    def _keepers_of_odd_ones(self, could: BoolArray) -> list[int]:
        """The members, of those that own enough, that keep one partition more than the others."""
        found: list[int] = np.flatnonzero(could).tolist()
        if len(found) <= self.odd_ones_left or not self.odd_ones_left:
            return found if self.odd_ones_left else []
        number = {self.layout.member_ids[at]: at for at in found}
        in_order = (number[one] for one in hash_map_order(self.layout.member_ids) if one in number)
        return [next(in_order) for _ in range(self.odd_ones_left)]

    def _free_excess(self, limit: IntArray) -> None:
        too_many = np.append(self.held > limit, False)  # the last is UNASSIGNED's
        partition = np.flatnonzero(too_many[self.owner])
        if not len(partition):
            return
        member = self.owner[partition]
        topic = self.layout.topic_of[partition]
        order = np.lexsort((topic, partition - self.layout.first[topic], member))
        partition, member = partition[order], member[order]
        self.owner[partition[place_in_run(member) >= limit[member]]] = UNASSIGNED

    def _fill(self, free: IntArray) -> None:
        """Round and round over the members below quota, then one each to members at it."""
        need = self.quota - self.held[self.below_quota]
        turns = np.repeat(self.below_quota, need)
        turns = turns[stable_order(place_in_run(turns))]
        self.owner[free[: len(turns)]] = turns
        odd = free[len(turns) :]
        if len(odd):
            # Members reach their quota in the order in which their last turn came.
            filled = self.below_quota[np.argsort(need, kind="stable")]
            self.owner[odd] = np.concatenate((np.array(self.at_quota, dtype=np.int64), filled))[: len(odd)]

    def _fill_in_racks(self, free: IntArray, racks: RackTable) -> IntArray:
        """Give what can go to a member in one of its racks; return what cannot, still in order."""
        free = free[np.argsort(racks.candidates()[free], kind="stable")]
        places = racks.place[free].tolist()
        rack_of: list[int] = racks.of_member.tolist()
        held: list[int] = self.held.tolist()
        below: dict[int, list[int]] = {rack: [] for rack in rack_of}
        for member in self.below_quota.tolist():
            below[rack_of[member]].append(member)
        # Members at quota wait in one queue; seen from a rack it is the queue of those in the rack.
        waiting: dict[int, deque[tuple[int, int]]] = {rack: deque() for rack in rack_of}
        for at, member in enumerate(self.at_quota):
            waiting[rack_of[member]].append((at, member))
        queued = len(self.at_quota)
        past_all = len(rack_of)
        turn = 0
        given: list[int] = []
        for place in places:
            chosen = past_all * 2
            for rack in racks.racks_of_place[place]:
                if candidates := below[rack]:
                    at = bisect_left(candidates, turn)
                    # Past the last one the turn comes round to the first.
                    chosen = min(chosen, candidates[at] if at < len(candidates) else candidates[0] + past_all)
            if chosen < past_all * 2:
                chosen %= past_all
                turn = chosen + 1
                held[chosen] += 1
                if held[chosen] >= self.quota:
                    rack = rack_of[chosen]
                    del below[rack][bisect_left(below[rack], chosen)]
                    if self.odd_ones_left:
                        waiting[rack].append((queued, chosen))
                        queued += 1
                given.append(chosen)
                continue
            heads = [waiting[rack][0] + (rack,) for rack in racks.racks_of_place[place] if waiting[rack]]
            if heads and self.odd_ones_left:
                _, chosen, rack = min(heads)
                waiting[rack].popleft()
                self.odd_ones_left -= 1
                given.append(chosen)
            else:
                given.append(UNASSIGNED)
        got = np.array(given, dtype=np.int64)
        self.owner[free] = got
        self.held = np.bincount(self.owner + 1, minlength=past_all + 1)[1:]
        self.below_quota = np.array(sorted(member for rack in below.values() for member in rack), dtype=np.int64)
        in_queue = sorted(one for rack in waiting.values() for one in rack) if self.odd_ones_left else []
        self.at_quota = [member for _, member in in_queue]
        left: IntArray = free[got == UNASSIGNED]
        return left


def place_in_run(values: IntArray) -> IntArray:
    """For every element how many equal ones stand right before it."""
    starts = np.flatnonzero(np.diff(values, prepend=UNASSIGNED))
    return np.arange(len(values)) - np.repeat(starts, np.diff(starts, append=len(values)))
