"""A member's subscription and its owned partitions.

Invariants:
- Topics, a pattern and a manual assignment exclude each other; `clear` resets the type.
- Under a subscription the owned partitions change only through `add_owned` and `remove_owned`, and the machine calls
  those only with a `NotifyListener`: no partition is removed without a callback.
- `fetchable` excludes partitions that are about to leave: all of them while an eager member's last commit is in flight
  (CL-20), and revoked partitions that a background member still holds.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from slackwater.group.assignors.assignor import TopicInfo
from slackwater.group.errors import UsageError
from slackwater.group.internal_topics import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC})


class SubscriptionType(Enum):
    """How this member gets its partitions."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    MANUAL = "manual"


class SubscriptionState:
    """Subscribed topics, owned partitions and consumed positions."""

    def __init__(self, *, exclude_internal_topics: bool) -> None:
        self._exclude_internal_topics = exclude_internal_topics
        self._pattern: re.Pattern[str] | None = None
        self.type = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()
        self.group_topics: frozenset[str] = frozenset()  # all members' topics; the leader watches them (CL-26)
        self.owned: frozenset[TopicPartition] = frozenset()
        self.revoking = False
        self.pending_revocation: frozenset[TopicPartition] = frozenset()  # revoked, kept because they are held
        self.held: frozenset[TopicPartition] = frozenset()
        self._consumed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._ownership_ids: dict[TopicPartition, int] = {}
        self._last_ownership_id = 0

    # --- subscription ------------------------------------------------------------------------------------------

    @property
    def is_group_managed(self) -> bool:
        """Whether the group assigns partitions to this member."""
        return self.type in (SubscriptionType.TOPICS, SubscriptionType.PATTERN)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics."""
        self._set_type(SubscriptionType.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: str, cluster: Mapping[str, TopicInfo]) -> None:
        """Subscribe to every topic whose whole name matches."""
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise UsageError(f"the pattern {pattern!r} is not a regular expression: {error}.") from error
        self._set_type(SubscriptionType.PATTERN)
        self._pattern = compiled
        self.match(cluster)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Take these partitions without joining the group."""
        self._set_type(SubscriptionType.MANUAL)
        self.owned = frozenset(partitions)
        self._consumed = {
            partition: position for partition, position in self._consumed.items() if partition in self.owned
        }

    def _set_type(self, type: SubscriptionType) -> None:
        if self.type not in (SubscriptionType.NONE, type):
            raise UsageError(
                f"subscriptions to topics, to a pattern, and manual assignment exclude each other; this consumer uses "
                f"{self.type.value}, so unsubscribe before using {type.value}."
            )
        self.type = type

    def clear(self) -> None:
        """Remove the subscription and all partitions."""
        self.type = SubscriptionType.NONE
        self.topics = self.group_topics = frozenset()
        self._pattern = None
        self.owned = self.pending_revocation = self.held = frozenset()
        self.revoking = False
        self._consumed.clear()

    def match(self, cluster: Mapping[str, TopicInfo]) -> None:
        """Match the pattern against the cluster's topics."""
        if self.type is SubscriptionType.PATTERN:
            self.topics = frozenset(filter(self._matches, cluster))

    def add_topics(self, topics: Iterable[str]) -> None:
        """Add topics that the leader matched before this member did (CL-28)."""
        self.topics |= frozenset(topics)

    def accepts(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment matches the current subscription (CL-24)."""
        topics = {partition.topic for partition in partitions}
        if self.type is SubscriptionType.PATTERN:
            return all(map(self._matches, topics))
        return topics <= self.topics

    def _matches(self, topic: str) -> bool:
        if self._exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        return self._pattern is not None and self._pattern.fullmatch(topic) is not None

    # --- owned partitions --------------------------------------------------------------------------------------

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """The partitions that may be fetched."""
        return frozenset() if self.revoking else self.owned - self.pending_revocation

    def add_owned(self, partitions: frozenset[TopicPartition]) -> None:
        """Add owned partitions."""
        self.owned |= partitions
        self._last_ownership_id += 1
        self._ownership_ids.update(dict.fromkeys(partitions, self._last_ownership_id))

    def ownership_id(self, partition: TopicPartition) -> int | None:
        """The id of this ownership of a partition: it changes after every interruption; None if not owned."""
        return self._ownership_ids.get(partition) if partition in self.owned else None

    def remove_owned(self, partitions: frozenset[TopicPartition]) -> None:
        """Remove owned partitions."""
        self.owned -= partitions
        self.pending_revocation -= partitions
        self.held -= partitions
        for partition in partitions:
            self._consumed.pop(partition, None)

    # --- consumed positions ------------------------------------------------------------------------------------

    def set_consumed(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that the application received every record before these positions."""
        self._consumed.update(
            (partition, position) for partition, position in positions.items() if partition in self.owned
        )

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions that an auto-commit commits."""
        return dict(sorted(self._consumed.items()))
