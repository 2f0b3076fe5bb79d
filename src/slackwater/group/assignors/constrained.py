"""Sticky assignment when all members subscribe to the same topics.

Invariants:
- Every member gets floor(P/C) partitions, and P % C members one more (SK-01).
- A member keeps its partitions up to its quota, lowest partition number first, then by topic; the rest is freed
  (SK-02).
- If several members could keep an extra partition, the Java client's order decides (`java_order.py`, SK-04).
- Free partitions, by topic and partition, go round-robin to the members below quota in id order, then one each to
  members at quota.
- With racks, partitions outside the owner's rack are freed too, and free partitions are first assigned within racks,
  those with the fewest candidates first.
"""

from bisect import bisect_left
from collections import deque

import numpy as np

from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout, stable_order
from slackwater.group.assignors.partitions import BoolArray, IntArray
from slackwater.group.assignors.racks import RackTable
from slackwater.group.java_order import hash_map_order


class ConstrainedAssignmentBuilder:
    """Builds one assignment; members are numbered in id order."""

    __slots__ = ("at_quota", "below_quota", "extra_left", "held", "layout", "owner", "quota", "racks")

    def __init__(self, layout: GroupLayout, owner: IntArray, racks: RackTable | None) -> None:
        """`owner` is the previous owner of each partition; `build` turns it into the new owner."""
        self.layout = layout
        self.owner = owner
        self.racks = racks
        self.quota, self.extra_left = divmod(layout.partition_count, len(layout.member_ids))
        self.held: IntArray
        self.below_quota: IntArray
        self.at_quota: list[int]  # members that may still get an extra partition

    def build(self) -> IntArray:
        """Keep as many partitions as possible, then assign the rest."""
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
        keepers = self._keepers_of_extra(self.held > self.quota)
        self.extra_left -= len(keepers)
        limit = np.full(members, self.quota)
        limit[keepers] += 1
        self._free_excess(limit)
        self.held = np.minimum(self.held, limit)
        self.below_quota = np.flatnonzero(self.held < self.quota)
        self.at_quota = np.flatnonzero(self.held == self.quota).tolist() if self.extra_left else []

    def _keepers_of_extra(self, is_candidate: BoolArray) -> list[int]:
        """The members, among those with enough partitions, that keep an extra one."""
        candidates: list[int] = np.flatnonzero(is_candidate).tolist()
        if len(candidates) <= self.extra_left or not self.extra_left:
            return candidates if self.extra_left else []
        number = {self.layout.member_ids[index]: index for index in candidates}
        in_order = (number[member_id] for member_id in hash_map_order(self.layout.member_ids) if member_id in number)
        return [next(in_order) for _ in range(self.extra_left)]

    def _free_excess(self, limit: IntArray) -> None:
        too_many = np.append(self.held > limit, False)  # the last entry is for UNASSIGNED
        partition = np.flatnonzero(too_many[self.owner])
        if not len(partition):
            return
        member = self.owner[partition]
        topic = self.layout.topic_of[partition]
        order = np.lexsort((topic, partition - self.layout.first[topic], member))
        partition, member = partition[order], member[order]
        self.owner[partition[index_in_run(member) >= limit[member]]] = UNASSIGNED

    def _fill(self, free: IntArray) -> None:
        """Assign round-robin to the members below quota, then one each to members at quota."""
        need = self.quota - self.held[self.below_quota]
        turns = np.repeat(self.below_quota, need)
        turns = turns[stable_order(index_in_run(turns))]
        self.owner[free[: len(turns)]] = turns
        extra = free[len(turns) :]
        if len(extra):
            # Members reach their quota in the order in which their last turn came.
            filled = self.below_quota[np.argsort(need, kind="stable")]
            self.owner[extra] = np.concatenate((np.array(self.at_quota, dtype=np.int64), filled))[: len(extra)]

    def _fill_in_racks(self, free: IntArray, racks: RackTable) -> IntArray:
        """Assign partitions to members in one of their racks; returns the remaining partitions in order."""
        free = free[np.argsort(racks.candidates()[free], kind="stable")]
        placements = racks.placement[free].tolist()
        rack_of: list[int] = racks.of_member.tolist()
        held: list[int] = self.held.tolist()
        below: dict[int, list[int]] = {rack: [] for rack in rack_of}
        for member in self.below_quota.tolist():
            below[rack_of[member]].append(member)
        # Members at quota form one queue, stored per rack with their queue position.
        waiting: dict[int, deque[tuple[int, int]]] = {rack: deque() for rack in rack_of}
        for index, member in enumerate(self.at_quota):
            waiting[rack_of[member]].append((index, member))
        queued = len(self.at_quota)
        member_count = len(rack_of)
        turn = 0
        chosen_members: list[int] = []
        for placement in placements:
            chosen = member_count * 2
            for rack in racks.racks_of_placement[placement]:
                if candidates := below[rack]:
                    index = bisect_left(candidates, turn)
                    # After the last candidate the turn wraps to the first.
                    chosen = min(chosen, candidates[index] if index < len(candidates) else candidates[0] + member_count)
            if chosen < member_count * 2:
                chosen %= member_count
                turn = chosen + 1
                held[chosen] += 1
                if held[chosen] >= self.quota:
                    rack = rack_of[chosen]
                    del below[rack][bisect_left(below[rack], chosen)]
                    if self.extra_left:
                        waiting[rack].append((queued, chosen))
                        queued += 1
                chosen_members.append(chosen)
                continue
            heads = [waiting[rack][0] + (rack,) for rack in racks.racks_of_placement[placement] if waiting[rack]]
            if heads and self.extra_left:
                _, chosen, rack = min(heads)
                waiting[rack].popleft()
                self.extra_left -= 1
                chosen_members.append(chosen)
            else:
                chosen_members.append(UNASSIGNED)
        chosen_array = np.array(chosen_members, dtype=np.int64)
        self.owner[free] = chosen_array
        self.held = np.bincount(self.owner + 1, minlength=member_count + 1)[1:]
        self.below_quota = np.array(sorted(member for rack in below.values() for member in rack), dtype=np.int64)
        queue = sorted(entry for entries in waiting.values() for entry in entries) if self.extra_left else []
        self.at_quota = [member for _, member in queue]
        remaining: IntArray = free[chosen_array == UNASSIGNED]
        return remaining


def index_in_run(values: IntArray) -> IntArray:
    """For every element, its index among equal neighbours."""
    starts = np.flatnonzero(np.diff(values, prepend=UNASSIGNED))
    return np.arange(len(values)) - np.repeat(starts, np.diff(starts, append=len(values)))
