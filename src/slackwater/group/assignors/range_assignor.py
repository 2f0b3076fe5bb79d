"""The range assignor: each topic is divided into contiguous ranges, one per member.

Invariants:
- Per topic each of m members gets n/m partitions, the first n%m members one more (RA-01). Members in the order of
  AS-01.
- Racks are considered only if members' and replicas' racks overlap and partitions differ in their racks (RA-03).
  Balance has priority over racks.
- Topics with the same members and partition count stay co-partitioned: partition i of all of them goes to one member,
  with or without racks (RA-04).
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
        """Divide every topic into ranges."""
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
                    topic.assign_ranges(in_racks=False)
                owners = [topic.owner for topic in topics]
                return layout.assignments(
                    np.array([member for topic_owner in owners for member in topic_owner], dtype=np.int64)
                )
        for topic_at, topic_members in enumerate(subscribers):
            start, end = layout.first[topic_at], layout.first[topic_at + 1]
            each, extra = divmod(int(end - start), len(topic_members))
            owner[start:end] = np.repeat(topic_members, each + (np.arange(len(topic_members)) < extra))
        return layout.assignments(owner)


class _TopicInRacks:
    """One topic during rack matching: remaining quotas and free partitions."""

    def __init__(self, info: TopicInfo, members: IntArray, racks: list[str | None]) -> None:
        self.members: list[int] = members.tolist()
        self.rack = {member: racks[member] for member in self.members}
        self.owner = [UNASSIGNED] * info.partitions
        self.replica_racks = info.racks or (frozenset[str](),) * info.partitions
        self.racks_matter = racks_matter({rack for rack in self.rack.values() if rack}, self.replica_racks)
        self.held = dict.fromkeys(self.members, 0)
        self.each, self.members_with_one_more = divmod(info.partitions, len(self.members))

    def remaining(self, member: int) -> int:
        """The number of partitions that this member may still get."""
        return max(0, self.each + (self.members_with_one_more > 0) - self.held[member])

    def assign(self, member: int, partitions: list[int]) -> None:
        for partition in partitions:
            self.owner[partition] = member
        self.held[member] += len(partitions)
        if self.held[member] > self.each:
            self.members_with_one_more -= 1

    def assign_ranges(self, *, in_racks: bool) -> None:
        """Give every member, in order, the first free partitions, or the first free ones in its rack."""
        # One iterator per rack: skipped partitions stay assigned or in other racks.
        iterators: dict[str | None, Iterator[int]] = {}
        for member in self.members:
            rack = self.rack[member] if in_racks else None
            iterator = iterators.setdefault(rack, self.free(rack))
            if partitions := list(islice(iterator, self.remaining(member))):
                self.assign(member, partitions)

    def free(self, rack: str | None) -> Iterator[int]:
        """The unassigned partitions, lazily, in this rack or in all."""
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
            group[0].assign_ranges(in_racks=True)


def _match_co_partitioned(topics: list[_TopicInRacks]) -> None:
    """Assign partition i of all topics to the first member with room that is in a rack of each of them (RA-04)."""
    first_topic = topics[0]  # all topics assign the same numbers to the same members
    queues: dict[str | None, deque[int]] = {}
    for member in first_topic.members:
        queues.setdefault(first_topic.rack[member], deque()).append(member)
    for partition in range(len(first_topic.owner)):
        common = frozenset.intersection(*(topic.replica_racks[partition] for topic in topics))
        candidates: list[int] = []
        for rack in (*common, None):  # a member without a rack matches every rack
            queue = queues.get(rack, deque())
            while queue and not first_topic.remaining(queue[0]):
                queue.popleft()  # a full member stays full
            candidates += list(islice(queue, 1))
        if candidates:
            for topic in topics:
                topic.assign(min(candidates), [partition])
