"""A range of offsets of one partition."""

from typing import NamedTuple, Self

from slackwater.group.topic_partition import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets from `from_offset` to `until_offset`, exclusive; ordered by topic and partition."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the range."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets; compaction and transaction markers may leave fewer records."""
        return max(self.until_offset - self.from_offset, 0)

    def with_offsets(self, from_offset: int, until_offset: int) -> Self:
        """The same partition with other offsets."""
        return self._replace(from_offset=from_offset, until_offset=until_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.from_offset} until {self.until_offset}"
