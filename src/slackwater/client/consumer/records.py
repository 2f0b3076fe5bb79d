"""The records that a consumer returns."""

from collections.abc import Sequence
from typing import NamedTuple

from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import TimestampType
from slackwater.wire.records.record import Header


class ConsumerRecord(NamedTuple):
    """One record; a timestamp of -1 means no timestamp."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        total = len(self.key or b"") + len(self.value or b"")
        for name, value in self.headers:
            total += len(name) + len(value or b"")
        return total

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)
