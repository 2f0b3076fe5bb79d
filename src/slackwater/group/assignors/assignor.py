"""The interface of an assignor, and its inputs.

Invariants:
- An assignor keeps no state between calls: the same group gets the same assignment from every leader.
- Every member appears in the result, possibly without partitions; topics that do not exist are ignored (AS-02).
- A member's earlier assignment travels in `user_data`, and the leader reads it back from the subscription.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from slackwater.group.assignors.consumer_protocol import Assignment, Subscription
from slackwater.group.assignors.partitions import PartitionsByTopic
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.value_class import value_class


class RebalanceProtocol(StrEnum):
    """How members behave during a rebalance."""

    EAGER = "EAGER"  # revoke everything before joining
    COOPERATIVE = "COOPERATIVE"  # keep everything, revoke after the assignment


@value_class
class TopicInfo:
    """A topic's partition count, and the racks of each partition's replicas."""

    partitions: int
    racks: tuple[frozenset[str], ...] | None = None


@value_class
class MemberSubscription:
    """One member's subscription and group.instance.id."""

    group_instance_id: str | None
    subscription: Subscription


class Assignor(ABC):
    """Base class of assignors; `name` is the protocol name in JoinGroup."""

    name: ClassVar[str]
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)
    # CL-29: the member checks that a custom cooperative assignor moves no owned partition; built-in ones are trusted.
    built_in: ClassVar[bool] = False

    def user_data(self, owned: Iterable[TopicPartition] | PartitionsByTopic | None, generation_id: int) -> bytes | None:
        """The user data of a member's subscription.

        `owned` is the member's last assignment, None if there was none; `generation_id` is its generation, -1 if there
        was none.
        """
        return None

    @abstractmethod
    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        """Compute one assignment per member id."""
