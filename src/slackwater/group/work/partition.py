"""The work of one partition in one assignment: its lanes, how far it has come, and whether it is full.

Rules kept here
- A lane has at most one record under way (ready, with a worker, waiting for a retry, or being dead-lettered); the
  others wait behind it in the order received.
- `position()` never passes a record that is not finished.
- Every step costs the same however many records there are.

The position needs no list of what was finished out of order: it is the offset of the first record that is not. Those
are kept in the order received in an `OrderedDict`, which, unlike `dict`, finds its first key in one step after any
number of deletions at the front. Offsets may have gaps (compaction, transaction markers): the position jumps over them.
"""

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, Generic

from slackwater.group.messages import OffsetToCommit
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.work.config import WorkConfig
from slackwater.group.work.effects import R
from slackwater.group.work.task import Task, TaskInput, TaskState

if TYPE_CHECKING:
    from slackwater.group.work.revocation import Revocation

UNKNOWN: Final = -1
PARTITION_LANE: Final = b""  # the one lane there is when order is kept per partition


class PartitionWork(Generic[R]):
    """One partition between `assigned` and the end of its assignment."""

    __slots__ = (
        "full",
        "lanes",
        "next_offset",
        "out",
        "paused",
        "ready",
        "received",
        "reported",
        "revocation",
        "rotating",
        "start",
        "topic_partition",
        "unfinished",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.unfinished: OrderedDict[int, Task[R]] = OrderedDict()
        self.lanes: dict[bytes, deque[Task[R]] | None] = {}  # shut lanes, and who waits in them
        self.ready: deque[Task[R]] = deque()  # at most one record per lane
        self.rotating = False  # whether the scheduler has this partition in its rotation
        self.received = 0
        self.out = 0  # records with a worker or with the dead-letter writer: what a drain waits for
        self.start = UNKNOWN  # where this assignment began
        self.next_offset = UNKNOWN  # the position once everything received is finished
        self.reported = UNKNOWN  # the position last given out in a `Commit`
        self.full = False
        self.paused = False  # as the shell was last told
        self.revocation: Revocation[R] | None = None  # set while it drains

    def enqueue(self, task: Task[R]) -> None:
        """Put a record behind the others of its lane."""
        self.unfinished[task.offset] = task
        lane = task.lane
        if lane is None:
            self.ready.append(task)
        elif lane not in self.lanes:
            # Most lanes of KEY order never see a second record at a time: they get a queue when they do.
            self.lanes[lane] = None
            self.ready.append(task)
        elif (waiting := self.lanes[lane]) is not None:
            waiting.append(task)
        else:
            self.lanes[lane] = deque((task,))

    def release(self, lane: bytes) -> None:
        """The record under way in this lane has come to its end: the next one is ready."""
        waiting = self.lanes[lane]
        if waiting:
            self.ready.append(waiting.popleft())
        else:
            del self.lanes[lane]

    def advance_to(self, next_offset: int) -> None:
        """Note that nothing below `next_offset` will be received any more."""
        if next_offset > self.next_offset:
            self.next_offset = next_offset

    def position(self) -> int:
        """The offset below which everything is finished, or UNKNOWN before anything was received."""
        first = next(iter(self.unfinished), self.next_offset)
        return first if first < self.next_offset else self.next_offset

    def to_commit(self, after: int) -> list[OffsetToCommit]:
        """The position, if it lies beyond `after`."""
        position = self.position()
        return [OffsetToCommit(*self.topic_partition, position)] if position > after else []

    def span(self) -> int:
        """How many records were received from the first unfinished one on: what a crash would process again."""
        first = next(iter(self.unfinished.values()), None)
        return 0 if first is None else self.received - first.number

    def measure(self, config: WorkConfig) -> None:
        """Set `full`, with the hysteresis of the marks."""
        if self.full:
            self.full = (
                len(self.unfinished) > config.low_water_records or self.span() > config.replay_bound_records // 2
            )
        else:
            self.full = len(self.unfinished) >= config.high_water_records or self.span() >= config.replay_bound_records

    def hand_back(self, task: Task[R]) -> None:
        """Leave a record to the partition's next owner, who must then start with it at the latest."""
        del self.unfinished[task.offset]
        self.next_offset = min(self.next_offset, task.offset)

    def stop(self) -> list[Task[R]]:
        """Hand back whatever nobody is busy with, and return it."""
        self.ready.clear()
        self.lanes.clear()
        busy = (TaskState.RUNNING, TaskState.DEAD_LETTERING)
        idle = [task for task in self.unfinished.values() if task.state not in busy]
        for task in idle:
            task.move(TaskInput.DROP)
            self.hand_back(task)
        return idle
