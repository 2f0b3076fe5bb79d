"""The records that a consumer returns."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import TimestampType
from slackwater.wire.records.record import Header

_MAX_SHOWN: Final = 60


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

    def __repr__(self) -> str:
        text = f"{self.topic_partition}, offset={self.offset}, timestamp={self.timestamp}"
        headers = f", headers={_shorten(list(self.headers))}" if self.headers else ""
        return f"ConsumerRecord({text}, key={_shorten(self.key)}, value={_shorten(self.value)}{headers})"

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


def _shorten(value: object) -> str:
    """Return a representation of limited length, and the size of long bytes."""
    if isinstance(value, bytes) and len(value) > _MAX_SHOWN:
        return f"{value[:_MAX_SHOWN]!r}... ({len(value)} bytes)"
    text = repr(value)
    return text if len(text) <= 2 * _MAX_SHOWN else f"{text[: 2 * _MAX_SHOWN]}..."
