"""What the work scheduler wants done, in order.

Rules kept here
- The shell carries effects out in the order given.
- Every `StartTask` is followed by one `on_finished` or `on_failed`, even after an `AbandonTasks`: only that frees the
  worker.
- Every `WriteDeadLetter` is answered, once, by `dead_letter_written` or `dead_letter_failed`.
- Every `revoke` is answered by exactly one `PartitionsDrained`, at its deadline at the latest.
- A task id names one attempt and is never used again, so a late answer can never be taken for a new one.
"""

from typing import Generic, Protocol, TypeAlias, TypeVar

from slackwater.group.message import message
from slackwater.group.messages import OffsetToCommit
from slackwater.group.topic_partition import TopicPartition


class WorkRecord(Protocol):
    """What the scheduler must know of a record; the rest is the handler's."""

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


@message
class StartTask(Generic[R]):
    """Give this record to a free worker; `attempt` counts from 1."""

    task_id: int
    record: R
    attempt: int


@message
class WriteDeadLetter(Generic[R]):
    """Write this record to the dead-letter topic: its attempts are used up."""

    task_id: int
    record: R
    error: BaseException
    attempts: int


@message
class StopProcessing(Generic[R]):
    """Stop: this record's attempts are used up, and nothing further is handed out."""

    record: R
    error: BaseException
    attempts: int


@message
class AbandonTasks:
    """These tasks' results no longer count; stop them if you can, and answer them all the same."""

    task_ids: tuple[int, ...]


@message
class PausePartitions:
    """Fetch nothing more of these partitions."""

    partitions: tuple[TopicPartition, ...]


@message
class ResumePartitions:
    """Fetch these partitions again."""

    partitions: tuple[TopicPartition, ...]


@message
class CommitFinished:
    """Commit these offsets; tell `commit_failed` if that did not work."""

    offsets: tuple[OffsetToCommit, ...]


@message
class PartitionsDrained:
    """These partitions can go: commit their final offsets first. Nothing of them is owned any more."""

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
