"""The records that a consumer returns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import TimestampType
from slackwater.wire.records.record import Header


class ConsumerRecord(NamedTuple):
    """One record; a timestamp of -1 means no timestamp.

    Key and value are bytes or None, or what key.deserializer and value.deserializer returned.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: Sequence[Header]
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        """The bytes of key, value and headers; a deserialized key or value counts as 0."""
        total = sum(len(data) for data in (self.key, self.value) if isinstance(data, bytes))
        for name, value in self.headers:
            total += len(name) + len(value or b"")
        return total

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)
