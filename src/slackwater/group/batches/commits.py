"""The offsets that a query owes its group: what is finished, what it takes over, what it hands off.

Rules kept here
- One offset per partition: a newer one takes the place of an older one, also of one that is under way.
- One commit is under way at a time, so that an older one never comes after a newer one.
- What failed is owed still, and tried again after a moment, for as long as the partition is ours.
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
    """Why an offset is to be committed."""

    FINISHED = "the batch is finished"
    HANDOFF = "the batch will be finished from the checkpoint"
    CLAIM = "this query takes the partition"


@dataclass(frozen=True, slots=True, eq=False)
class PendingCommit:
    """One offset; a claim also says where the partition is read from when it is committed."""

    offset: int
    marker: CommitMarker
    reason: CommitReason
    position: int | None = None


class PendingCommits:
    """All that is owed."""

    def __init__(self) -> None:
        self.owed: dict[TopicPartition, PendingCommit] = {}
        self._sent: tuple[int, dict[TopicPartition, PendingCommit]] | None = None
        self._retry_due_ms: int | None = None

    @property
    def claims(self) -> bool:
        """Whether some partition is not yet known to be ours."""
        return any(one.reason is CommitReason.CLAIM for one in self.owed.values())

    @property
    def work(self) -> frozenset[TopicPartition]:
        """The partitions with something done that the group does not know of."""
        return frozenset(partition for partition, one in self.owed.items() if one.reason is not CommitReason.CLAIM)

    def due_ms(self) -> int | None:
        """When to try again."""
        return self._retry_due_ms

    def tick(self, now_ms: int) -> None:
        """Try again, if it is time."""
        if self._retry_due_ms is not None and now_ms >= self._retry_due_ms:
            self._retry_due_ms = None

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any longer."""
        for partition in partitions:
            self.owed.pop(partition, None)

    def next(self, commit_id: int) -> CommitBatchOffsets | None:
        """The next commit, if one is owed and none is under way."""
        if not self.owed or self._sent is not None or self._retry_due_ms is not None:
            return None
        self._sent = commit_id, dict(self.owed)
        return CommitBatchOffsets(
            commit_id,
            {at: OffsetAndMetadata(one.offset, metadata=str(one.marker)) for at, one in sorted(self.owed.items())},
        )

    def done(self, commit_id: int, now_ms: int, *, failed: bool) -> dict[TopicPartition, PendingCommit]:
        """A commit ended; the answer is what it has settled."""
        if self._sent is None or self._sent[0] != commit_id:
            return {}
        _, sent = self._sent
        self._sent = None
        if failed:
            self._retry_due_ms = now_ms + RETRY_MS
            return {}
        settled = {partition: one for partition, one in sent.items() if self.owed.get(partition) is one}
        self.drop(settled)
        return settled
