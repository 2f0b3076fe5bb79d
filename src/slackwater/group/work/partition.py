"""The work of one partition during one assignment: its queues, its position, and whether it is full.

Invariants:
- An ordering key has at most one active record (ready, running, waiting for a retry, or being dead-lettered); the
  others wait in the order received.
- `position()` never passes an unfinished record.
- Every operation takes constant time.

The position is the offset of the first unfinished record, so finished records need no list. Unfinished records are kept
in the order received in an `OrderedDict`, which, unlike `dict`, finds its first key in constant time after deletions at
the front. Offsets may have gaps (compaction, transaction markers): the position skips them.
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
PARTITION_KEY: Final = b""  # the only ordering key under ProcessingOrder.PARTITION


class PartitionWork(Generic[R]):
    """One partition from `on_assigned` to the end of its assignment."""

    __slots__ = (
        "active_count",
        "is_full",
        "is_paused",
        "is_rotating",
        "next_offset",
        "queues",
        "ready",
        "received",
        "reported",
        "revocation",
        "start",
        "topic_partition",
        "unfinished",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.unfinished: OrderedDict[int, Task[R]] = OrderedDict()
        self.queues: dict[
            bytes, deque[Task[R]] | None
        ] = {}  # by ordering key with an active record: the tasks that wait for it
        self.ready: deque[Task[R]] = deque()  # at most one task per ordering key
        self.is_rotating = False  # whether the scheduler's rotation contains this partition
        self.received = 0
        self.active_count = 0  # tasks with a worker or the dead-letter writer; a drain waits for them
        self.start = UNKNOWN  # the first offset of this assignment
        self.next_offset = UNKNOWN  # the position when everything received is finished
        self.reported = UNKNOWN  # the position in the last `CommitFinished`
        self.is_full = False
        self.is_paused = False  # according to the last effect
        self.revocation: Revocation[R] | None = None  # set while the partition drains

    def enqueue(self, task: Task[R]) -> None:
        """Append a task to the queue of its ordering key."""
        self.unfinished[task.offset] = task
        order_key = task.order_key
        if order_key is None:
            self.ready.append(task)
        elif order_key not in self.queues:
            # Most keys never have a second record at a time: the queue is created on demand.
            self.queues[order_key] = None
            self.ready.append(task)
        elif (waiting := self.queues[order_key]) is not None:
            waiting.append(task)
        else:
            self.queues[order_key] = deque((task,))

    def release(self, order_key: bytes) -> None:
        """Make the next task of this ordering key ready after its active task ended."""
        waiting = self.queues[order_key]
        if waiting:
            self.ready.append(waiting.popleft())
        else:
            del self.queues[order_key]

    def advance_to(self, next_offset: int) -> None:
        """Record that no record below `next_offset` will be received."""
        if next_offset > self.next_offset:
            self.next_offset = next_offset

    def position(self) -> int:
        """The offset below which everything is finished, or UNKNOWN before anything was received."""
        first = next(iter(self.unfinished), self.next_offset)
        return first if first < self.next_offset else self.next_offset

    def to_commit(self, after: int) -> list[OffsetToCommit]:
        """The position, if it is beyond `after`."""
        position = self.position()
        return [OffsetToCommit(*self.topic_partition, position)] if position > after else []

    def replay_span(self) -> int:
        """The number of records received since the first unfinished one: those that a crash would process again."""
        first = next(iter(self.unfinished.values()), None)
        return 0 if first is None else self.received - first.number

    def update_full(self, config: WorkConfig) -> None:
        """Update `full`, with the hysteresis of the marks."""
        if self.is_full:
            self.is_full = (
                len(self.unfinished) > config.low_water_records
                or self.replay_span() > config.max_uncommitted_records // 2
            )
        else:
            self.is_full = (
                len(self.unfinished) >= config.high_water_records
                or self.replay_span() >= config.max_uncommitted_records
            )

    def return_unprocessed(self, task: Task[R]) -> None:
        """Leave a record to the partition's next owner, which must start with it at the latest."""
        del self.unfinished[task.offset]
        self.next_offset = min(self.next_offset, task.offset)

    def stop(self) -> list[Task[R]]:
        """Hand back all tasks that are not with a worker or the dead-letter writer, and return them."""
        self.ready.clear()
        self.queues.clear()
        busy = (TaskState.RUNNING, TaskState.DEAD_LETTERING)
        idle = [task for task in self.unfinished.values() if task.state not in busy]
        for task in idle:
            task.apply(TaskInput.DROP)
            self.return_unprocessed(task)
        return idle
