"""What a member wants and what it has.

Rules kept here
- Topics, a pattern and a manual assignment exclude each other; `clear` is the way from one to another.
- What is owned under a subscription changes only through `give` and `take`, and the machine calls those only around a
  `Notify`: nobody loses a partition without being told.
- `fetchable` leaves out what is on its way out: everything while an eager member's last commit is out (CL-20), and
  what a background member still holds although it was taken away.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from slackwater.group.assignors.assignor import TopicInfo
from slackwater.group.errors import UsageError
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class SubscriptionType(Enum):
    """How partitions come to this member."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    MANUAL = "manual"


class SubscriptionState:
    """Wanted topics, owned partitions, and how far each was consumed."""

    def __init__(self, *, exclude_internal_topics: bool) -> None:
        self._exclude_internal_topics = exclude_internal_topics
        self._pattern: re.Pattern[str] | None = None
        self.mode = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()
        self.group_topics: frozenset[str] = frozenset()  # what the whole group wants; the leader watches it (CL-26)
        self.owned: frozenset[TopicPartition] = frozenset()
        self.revoking = False
        self.leaving: frozenset[TopicPartition] = frozenset()  # taken away, kept because held
        self.held: frozenset[TopicPartition] = frozenset()
        self._consumed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._stints: dict[TopicPartition, int] = {}
        self._last_stint = 0

    # --- what is wanted ---------------------------------------------------------------------------------------

    @property
    def managed(self) -> bool:
        """Whether the group assigns partitions to this member."""
        return self.mode in (SubscriptionType.TOPICS, SubscriptionType.PATTERN)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics."""
        self._only(SubscriptionType.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: str, cluster: Mapping[str, TopicInfo]) -> None:
        """Want every topic whose whole name matches."""
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise UsageError(f"the pattern {pattern!r} is no regular expression: {error}.") from error
        self._only(SubscriptionType.PATTERN)
        self._pattern = compiled
        self.match(cluster)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Take these partitions without being a member."""
        self._only(SubscriptionType.MANUAL)
        self.owned = frozenset(partitions)
        self._consumed = {partition: at for partition, at in self._consumed.items() if partition in self.owned}

    def _only(self, mode: SubscriptionType) -> None:
        if self.mode not in (SubscriptionType.NONE, mode):
            raise UsageError(
                f"subscriptions to topics, to a pattern, and manual assignment exclude each other; this consumer uses "
                f"{self.mode.value}, so unsubscribe before using {mode.value}."
            )
        self.mode = mode

    def clear(self) -> None:
        """Want and have nothing."""
        self.mode = SubscriptionType.NONE
        self.topics = self.group_topics = frozenset()
        self._pattern = None
        self.owned = self.leaving = self.held = frozenset()
        self.revoking = False
        self._consumed.clear()

    def match(self, cluster: Mapping[str, TopicInfo]) -> None:
        """Find the topics that the pattern wants now."""
        if self.mode is SubscriptionType.PATTERN:
            self.topics = frozenset(filter(self._matches, cluster))

    def adopt(self, topics: Iterable[str]) -> None:
        """Take over topics that the leader saw before this member did (CL-28)."""
        self.topics |= frozenset(topics)

    def wants(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment fits what is subscribed to now (CL-24)."""
        topics = {partition.topic for partition in partitions}
        if self.mode is SubscriptionType.PATTERN:
            return all(map(self._matches, topics))
        return topics <= self.topics

    def _matches(self, topic: str) -> bool:
        if self._exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        return self._pattern is not None and self._pattern.fullmatch(topic) is not None

    # --- what is owned ----------------------------------------------------------------------------------------

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """What may be fetched."""
        return frozenset() if self.revoking else self.owned - self.leaving

    def give(self, partitions: frozenset[TopicPartition]) -> None:
        """Own these too."""
        self.owned |= partitions
        self._last_stint += 1
        self._stints.update(dict.fromkeys(partitions, self._last_stint))

    def stint(self, partition: TopicPartition) -> int | None:
        """Which time of owning a partition this is: another number after every break, None without."""
        return self._stints.get(partition) if partition in self.owned else None

    def take(self, partitions: frozenset[TopicPartition]) -> None:
        """Own these no longer."""
        self.owned -= partitions
        self.leaving -= partitions
        self.held -= partitions
        for partition in partitions:
            self._consumed.pop(partition, None)

    # --- how far ----------------------------------------------------------------------------------------------

    def consumed(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The application has had everything before these positions."""
        self._consumed.update((partition, at) for partition, at in positions.items() if partition in self.owned)

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What an auto-commit would commit: positions of what is owned."""
        return dict(sorted(self._consumed.items()))
