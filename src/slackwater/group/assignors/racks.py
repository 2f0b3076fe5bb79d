"""Racks: when they matter at all, and who is near which partition.

Rules kept here
- Racks are matched only if some member's rack holds some replica, and not every partition is in every rack that
  replicas are in (RA-03): otherwise any assignment is as good as any other.
- An empty rack name is no rack.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

import numpy as np

from slackwater.group.assignors.assignor import MemberSubscription
from slackwater.group.assignors.layout import GroupLayout
from slackwater.group.assignors.partitions import BoolArray, IntArray

NO_RACK: Final = -1


def racks_matter(member_racks: Set[str], replica_racks: Iterable[frozenset[str]]) -> bool:
    """Whether matching racks can change anything for these members and partitions."""
    distinct = set(replica_racks)
    everywhere = frozenset[str]().union(*distinct)
    return not member_racks.isdisjoint(everywhere) and distinct != {everywhere}


class RackTable:
    """Which members and which partitions are in which of the members' racks.

    Partitions that are in the same racks share a place; there are few places, however many partitions.
    """

    __slots__ = ("of_member", "place", "racks_of_place", "table")

    def __init__(self, of_member: IntArray, place: IntArray, racks_of_place: Sequence[Sequence[int]]) -> None:
        self.of_member = of_member
        self.place = place
        self.racks_of_place = racks_of_place
        # The last column is for members without a rack, who are at home everywhere.
        self.table = np.zeros((len(racks_of_place), int(of_member.max()) + 2), np.bool_)
        self.table[:, NO_RACK] = True
        for at, racks in enumerate(racks_of_place):
            self.table[at, racks] = True

    @classmethod
    def of(cls, layout: GroupLayout, members: Mapping[str, MemberSubscription]) -> "RackTable | None":
        """The racks of a group, or None where they do not matter."""
        names = [members[member_id].subscription.rack_id or None for member_id in layout.member_ids]
        distinct = {name for name in names if name is not None}
        if not distinct:
            return None
        places: dict[frozenset[str], int] = {}
        place: list[int] = []
        for topic in layout.topics:
            info = layout.cluster[topic]
            for racks in info.racks or (frozenset[str](),) * info.partitions:
                place.append(places.setdefault(racks, len(places)))
        if not racks_matter(distinct, places):
            return None
        number = {name: at for at, name in enumerate(sorted(distinct))}
        of_member = np.array([NO_RACK if name is None else number[name] for name in names], dtype=np.int64)
        racks_of_place = [sorted(number[rack] for rack in racks if rack in number) for racks in places]
        return cls(of_member, np.array(place, dtype=np.int64), racks_of_place)

    def mismatch(self, owner: IntArray) -> BoolArray:
        """For every partition whether its owner has a rack and no replica is in it."""
        rack = np.append(self.of_member, NO_RACK)[owner]  # UNASSIGNED is the last, and has no rack
        near: BoolArray = self.table[self.place, rack]
        return ~near

    def candidates(self) -> IntArray:
        """For every partition how many members are in a rack of its replicas."""
        inhabitants = np.bincount(self.of_member[self.of_member != NO_RACK], minlength=self.table.shape[1])
        inhabitants[NO_RACK] = 0
        return (self.table @ inhabitants)[self.place]
