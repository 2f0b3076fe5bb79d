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
from slackwater.group.assignors.claims import Claim, Claims
from slackwater.group.assignors.constrained import Constrained
from slackwater.group.assignors.consumer_protocol import NO_GENERATION, Assignment, MalformedMetadata, Subscription
from slackwater.group.assignors.general import General
from slackwater.group.assignors.layout import NOBODY, Layout
from slackwater.group.assignors.partitions import NO_PARTITIONS, BoolArray, IntArray, PartitionsByTopic
from slackwater.group.assignors.racks import Racks
from slackwater.group.assignors.records import Reader, encode_partitions
from slackwater.group.java_order import sorted_as_java
from slackwater.group.topic_partition import TopicPartition

_GENERATION: Final = Struct(">i")


class _Sticky(Assignor):
    """What both sticky assignors share."""

    built_in: ClassVar[bool] = True

    @abstractmethod
    def claim(self, subscription: Subscription) -> Claim:
        """What a member says it owned, and in which generation."""

    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        """Balance the partitions and leave as many as possible where they were."""
        if not members:
            return {}
        layout = Layout(cluster, members, sorted_as_java(members))
        claims = Claims(layout, [self.claim(members[one].subscription) for one in layout.member_ids])
        racks = Racks.of(layout, members)
        if layout.all_alike:
            owner = Constrained(layout, claims.owner.copy(), racks).build()
            moving = claims.contested | (claims.owner != NOBODY) & (owner != claims.owner)
        else:
            former = claims.latest_of_older_generations(layout.member_ids)
            owner = General(layout, claims.owner.copy(), former, racks).build()
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

    def claim(self, subscription: Subscription) -> Claim:
        """Read v1 of the user data, or v0."""
        if not subscription.user_data:
            return Claim(NO_PARTITIONS)
        reader = Reader(subscription.user_data)
        try:
            owned = reader.partitions()
        except MalformedMetadata:
            return Claim(NO_PARTITIONS)
        try:
            return Claim(owned, reader.int32())
        except MalformedMetadata:
            return Claim(owned)


class CooperativeStickyAssignor(_Sticky):
    """Java's `CooperativeStickyAssignor`."""

    name: ClassVar[str] = "cooperative-sticky"
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def user_data(self, owned: Iterable[TopicPartition] | PartitionsByTopic | None, generation_id: int) -> bytes | None:
        """The generation of the last assignment."""
        return _GENERATION.pack(generation_id)

    def claim(self, subscription: Subscription) -> Claim:
        """Read the subscription's fields, and the generation from the user data where there is no field."""
        generation_id = subscription.generation_id
        if generation_id < 0 and subscription.user_data is not None:
            try:
                generation_id = Reader(subscription.user_data).int32()
            except MalformedMetadata:
                generation_id = NO_GENERATION
        return Claim(subscription.owned, generation_id)

    def adjust(self, owner: IntArray, moving: BoolArray) -> IntArray:
        """Withhold what moves (CS-01)."""
        return np.where(moving, NOBODY, owner)
