"""One record on its way through the workers: its states, and what each does with every input.

Rules kept here
- Every state answers every input: a missing pair is a bug, and a test looks for it. `None` means that the input is
  late or repeated and changes nothing.
- Only `Task.move()` changes a state, and only along MOVES.

QUEUED waits for its lane and for a worker; RUNNING is with a worker; RETRYING waits for its back-off to end.
DEAD_LETTERING waits for the dead-letter write, REWRITING for the back-off after such a write failed.
ABANDONED is still in a worker's hands, but its partition is gone and its result counts for nothing.
DONE, FAILED and DROPPED are ends: finished (perhaps as a dead letter), given up, left to the next owner.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Generic

from slackwater.group.work.effects import R

if TYPE_CHECKING:
    from slackwater.group.work.partition import PartitionWork


class TaskState(IntEnum):
    """Where a record stands."""

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
    """What happens to a record; the four ways a failed attempt can go are four inputs."""

    HAND_OUT = 0  # a worker is free
    FINISH = 1  # the worker succeeded
    RETRY = 2  # the worker failed, attempts are left
    SET_ASIDE = 3  # the worker failed for the last time: dead letter
    GIVE_UP = 4  # the worker failed for the last time: stop
    HAND_BACK = 5  # the worker failed while the partition drains: it is the next owner's turn
    DUE = 6  # the back-off is over
    WRITTEN = 7  # the dead letter is written
    WRITE_FAILED = 8  # it is not
    LEAVE_UNWRITTEN = 9  # it is not, and the partition drains
    DROP = 10  # the partition is gone


_S = TaskState
_I = TaskInput
_LATE: Final[dict[TaskInput, TaskState | None]] = dict.fromkeys(TaskInput)

MOVES: Final[dict[TaskState, dict[TaskInput, TaskState | None]]] = {
    _S.QUEUED: {
        **_LATE,
        _I.HAND_OUT: _S.RUNNING,
        _I.DROP: _S.DROPPED,
    },
    _S.RUNNING: {
        **_LATE,
        _I.FINISH: _S.DONE,
        _I.RETRY: _S.RETRYING,
        _I.SET_ASIDE: _S.DEAD_LETTERING,
        _I.GIVE_UP: _S.FAILED,
        _I.HAND_BACK: _S.DROPPED,
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
    # However the worker ends, it is free again and nothing else happens.
    _S.ABANDONED: {
        **_LATE,
        _I.FINISH: _S.DROPPED,
        _I.RETRY: _S.DROPPED,
        _I.SET_ASIDE: _S.DROPPED,
        _I.GIVE_UP: _S.DROPPED,
        _I.HAND_BACK: _S.DROPPED,
    },
    _S.DONE: {**_LATE},
    _S.FAILED: {**_LATE, _I.DROP: _S.DROPPED},
    _S.DROPPED: {**_LATE},
}


class Task(Generic[R]):
    """A record, its lane and its attempts; both live exactly as long as the partition's assignment."""

    __slots__ = ("attempts", "error", "lane", "number", "offset", "partition", "record", "size", "state", "writes")

    def __init__(self, record: R, offset: int, partition: "PartitionWork[R]", lane: bytes | None, number: int) -> None:
        self.record = record
        self.offset = offset
        self.partition = partition
        self.lane = lane  # None: in nobody's way
        self.number = number  # counts the records received of this assignment
        self.size = record.size
        self.state = TaskState.QUEUED
        self.attempts = 0
        self.writes = 0
        self.error: BaseException | None = None

    def move(self, what: TaskInput) -> TaskState | None:
        """Change the state by the table; None if the input is late."""
        state = MOVES[self.state][what]
        if state is not None:
            self.state = state
        return state
