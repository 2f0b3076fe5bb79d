"""A group's topics and members as numbers, so that assignors work on arrays.

Invariants:
- Only existing topics with a subscriber are included, in name order (AS-02).
- Partitions are numbered consecutively: all of the first topic, then all of the second. Numeric order is therefore the
  order (topic, partition).
- An assignment is one array: for every partition the number of its member, or UNASSIGNED.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Final

import numpy as np

from slackwater.group.assignors.assignor import MemberSubscription, TopicInfo
from slackwater.group.assignors.consumer_protocol import Assignment
from slackwater.group.assignors.partitions import NO_PARTITIONS, BoolArray, IntArray, PartitionsByTopic
from slackwater.group.java_order import sorted_as_java

UNASSIGNED: Final = -1


class GroupLayout:
    """The subscribed topics and the members of one group, numbered."""

    __slots__ = (
        "cluster",
        "counts",
        "first",
        "index",
        "kind_topics",
        "member_ids",
        "member_kind",
        "partition_count",
        "topic_of",
        "topics",
    )

    def __init__(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription], member_ids: Sequence[str]
    ) -> None:
        self.cluster = cluster
        self.member_ids = member_ids
        # Members of a group mostly share a few subscriptions; each distinct subscription is a kind.
        kinds: dict[tuple[str, ...], int] = {}
        self.kind_topics: dict[frozenset[str], int] = {}
        member_kind: list[int] = []
        for member_id in member_ids:
            topics = members[member_id].subscription.topics
            kind = kinds.get(topics)
            if kind is None:
                kind = kinds[topics] = self.kind_topics.setdefault(frozenset(topics), len(self.kind_topics))
            member_kind.append(kind)
        self.member_kind = np.array(member_kind, dtype=np.int64)
        subscribed = frozenset[str]().union(*self.kind_topics)
        self.topics = sorted_as_java(
            topic for topic in subscribed if (info := cluster.get(topic)) is not None and info.partitions > 0
        )
        self.index = {topic: index for index, topic in enumerate(self.topics)}
        self.counts = np.array([cluster[topic].partitions for topic in self.topics], dtype=np.int64)
        self.first = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.counts)))
        self.partition_count = int(self.first[-1])
        self.topic_of = np.repeat(np.arange(len(self.topics)), self.counts)

    @property
    def has_equal_subscriptions(self) -> bool:
        """Whether every member subscribes to the same topics."""
        return len(self.kind_topics) <= 1

    def subscribed(self) -> BoolArray:
        """Whether a kind of member (row) subscribes to a topic (column)."""
        unknown = len(self.topics)
        topic = list(map(self.index.get, chain.from_iterable(self.kind_topics), repeat(unknown)))
        kind = np.repeat(np.arange(len(self.kind_topics)), list(map(len, self.kind_topics)))
        table = np.zeros((len(self.kind_topics), unknown + 1), np.bool_)
        table[kind, topic] = True
        return table[:, :unknown]

    def subscribers(self, subscribed: BoolArray) -> list[IntArray]:
        """The members of every topic, ascending. Topics with the same members share one array."""
        shared: dict[bytes, IntArray] = {}
        members_by_topic: list[IntArray] = []
        for column in np.ascontiguousarray(subscribed.T):
            key = column.tobytes()
            if key not in shared:
                shared[key] = column[self.member_kind].nonzero()[0]
            members_by_topic.append(shared[key])
        return members_by_topic

    def assignments(self, owner: IntArray) -> dict[str, Assignment]:
        """The assignments, from the array of each partition's member."""
        members = len(self.member_ids)
        held_counts = np.bincount(owner + 1, minlength=members + 1)
        by_member = stable_order(owner + 1)[int(held_counts[0]) :]  # without unassigned partitions, which sort first
        held_counts = held_counts[1:]
        topic = self.topic_of[by_member]
        numbers = by_member - self.first[topic]
        ends = np.cumsum(held_counts)
        # A run is one member's consecutive partitions of one topic.
        starts_run = np.ones(len(by_member), np.bool_)
        starts_run[1:] = topic[1:] != topic[:-1]
        starts_run[ends[:-1][ends[:-1] < len(by_member)]] = True
        run_start = starts_run.nonzero()[0]
        run_counts = np.append(run_start[1:], len(by_member)) - run_start
        run_topics = topic[run_start].tolist()
        run_ends = np.searchsorted(run_start, ends).tolist()
        all_topics = tuple(self.topics)
        result: dict[str, Assignment] = {}
        start = run = 0
        for member_id, end, run_end in zip(self.member_ids, ends.tolist(), run_ends, strict=True):
            if start == end:
                result[member_id] = Assignment(NO_PARTITIONS)
                continue
            if run_end - run == len(all_topics):
                topics = all_topics
            else:
                topics = tuple(map(all_topics.__getitem__, run_topics[run:run_end]))
            result[member_id] = Assignment(PartitionsByTopic(topics, run_counts[run:run_end], numbers[start:end]))
            start, run = end, run_end
        return result


def stable_order(values: IntArray) -> IntArray:
    """The indices that sort these non-negative numbers, stable."""
    # numpy sorts 16-bit numbers with a radix sort, ten times faster than wider ones.
    narrow = values.astype(np.uint16) if values.max(initial=0) <= 0xFFFF else values
    return np.argsort(narrow, kind="stable")
