"""A stretch of one partition: what a batch reads of it."""

from typing import NamedTuple, Self

from slackwater.group.topic_partition import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets from `from_offset` up to, and without, `until_offset`; ordered by topic and partition."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition it is a part of."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets it spans; compaction and markers may have left fewer records."""
        return max(self.until_offset - self.from_offset, 0)

    def with_offsets(self, from_offset: int, until_offset: int) -> Self:
        """The same partition, other offsets."""
        return self._replace(from_offset=from_offset, until_offset=until_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.from_offset} until {self.until_offset}"
