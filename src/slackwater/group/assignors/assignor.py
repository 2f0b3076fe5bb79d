"""What every assignor is, and all it may know of the cluster and of the group.

Rules kept here
- An assignor is a function of its arguments: it keeps nothing between calls, so the same group gives the same answer
  whoever leads it, in whatever order the members are listed.
- Every member appears in the result, possibly with nothing; topics the cluster does not know are ignored (AS-02).
- What a member must remember between generations (what it owned, and when) is the member's to keep: it hands it to
  `user_data`, and the leader reads it back from the subscription.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from slackwater.group.assignors.consumer_protocol import Assignment, Subscription
from slackwater.group.assignors.partitions import PartitionsByTopic
from slackwater.group.message import message
from slackwater.group.topic_partition import TopicPartition


class RebalanceProtocol(StrEnum):
    """How members behave while a rebalance runs."""

    EAGER = "EAGER"  # give everything up before joining
    COOPERATIVE = "COOPERATIVE"  # keep everything, give up what the assignment takes away


@message
class TopicInfo:
    """What an assignor may know of a topic: how many partitions, and in which racks each one's replicas are."""

    partitions: int
    racks: tuple[frozenset[str], ...] | None = None


@message
class MemberSubscription:
    """One member as the leader sees it."""

    group_instance_id: str | None
    subscription: Subscription


class Assignor(ABC):
    """Subclass this to bring an assignor of your own; `name` is what members agree on over the wire."""

    name: ClassVar[str]
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)
    # CL-29: the member checks that a foreign cooperative assignor moves nothing that is still owned; it trusts ours.
    built_in: ClassVar[bool] = False

    def user_data(self, owned: Iterable[TopicPartition] | PartitionsByTopic | None, generation_id: int) -> bytes | None:
        """The user data of a member's subscription.

        `owned` is what the member was assigned last, None when it never was; `generation_id` is the generation of
        that assignment, -1 when there was none.
        """
        return None

    @abstractmethod
    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        """Who gets what: one assignment per member id."""
