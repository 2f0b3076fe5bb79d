"""A topic's partition, the unit that changes hands."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; ordered by topic, then by number; printed as Kafka prints it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
