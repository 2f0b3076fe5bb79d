"""A partition of a topic."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A topic and a partition number; sorts by topic, then number; `str()` gives Kafka's form `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
