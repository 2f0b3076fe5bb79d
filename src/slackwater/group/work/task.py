"""One record in the work scheduler: its states and transitions.

Invariants:
- The table has an entry for every state and input; a test checks it. `None` means that the input is late or repeated
  and has no effect.
- Only `Task.apply()` changes a state, and only along TASK_TRANSITIONS.

QUEUED waits for its ordering key and for a worker; RUNNING is with a worker; RETRYING waits for its backoff.
DEAD_LETTERING waits for the dead-letter write, REWRITING for the backoff after a failed write. ABANDONED is still with
a worker, but its partition is no longer owned and its result is ignored. DONE, FAILED and DROPPED are final: finished
(perhaps as a dead letter), given up, left to the next owner.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Generic

from slackwater.group.work.effects import R

if TYPE_CHECKING:
    from slackwater.group.work.partition import PartitionWork


class TaskState(IntEnum):
    """The state of a task."""

    QUEUED = 0
    RUNNING = 1
    RETRYING = 2
    DEAD_LETTERING = 3
    REWRITING = 4
    ABANDONED = 5
    DONE = 6
    FAILED = 7
    DROPPED = 8


class TaskInput(IntEnum):
    """The inputs of a task; a failed attempt has four possible inputs."""

    START = 0  # a worker is free
    FINISH = 1  # the worker succeeded
    RETRY = 2  # the worker failed, attempts remain
    DEAD_LETTER = 3  # the worker failed for the last time: dead letter
    FAIL = 4  # the worker failed for the last time: stop
    RETURN_UNPROCESSED = 5  # the worker failed while the partition drains: left to the next owner
    DUE = 6  # the backoff ended
    WRITTEN = 7  # the dead letter is written
    WRITE_FAILED = 8  # the dead-letter write failed
    LEAVE_UNWRITTEN = 9  # the dead-letter write failed while the partition drains
    DROP = 10  # the partition is no longer owned


_S = TaskState
_I = TaskInput
_LATE: Final[dict[TaskInput, TaskState | None]] = dict.fromkeys(TaskInput)

TASK_TRANSITIONS: Final[dict[TaskState, dict[TaskInput, TaskState | None]]] = {
    _S.QUEUED: {
        **_LATE,
        _I.START: _S.RUNNING,
        _I.DROP: _S.DROPPED,
    },
    _S.RUNNING: {
        **_LATE,
        _I.FINISH: _S.DONE,
        _I.RETRY: _S.RETRYING,
        _I.DEAD_LETTER: _S.DEAD_LETTERING,
        _I.FAIL: _S.FAILED,
        _I.RETURN_UNPROCESSED: _S.DROPPED,
        _I.DROP: _S.ABANDONED,
    },
    _S.RETRYING: {
        **_LATE,
        _I.DUE: _S.QUEUED,
        _I.DROP: _S.DROPPED,
    },
    _S.DEAD_LETTERING: {
        **_LATE,
        _I.WRITTEN: _S.DONE,
        _I.WRITE_FAILED: _S.REWRITING,
        _I.LEAVE_UNWRITTEN: _S.DROPPED,
        _I.DROP: _S.DROPPED,
    },
    _S.REWRITING: {
        **_LATE,
        _I.DUE: _S.DEAD_LETTERING,
        _I.DROP: _S.DROPPED,
    },
    # Any result only frees the worker.
    _S.ABANDONED: {
        **_LATE,
        _I.FINISH: _S.DROPPED,
        _I.RETRY: _S.DROPPED,
        _I.DEAD_LETTER: _S.DROPPED,
        _I.FAIL: _S.DROPPED,
        _I.RETURN_UNPROCESSED: _S.DROPPED,
    },
    _S.DONE: {**_LATE},
    _S.FAILED: {**_LATE, _I.DROP: _S.DROPPED},
    _S.DROPPED: {**_LATE},
}


class Task(Generic[R]):
    """A record, its ordering key and its attempts, for one assignment of the partition."""

    __slots__ = ("attempts", "error", "number", "offset", "order_key", "partition", "record", "size", "state", "writes")

    def __init__(
        self, record: R, offset: int, partition: "PartitionWork[R]", order_key: bytes | None, number: int
    ) -> None:
        self.record = record
        self.offset = offset
        self.partition = partition
        self.order_key = order_key  # None: unordered
        self.number = number  # index among the records received in this assignment
        self.size = record.size
        self.state = TaskState.QUEUED
        self.attempts = 0
        self.writes = 0
        self.error: BaseException | None = None

    def apply(self, task_input: TaskInput) -> TaskState | None:
        """Apply the input to the table; returns None if the input is late."""
        state = TASK_TRANSITIONS[self.state][task_input]
        if state is not None:
            self.state = state
        return state
