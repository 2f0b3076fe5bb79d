"""The partitions that members claim to own, and how conflicts are resolved.

Invariants:
- If several members claim a partition, the highest generation wins; a claim without a generation counts as generation
  -1 (SK-06).
- A partition claimed more than once at the highest generation is unassigned and marked as contested: its new owner
  takes it from a member that may still use it (SK-07).
- Claims of partitions that do not exist are dropped. A partition listed twice by one member counts once.
"""

from collections.abc import Sequence

import numpy as np

from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout
from slackwater.group.assignors.partitions import BoolArray, IntArray, PartitionsByTopic
from slackwater.group.java_order import hash_map_order
from slackwater.group.messages import NO_GENERATION
from slackwater.group.value_class import value_class


@value_class
class OwnershipClaim:
    """The partitions that one member owned last, and the generation."""

    owned: PartitionsByTopic
    generation_id: int = NO_GENERATION


class OwnershipClaims:
    """All members' claims: claim i is partition `partition[i]` by member `member[i]`."""

    __slots__ = ("contested", "generation", "member", "owner", "partition", "partition_count")

    def __init__(self, layout: GroupLayout, claims: Sequence[OwnershipClaim]) -> None:
        self.generation = np.array([claim.generation_id for claim in claims], dtype=np.int64)
        self.partition_count = layout.partition_count
        self.partition, self.member = _number(layout, claims)
        self.contested = np.zeros(layout.partition_count, np.bool_)
        self.owner = np.full(layout.partition_count, UNASSIGNED, np.int64)
        self.owner[self.partition] = self.member
        claimants = np.bincount(self.partition, minlength=layout.partition_count)
        if claimants.size and claimants.max() > 1:
            self._resolve_conflicts(claimants > 1)

    def _resolve_conflicts(self, disputed: BoolArray) -> None:
        among = disputed[self.partition]
        pairs = np.unique(np.stack((self.partition[among], self.member[among])), axis=1)
        partition, member = pairs[0], pairs[1]
        generation = self.generation[member]
        highest = np.full(len(self.owner), np.iinfo(np.int64).min)
        np.maximum.at(highest, partition, generation)
        top = generation == highest[partition]
        self.owner[partition[top]] = member[top]
        self.contested = np.bincount(partition[top], minlength=len(self.owner)) > 1
        self.owner[self.contested] = UNASSIGNED

    def claimed(self, owner: IntArray) -> tuple[BoolArray, BoolArray]:
        """For every partition, whether any member claims it, and whether its `owner` does."""
        by_any_member = np.zeros(self.partition_count, np.bool_)
        by_any_member[self.partition] = True
        by_owner = np.zeros(self.partition_count, np.bool_)
        by_owner[self.partition[owner[self.partition] == self.member]] = True
        return by_any_member, by_owner

    def latest_of_older_generations(self, member_ids: Sequence[str]) -> IntArray:
        """For every partition, its claimant of the newest generation before the current one, or UNASSIGNED.

        Within a generation the member that a Java leader processes first wins.
        """
        older = np.full(self.partition_count, UNASSIGNED, np.int64)
        current = self.generation.max(initial=NO_GENERATION)
        chosen = (self.generation[self.member] < current).nonzero()[0]
        if len(chosen):
            rank = {member_id: index for index, member_id in enumerate(hash_map_order(member_ids))}
            precedence = np.array([rank[member_id] for member_id in member_ids])
            member = self.member[chosen]
            # The last write wins: oldest generation first, and within one the member with the lowest precedence first.
            order = np.lexsort((-precedence[member], self.generation[member]))
            older[self.partition[chosen][order]] = member[order]
        return older


def _number(layout: GroupLayout, claims: Sequence[OwnershipClaim]) -> tuple[IntArray, IntArray]:
    """The claims as partition numbers and member numbers, without partitions that do not exist."""
    empty = np.zeros(0, np.int64)
    topics = _topic_numbers(layout, [claim.owned.topics for claim in claims])
    counts = np.concatenate([empty, *(claim.owned.counts for claim in claims)])
    numbers = np.concatenate([empty, *(claim.owned.numbers for claim in claims)])
    topic = np.repeat(topics, counts)
    member = np.repeat(np.arange(len(claims)), [len(claim.owned) for claim in claims])
    if not layout.partition_count:
        return empty, empty
    exists = (topic >= 0) & (numbers >= 0) & (numbers < layout.counts[topic])
    partition = layout.first[topic] + numbers
    if exists.all():
        return partition, member
    return partition[exists], member[exists]


def _topic_numbers(layout: GroupLayout, names: list[tuple[str, ...]]) -> IntArray:
    """The topic numbers of all names; -1 for topics that are not in the layout."""
    get = layout.index.get
    distinct = {id(topics): topics for topics in names}
    if len(distinct) * 2 > len(names):
        return np.array([get(name, -1) for topics in names for name in topics], dtype=np.int64)
    # Members of a large group mostly own partitions of the same topics and share one tuple of names.
    numbers = {key: np.array([get(name, -1) for name in topics], dtype=np.int64) for key, topics in distinct.items()}
    return np.concatenate([numbers[id(topics)] for topics in names])
