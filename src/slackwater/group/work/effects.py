"""The effects that the work scheduler returns.

Invariants:
- The shell executes effects in the order given.
- Every `StartTask` is followed by one `on_finished` or `on_failed`, even after an `AbandonTasks`: only that frees the
  worker.
- Every `WriteDeadLetter` is followed by one `on_dead_letter_written` or `on_dead_letter_failed`.
- Every `revoke` produces exactly one `PartitionsDrained`, at its deadline at the latest.
- A task id names one attempt and is never reused, so a late result never counts for a new attempt.
"""

from typing import Generic, Protocol, TypeAlias, TypeVar

from slackwater.group.messages import OffsetToCommit
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.value_class import value_class


class WorkRecord(Protocol):
    """The fields of a record that the scheduler reads."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def size(self) -> int: ...


R = TypeVar("R", bound=WorkRecord)


@value_class
class StartTask(Generic[R]):
    """Start processing this record in a free worker; `attempt` counts from 1."""

    task_id: int
    record: R
    attempt: int


@value_class
class WriteDeadLetter(Generic[R]):
    """Write this record to the dead-letter topic: its attempts are exhausted."""

    task_id: int
    record: R
    error: BaseException
    attempts: int


@value_class
class StopProcessing(Generic[R]):
    """Stop: this record's attempts are exhausted, and no further task starts."""

    record: R
    error: BaseException
    attempts: int


@value_class
class AbandonTasks:
    """The results of these tasks no longer count. Cancel them if possible; report their end in any case."""

    task_ids: tuple[int, ...]


@value_class
class PausePartitions:
    """Pause fetching of these partitions."""

    partitions: tuple[TopicPartition, ...]


@value_class
class ResumePartitions:
    """Resume fetching of these partitions."""

    partitions: tuple[TopicPartition, ...]


@value_class
class CommitFinished:
    """Commit these offsets; call `on_commit_failed` if that fails."""

    offsets: tuple[OffsetToCommit, ...]


@value_class
class PartitionsDrained:
    """These partitions can be revoked after their final offsets are committed; the scheduler no longer owns them."""

    partitions: tuple[TopicPartition, ...]
    offsets: tuple[OffsetToCommit, ...]


WorkEffect: TypeAlias = (
    StartTask[R]
    | WriteDeadLetter[R]
    | StopProcessing[R]
    | AbandonTasks
    | PausePartitions
    | ResumePartitions
    | CommitFinished
    | PartitionsDrained
)
