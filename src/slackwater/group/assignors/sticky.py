"""The sticky assignors: balance first, then as few moves as possible.

Rules kept here
- Members with equal subscriptions are served by `constrained.py`, others by `general.py`; both take and give the
  array of who has which partition.
- `sticky` is eager: members have given everything up before they join, so what they owned and when travels in the
  user data, as v1 with a generation, or as v0 without. Bytes that are neither mean nothing owned (SK-11).
- `cooperative-sticky` reads the subscription's own fields; the generation, where the field is missing or -1, from
  the user data (SK-11). A partition that would move away from a member that still has it is given to nobody in this
  round: the owner gives it up, rejoins, and the next round hands it out (CS-01).
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import ClassVar, Final

import numpy as np

from slackwater.group.assignors.assignor import Assignor, MemberSubscription, RebalanceProtocol, TopicInfo
from slackwater.group.assignors.claims import OwnershipClaim, OwnershipClaims
from slackwater.group.assignors.constrained import ConstrainedAssignmentBuilder
from slackwater.group.assignors.consumer_protocol import NO_GENERATION, Assignment, MalformedMetadata, Subscription
from slackwater.group.assignors.general import GeneralAssignmentBuilder
from slackwater.group.assignors.layout import UNASSIGNED, GroupLayout
from slackwater.group.assignors.partitions import NO_PARTITIONS, BoolArray, IntArray, PartitionsByTopic
from slackwater.group.assignors.racks import RackTable
from slackwater.group.assignors.records import ConsumerProtocolReader, encode_partitions
from slackwater.group.java_order import sorted_as_java
from slackwater.group.topic_partition import TopicPartition

_GENERATION: Final = Struct(">i")


class _Sticky(Assignor):
    """What both sticky assignors share."""

    built_in: ClassVar[bool] = True

    @abstractmethod
    def claim(self, subscription: Subscription) -> OwnershipClaim:
        """What a member says it owned, and in which generation."""

    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        """Balance the partitions and leave as many as possible where they were."""
        if not members:
            return {}
        layout = GroupLayout(cluster, members, sorted_as_java(members))
        claims = OwnershipClaims(layout, [self.claim(members[one].subscription) for one in layout.member_ids])
        racks = RackTable.of(layout, members)
        if layout.has_equal_subscriptions:
            owner = ConstrainedAssignmentBuilder(layout, claims.owner.copy(), racks).build()
            moving = claims.contested | (claims.owner != UNASSIGNED) & (owner != claims.owner)
        else:
            former = claims.latest_of_older_generations(layout.member_ids)
            owner = GeneralAssignmentBuilder(layout, claims.owner.copy(), former, racks).build()
            by_anybody, by_owner = claims.claimed(owner)
            moving = by_anybody & ~by_owner
        return layout.assignments(self.adjust(owner, moving))

    def adjust(self, owner: IntArray, moving: BoolArray) -> IntArray:
        """Change the result where partitions move away from members that have them."""
        return owner


class StickyAssignor(_Sticky):
    """Java's `StickyAssignor`."""

    name: ClassVar[str] = "sticky"

    def user_data(self, owned: Iterable[TopicPartition] | PartitionsByTopic | None, generation_id: int) -> bytes | None:
        """What was assigned last, and in which generation: v1 of the user data."""
        if owned is None:
            return None
        return encode_partitions(PartitionsByTopic.of(owned)) + _GENERATION.pack(generation_id)

    def claim(self, subscription: Subscription) -> OwnershipClaim:
        """Read v1 of the user data, or v0."""
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


class CooperativeStickyAssignor(_Sticky):
    """Java's `CooperativeStickyAssignor`."""

    name: ClassVar[str] = "cooperative-sticky"
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def user_data(self, owned: Iterable[TopicPartition] | PartitionsByTopic | None, generation_id: int) -> bytes | None:
        """The generation of the last assignment."""
        return _GENERATION.pack(generation_id)

    def claim(self, subscription: Subscription) -> OwnershipClaim:
        """Read the subscription's fields, and the generation from the user data where there is no field."""
        generation_id = subscription.generation_id
        if generation_id < 0 and subscription.user_data is not None:
            try:
                generation_id = ConsumerProtocolReader(subscription.user_data).int32()
            except MalformedMetadata:
                generation_id = NO_GENERATION
        return OwnershipClaim(subscription.owned, generation_id)

    def adjust(self, owner: IntArray, moving: BoolArray) -> IntArray:
        """Withhold what moves (CS-01)."""
        return np.where(moving, UNASSIGNED, owner)
