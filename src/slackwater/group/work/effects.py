"""What the work scheduler wants done, in order.

Rules kept here
- The shell carries effects out in the order given.
- Every `Start` is answered, once, by `finished` or `failed`, even after an `Abandon`: a worker is free only then.
- Every `DeadLetter` is answered, once, by `dead_letter_written` or `dead_letter_failed`.
- Every `revoke` is answered by exactly one `Drained`, at its deadline at the latest.
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
class Start(Generic[R]):
    """Give this record to a free worker; `attempt` counts from 1."""

    task_id: int
    record: R
    attempt: int


@message
class DeadLetter(Generic[R]):
    """Write this record to the dead-letter topic: its attempts are used up."""

    task_id: int
    record: R
    error: BaseException
    attempts: int


@message
class Fail(Generic[R]):
    """Stop: this record's attempts are used up, and nothing further is handed out."""

    record: R
    error: BaseException
    attempts: int


@message
class Abandon:
    """These tasks' results no longer count; stop them if you can, and answer them all the same."""

    task_ids: tuple[int, ...]


@message
class Pause:
    """Fetch nothing more of these partitions."""

    partitions: tuple[TopicPartition, ...]


@message
class Resume:
    """Fetch these partitions again."""

    partitions: tuple[TopicPartition, ...]


@message
class Commit:
    """Commit these offsets; tell `commit_failed` if that did not work."""

    offsets: tuple[OffsetToCommit, ...]


@message
class Drained:
    """These partitions can go: commit their final offsets first. Nothing of them is owned any more."""

    partitions: tuple[TopicPartition, ...]
    offsets: tuple[OffsetToCommit, ...]


WorkEffect: TypeAlias = Start[R] | DeadLetter[R] | Fail[R] | Abandon | Pause | Resume | Commit | Drained
