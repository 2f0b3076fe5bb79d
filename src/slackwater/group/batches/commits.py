"""The offsets that a query still has to commit: finished batches, ownership commits, early commits (`COMMIT_EARLY`).

Invariants:
- One offset per partition: a newer one replaces an older one, even one in flight.
- At most one commit is in flight, so that an older one never overtakes a newer one.
- A failed commit stays pending and is retried after a delay while the partition is owned.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.batches.effects import CommitBatchOffsets
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

RETRY_MS: Final = 100


class CommitReason(Enum):
    """The reason for a commit."""

    FINISHED = "batch finished"
    EARLY = "batch will be finished from the checkpoint"
    OWNERSHIP = "partition is read by this query"


@dataclass(frozen=True, slots=True, eq=False)
class PendingCommit:
    """One offset to commit; for an ownership commit, `position` is where reading starts after the commit."""

    offset: int
    marker: CommitMarker
    reason: CommitReason
    position: int | None = None


class PendingCommits:
    """All pending commits of a query."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, PendingCommit] = {}
        self._sent: tuple[int, dict[TopicPartition, PendingCommit]] | None = None
        self._retry_due_ms: int | None = None

    @property
    def has_ownership_commits(self) -> bool:
        """Whether an ownership commit is pending."""
        return any(pending.reason is CommitReason.OWNERSHIP for pending in self.by_partition.values())

    @property
    def partitions_with_work(self) -> frozenset[TopicPartition]:
        """The partitions with finished or early committed work that is not committed."""
        return frozenset(
            partition
            for partition, pending in self.by_partition.items()
            if pending.reason is not CommitReason.OWNERSHIP
        )

    def due_ms(self) -> int | None:
        """When the next retry is due."""
        return self._retry_due_ms

    def tick(self, now_ms: int) -> None:
        """Allow the retry if it is due."""
        if self._retry_due_ms is not None and now_ms >= self._retry_due_ms:
            self._retry_due_ms = None

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the commits of partitions that are no longer owned."""
        for partition in partitions:
            self.by_partition.pop(partition, None)

    def next(self, commit_id: int) -> CommitBatchOffsets | None:
        """The next commit, if one is pending and none is in flight."""
        if not self.by_partition or self._sent is not None or self._retry_due_ms is not None:
            return None
        self._sent = commit_id, dict(self.by_partition)
        return CommitBatchOffsets(
            commit_id,
            {
                partition: OffsetAndMetadata(pending.offset, metadata=str(pending.marker))
                for partition, pending in sorted(self.by_partition.items())
            },
        )

    def on_done(self, commit_id: int, now_ms: int, *, failed: bool) -> dict[TopicPartition, PendingCommit]:
        """Handle the end of a commit; returns the offsets that are now committed."""
        if self._sent is None or self._sent[0] != commit_id:
            return {}
        _, sent = self._sent
        self._sent = None
        if failed:
            self._retry_due_ms = now_ms + RETRY_MS
            return {}
        committed = {
            partition: pending for partition, pending in sent.items() if self.by_partition.get(partition) is pending
        }
        self.drop(committed)
        return committed
