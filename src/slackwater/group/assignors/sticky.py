"""The sticky assignors: balance first, then as few moves as possible.

Invariants:
- `constrained.py` handles equal subscriptions, `general.py` different ones; both take and return the array of partition
  owners.
- `sticky` is eager: members revoke everything before they join, so their last assignment travels in the user data, as
  v1 with a generation or as v0 without. Other bytes mean no assignment (SK-11).
- `cooperative-sticky` reads the subscription's own fields; if the generation is missing or -1, it is read from the user
  data (SK-11). A partition that would move from a member that still owns it stays unassigned in this rebalance: the
  owner revokes it and rejoins, and the next rebalance assigns it (CS-01).
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import ClassVar, Final

import numpy as np

from slackwater.group.assignors.assignor import Assignor, MemberSubscription, RebalanceProtocol, TopicInfo
from slackwater.group.assignors.claims import OwnershipClaim, OwnershipClaims
from slackwater.group.assignors.constrained import ConstrainedAssignmentBuilder
from slackwater.group.assignors.consumer_protocol import Assignment, MalformedMetadata, Subscription
from slackwater.group.assignors.general import GeneralAssignmentBuilder
from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout
from slackwater.group.assignors.partition_codec import ConsumerProtocolReader, encode_partitions
from slackwater.group.assignors.partitions import NO_PARTITIONS, BoolArray, IntArray, PartitionsByTopic
from slackwater.group.assignors.racks import RackTable
from slackwater.group.java_order import sorted_as_java
from slackwater.group.messages import NO_GENERATION
from slackwater.group.topic_partition import TopicPartition

_GENERATION: Final = Struct(">i")


class _StickyBase(Assignor):
    """The common part of the sticky assignors."""

    built_in: ClassVar[bool] = True

    @abstractmethod
    def claim(self, subscription: Subscription) -> OwnershipClaim:
        """The partitions that a member owned, and the generation."""

    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        """Balance the partitions and keep as many as possible with their owners."""
        if not members:
            return {}
        layout = GroupLayout(cluster, members, sorted_as_java(members))
        claims = OwnershipClaims(
            layout, [self.claim(members[member_id].subscription) for member_id in layout.member_ids]
        )
        racks = RackTable.of(layout, members)
        if layout.has_equal_subscriptions:
            owner = ConstrainedAssignmentBuilder(layout, claims.owner.copy(), racks).build()
            moving = claims.contested | (claims.owner != UNASSIGNED) & (owner != claims.owner)
        else:
            former = claims.latest_of_older_generations(layout.member_ids)
            owner = GeneralAssignmentBuilder(layout, claims.owner.copy(), former, racks).build()
            by_any_member, by_owner = claims.claimed(owner)
            moving = by_any_member & ~by_owner
        return layout.assignments(self.adjust(owner, moving))

    def adjust(self, owner: IntArray, moving: BoolArray) -> IntArray:
        """Adjust the result for partitions that move away from their owners."""
        return owner


class StickyAssignor(_StickyBase):
    """Java's `StickyAssignor`."""

    name: ClassVar[str] = "sticky"

    def user_data(self, owned: Iterable[TopicPartition] | PartitionsByTopic | None, generation_id: int) -> bytes | None:
        """The last assignment and its generation: v1 of the user data."""
        if owned is None:
            return None
        return encode_partitions(PartitionsByTopic.of(owned)) + _GENERATION.pack(generation_id)

    def claim(self, subscription: Subscription) -> OwnershipClaim:
        """Read v1 or v0 of the user data."""
        if not subscription.user_data:
            return OwnershipClaim(NO_PARTITIONS)
        reader = ConsumerProtocolReader(subscription.user_data)
        try:
            owned = reader.partitions()
        except MalformedMetadata:
            return OwnershipClaim(NO_PARTITIONS)
        try:
            return OwnershipClaim(owned, reader.int32())
        except MalformedMetadata:
            return OwnershipClaim(owned)


class CooperativeStickyAssignor(_StickyBase):
    """Java's `CooperativeStickyAssignor`."""

    name: ClassVar[str] = "cooperative-sticky"
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def user_data(self, owned: Iterable[TopicPartition] | PartitionsByTopic | None, generation_id: int) -> bytes | None:
        """The generation of the last assignment."""
        return _GENERATION.pack(generation_id)

    def claim(self, subscription: Subscription) -> OwnershipClaim:
        """Read the subscription's fields, and the generation from the user data if the field is missing."""
        generation_id = subscription.generation_id
        if generation_id < 0 and subscription.user_data is not None:
            try:
                generation_id = ConsumerProtocolReader(subscription.user_data).int32()
            except MalformedMetadata:
                generation_id = NO_GENERATION
        return OwnershipClaim(subscription.owned, generation_id)

    def adjust(self, owner: IntArray, moving: BoolArray) -> IntArray:
        """Withhold moving partitions (CS-01)."""
        return np.where(moving, UNASSIGNED, owner)
