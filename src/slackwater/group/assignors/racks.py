"""Rack matching: whether racks matter, and which members share a rack with a partition's replicas.

Invariants:
- Racks matter only if some member's rack contains a replica, and not every partition has replicas in all racks (RA-03).
- An empty rack name means no rack.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

import numpy as np

from slackwater.group.assignors.assignor import MemberSubscription
from slackwater.group.assignors.layout import GroupLayout
from slackwater.group.assignors.partitions import BoolArray, IntArray

NO_RACK: Final = -1


def racks_matter(member_racks: Set[str], replica_racks: Iterable[frozenset[str]]) -> bool:
    """Whether matching racks can change the assignment of these partitions to these members."""
    distinct = set(replica_racks)
    all_racks = frozenset[str]().union(*distinct)
    return not member_racks.isdisjoint(all_racks) and distinct != {all_racks}


class RackTable:
    """The racks of members and partitions.

    Partitions with the same racks share a placement; there are few placements for any number of partitions.
    """

    __slots__ = ("of_member", "placement", "racks_of_placement", "table")

    def __init__(self, of_member: IntArray, placement: IntArray, racks_of_placement: Sequence[Sequence[int]]) -> None:
        self.of_member = of_member
        self.placement = placement
        self.racks_of_placement = racks_of_placement
        # The last column is for members without a rack, which match every partition.
        self.table = np.zeros((len(racks_of_placement), int(of_member.max()) + 2), np.bool_)
        self.table[:, NO_RACK] = True
        for index, racks in enumerate(racks_of_placement):
            self.table[index, racks] = True

    @classmethod
    def of(cls, layout: GroupLayout, members: Mapping[str, MemberSubscription]) -> "RackTable | None":
        """The rack table of a group, or None if racks do not matter."""
        names = [members[member_id].subscription.rack_id or None for member_id in layout.member_ids]
        distinct = {name for name in names if name is not None}
        if not distinct:
            return None
        placements: dict[frozenset[str], int] = {}
        placement: list[int] = []
        for topic in layout.topics:
            info = layout.cluster[topic]
            for racks in info.racks or (frozenset[str](),) * info.partitions:
                placement.append(placements.setdefault(racks, len(placements)))
        if not racks_matter(distinct, placements):
            return None
        number = {name: index for index, name in enumerate(sorted(distinct))}
        of_member = np.array([NO_RACK if name is None else number[name] for name in names], dtype=np.int64)
        racks_of_placement = [sorted(number[rack] for rack in racks if rack in number) for racks in placements]
        return cls(of_member, np.array(placement, dtype=np.int64), racks_of_placement)

    def mismatch(self, owner: IntArray) -> BoolArray:
        """For every partition, whether its owner has a rack without a replica."""
        rack = np.append(self.of_member, NO_RACK)[owner]  # UNASSIGNED selects the last entry, which has no rack
        is_near: BoolArray = self.table[self.placement, rack]
        return ~is_near

    def candidates(self) -> IntArray:
        """For every partition, the number of members in a rack of its replicas."""
        members_per_rack = np.bincount(self.of_member[self.of_member != NO_RACK], minlength=self.table.shape[1])
        members_per_rack[NO_RACK] = 0
        return (self.table @ members_per_rack)[self.placement]
