"""The range assignor: every topic cut into contiguous ranges, one per member.

Rules kept here
- Per topic each member gets n/m partitions, the first n%m members one more (RA-01). Members in the order of AS-01.
- Racks are looked at only where they can matter: members' and replicas' racks overlap, and partitions differ in the
  racks they are in (RA-03). Balance comes before racks.
- Topics with the same members and the same number of partitions stay co-partitioned: partition i of all of them goes
  to one member, racks or not (RA-04).
"""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import ClassVar

import numpy as np

from slackwater.group.assignors.assignor import Assignor, MemberSubscription, TopicInfo
from slackwater.group.assignors.consumer_protocol import Assignment
from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout
from slackwater.group.assignors.member_order import in_member_order
from slackwater.group.assignors.partitions import IntArray
from slackwater.group.assignors.racks import racks_matter


class RangeAssignor(Assignor):
    """Java's `RangeAssignor`."""

    name: ClassVar[str] = "range"
    built_in: ClassVar[bool] = True

    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        """Cut every topic into ranges."""
        layout = GroupLayout(cluster, members, in_member_order(members))
        racks = [members[member_id].subscription.rack_id or None for member_id in layout.member_ids]
        subscribers = layout.subscribers(layout.subscribed())
        owner = np.empty(layout.partition_count, np.int64)
        if any(racks):
            topics = [
                _TopicInRacks(cluster[name], subscribers[topic], racks) for topic, name in enumerate(layout.topics)
            ]
            if any(topic.racks_matter for topic in topics):
                _match_racks(topics)
                for topic in topics:
                    topic.cut(in_racks=False)
                owners = [topic.owner for topic in topics]
                return layout.assignments(np.array([member for one in owners for member in one], dtype=np.int64))
        for topic_at, who in enumerate(subscribers):
            start, end = layout.first[topic_at], layout.first[topic_at + 1]
            each, more = divmod(int(end - start), len(who))
            owner[start:end] = np.repeat(who, each + (np.arange(len(who)) < more))
        return layout.assignments(owner)


class _TopicInRacks:
    """One topic while racks are being matched: who may still get how many, and what is still free."""

    def __init__(self, info: TopicInfo, members: IntArray, racks: list[str | None]) -> None:
        self.members: list[int] = members.tolist()
        self.rack = {member: racks[member] for member in self.members}
        self.owner = [UNASSIGNED] * info.partitions
        self.replica_racks = info.racks or (frozenset[str](),) * info.partitions
        self.racks_matter = racks_matter({rack for rack in self.rack.values() if rack}, self.replica_racks)
        self.held = dict.fromkeys(self.members, 0)
        self.each, self.members_with_one_more = divmod(info.partitions, len(self.members))

    def room(self, member: int) -> int:
        """How many more partitions this member may get."""
        return max(0, self.each + (self.members_with_one_more > 0) - self.held[member])

    def give(self, member: int, partitions: list[int]) -> None:
        for partition in partitions:
            self.owner[partition] = member
        self.held[member] += len(partitions)
        if self.held[member] > self.each:
            self.members_with_one_more -= 1

    def cut(self, *, in_racks: bool) -> None:
        """Give every member, in order, the first free partitions, or the first free ones in its rack."""
        # One walk per rack: what was passed over is taken or elsewhere, and stays so.
        walks: dict[str | None, Iterator[int]] = {}
        for member in self.members:
            rack = self.rack[member] if in_racks else None
            walk = walks.setdefault(rack, self.free(rack))
            if given := list(islice(walk, self.room(member))):
                self.give(member, given)

    def free(self, rack: str | None) -> Iterator[int]:
        """The partitions that nobody has when the walk comes to them, in this rack or in all."""
        return (
            partition
            for partition, racks in enumerate(self.replica_racks)
            if (rack is None or rack in racks) and self.owner[partition] == UNASSIGNED
        )


def _match_racks(topics: list[_TopicInRacks]) -> None:
    groups: dict[tuple[tuple[int, ...], int], list[_TopicInRacks]] = {}
    for topic in topics:
        groups.setdefault((tuple(topic.members), len(topic.owner)), []).append(topic)
    for group in groups.values():
        if len(group) > 1:
            _match_co_partitioned(group)
        elif group[0].racks_matter:
            group[0].cut(in_racks=True)


def _match_co_partitioned(topics: list[_TopicInRacks]) -> None:
    """Partition i of all topics to the first member with room that is in a rack of each of them (RA-04)."""
    alike = topics[0]  # all of them give the same members the same numbers, so one stands for all
    queues: dict[str | None, deque[int]] = {}
    for member in alike.members:
        queues.setdefault(alike.rack[member], deque()).append(member)
    for partition in range(len(alike.owner)):
        common = frozenset.intersection(*(topic.replica_racks[partition] for topic in topics))
        first: list[int] = []
        for rack in (*common, None):  # a member without a rack is at home everywhere
            queue = queues.get(rack, deque())
            while queue and not alike.room(queue[0]):
                queue.popleft()  # who has no room now never will
            first += list(islice(queue, 1))
        if first:
            for topic in topics:
                topic.give(min(first), [partition])
