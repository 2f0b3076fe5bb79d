"""Partitions on their way out together: what one call of `revoke` still waits for."""

from typing import Generic

from slackwater.group.work.effects import PartitionsDrained, R
from slackwater.group.work.partition import PartitionWork


class Revocation(Generic[R]):
    """The partitions of one `revoke` and its deadline; over when nobody is busy with a record of theirs."""

    __slots__ = ("deadline_ms", "partitions")

    def __init__(self, partitions: list[PartitionWork[R]], deadline_ms: int) -> None:
        self.partitions = partitions
        self.deadline_ms = deadline_ms

    def over(self) -> bool:
        """Whether nothing is left to wait for."""
        return not any(partition.out for partition in self.partitions)

    def drained(self) -> PartitionsDrained:
        """The final offsets of those partitions in which anything was finished."""
        return PartitionsDrained(
            tuple(partition.topic_partition for partition in self.partitions),
            tuple(offset for partition in self.partitions for offset in partition.to_commit(partition.start)),
        )
