"""The partitions of one `revoke` call that still drain."""

from typing import Generic

from slackwater.group.work.effects import PartitionsDrained, R
from slackwater.group.work.partition import PartitionWork


class Revocation(Generic[R]):
    """The partitions of one `revoke` and its deadline; it ends when none of their records is being processed."""

    __slots__ = ("deadline_ms", "partitions")

    def __init__(self, partitions: list[PartitionWork[R]], deadline_ms: int) -> None:
        self.partitions = partitions
        self.deadline_ms = deadline_ms

    def is_over(self) -> bool:
        """Whether every partition has drained."""
        return not any(partition.active_count for partition in self.partitions)

    def drained(self) -> PartitionsDrained:
        """The effect with the final offsets of the partitions that finished any record."""
        return PartitionsDrained(
            tuple(partition.topic_partition for partition in self.partitions),
            tuple(offset for partition in self.partitions for offset in partition.to_commit(partition.start)),
        )
