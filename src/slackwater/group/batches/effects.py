"""What the batches of a query want done, in order.

Rules kept here
- `HoldPartitions` and `ReleasePartitions` are forwarded to the group member.
- Every `CommitBatchOffsets` is followed by one call of `on_commit_done`, and every `FetchCommitted` by one call of
  `on_committed_fetched`, with the same id.
- `BatchEvent` is for people: a line in the log, a figure in the progress.
"""

from collections.abc import Mapping
from enum import Enum

from slackwater.group.message import message
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition


class BatchEventKind(Enum):
    """What is worth telling."""

    STARTED = "starts"
    HANDED_OVER = "was handed over"
    HANDOVER_TIMED_OUT = "was released before its batch had ended"
    RESET_OBEYED = "starts where an operator has put it"
    REPLAYED = "is read again"
    LEFT_OUT = "is left out of the batch that is read again"


@message
class HoldPartitions:
    """Work on these partitions is in progress."""

    partitions: frozenset[TopicPartition]


@message
class ReleasePartitions:
    """It is done."""

    partitions: frozenset[TopicPartition]


@message
class CommitBatchOffsets:
    """Commit these offsets, and tell `commit_done`."""

    commit_id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@message
class FetchCommitted:
    """Look up what the group has committed, and tell `fetched`."""

    fetch_id: int
    partitions: tuple[TopicPartition, ...]


@message
class BatchEvent:
    """Something happened to a partition; `at` and `before` are offsets, `length_ms` how long it took."""

    kind: BatchEventKind
    partition: TopicPartition
    offset: int = -1
    previous_offset: int = -1
    duration_ms: int = 0


BatchEffect = HoldPartitions | ReleasePartitions | CommitBatchOffsets | FetchCommitted | BatchEvent
