"""The effects that the batch planner returns.

Invariants:
- `HoldPartitions` and `ReleasePartitions` are forwarded to the group member.
- Every `CommitBatchOffsets` is followed by one `on_commit_done`, and every `FetchCommitted` by one
  `on_committed_fetched`, with the same id.
- `BatchEvent` is for the log and the progress.
"""

from collections.abc import Mapping
from enum import Enum

from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.value_class import value_class


class BatchEventKind(Enum):
    """The kinds of batch events."""

    STARTED = "starts"
    HANDED_OVER = "was handed over"
    HANDOVER_TIMED_OUT = "was released before its batch had ended"
    RESET_FOLLOWED = "starts at an offset that was set outside the application"
    REPLAYED = "is read again"
    SKIPPED = "is not read again"


@value_class
class HoldPartitions:
    """Mark these partitions as in use."""

    partitions: frozenset[TopicPartition]


@value_class
class ReleasePartitions:
    """Mark these partitions as no longer in use."""

    partitions: frozenset[TopicPartition]


@value_class
class CommitBatchOffsets:
    """Commit these offsets, then call `on_commit_done`."""

    commit_id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@value_class
class FetchCommitted:
    """Fetch the group's committed offsets, then call `on_committed_fetched`."""

    fetch_id: int
    partitions: tuple[TopicPartition, ...]


@value_class
class BatchEvent:
    """An event of one partition; `duration_ms` is the time that it took."""

    kind: BatchEventKind
    partition: TopicPartition
    offset: int = -1
    previous_offset: int = -1
    duration_ms: int = 0


BatchEffect = HoldPartitions | ReleasePartitions | CommitBatchOffsets | FetchCommitted | BatchEvent
