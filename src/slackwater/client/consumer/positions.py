"""Where a consumer stands in each of its partitions, and what was fetched ahead of that.

Rules kept here
- `position` is the offset of the next record that the application gets. What was fetched lies between it and `ahead`,
  where the next fetch begins.
- A partition is read only when it has a position: the group's committed one, one that was sought, or, failing both, the
  one that `auto.offset.reset` finds.
- Whatever makes fetched data useless (a seek, a loss, a new assignment) changes `stamp`; an answer to an older stamp is
  dropped.
- A paused partition keeps what it has and gives out nothing.
- Everything is called under the consumer's lock.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.compression import Buffer

if TYPE_CHECKING:
    from slackwater.client.consumer.decoding import OpenRecords, OpenTable

CHUNKS_AHEAD: Final = 2


class Chunk:
    """What one fetch brought of a partition, not unpacked yet."""

    __slots__ = ("aborted", "data", "leader_epoch", "start")

    def __init__(self, start: int, data: Buffer, aborted: list[tuple[int, int]] | None, leader_epoch: int) -> None:
        self.start = start
        self.data = data
        self.aborted = aborted
        self.leader_epoch = leader_epoch


class PartitionState:
    """One partition of a consumer."""

    __slots__ = (
        "ahead",
        "asked_committed",
        "chunks",
        "fetching",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "opened",
        "partition",
        "paused",
        "position",
        "preferred_replica",
        "reset_to",
        "resetting",
        "stamp",
        "stuck",
    )

    def __init__(self, partition: TopicPartition, stamp: int) -> None:
        self.partition = partition
        self.stamp = stamp
        self.position: int | None = None
        self.leader_epoch = -1  # of the last record before the position
        self.reset_to: int | None = None  # a timestamp of ListOffsets
        self.resetting = False  # an answer is under way
        self.asked_committed = False
        self.paused = False
        self.fetching = False
        self.stuck = False  # an error is to be raised first
        self.ahead = 0
        self.chunks: deque[Chunk] = deque()
        self.opened: OpenRecords | OpenTable | None = None  # the chunk that is being given out
        self.preferred_replica: tuple[int, float] | None = None  # node, and until when
        self.log_start_offset: int | None = None
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None

    @property
    def buffered_bytes(self) -> int:
        """The bytes that were fetched and not given out."""
        opened = self.opened
        return sum(len(chunk.data) for chunk in self.chunks) + (len(opened.chunk.data) if opened is not None else 0)

    @property
    def lag(self) -> int | None:
        """How many offsets lie between the position and the end, as far as known."""
        if self.position is None or self.high_watermark is None:
            return None
        return max(self.high_watermark - self.position, 0)

    def wants_data(self) -> bool:
        """Whether another fetch makes sense."""
        busy = self.paused or self.fetching or self.stuck
        return self.position is not None and not busy and len(self.chunks) < CHUNKS_AHEAD


class Positions:
    """All partitions that a consumer reads."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._stamp = 0

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """A partition that is assigned."""
        return self._states.get(partition)

    def of(self, partition: TopicPartition) -> PartitionState:
        """A partition that must be assigned."""
        state = self._states.get(partition)
        if state is None:
            raise UsageError(f"{partition} is not assigned to this consumer; assign it, or wait until the group does.")
        return state

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; what is read already stays where it is."""
        wanted = list(dict.fromkeys(partitions))
        self._states = {partition: self._states.get(partition) or self._fresh(partition) for partition in wanted}

    def _fresh(self, partition: TopicPartition) -> PartitionState:
        self._stamp += 1
        return PartitionState(partition, self._stamp)

    def seek(self, state: PartitionState, offset: int, leader_epoch: int = -1) -> None:
        """Go on from here."""
        self._forget(state)
        state.position = state.ahead = offset
        state.leader_epoch = leader_epoch
        state.reset_to = None

    def reset(self, state: PartitionState, timestamp: int) -> None:
        """Go on from where ListOffsets says."""
        self._forget(state)
        state.position = None
        state.leader_epoch = -1
        state.reset_to = timestamp

    def _forget(self, state: PartitionState) -> None:
        self._stamp += 1
        state.stamp = self._stamp
        state.chunks.clear()
        state.opened = None
        state.fetching = state.resetting = state.stuck = False
        state.preferred_replica = None

    def turn_over(self, state: PartitionState) -> None:
        """Put a partition behind the others, so that none starves."""
        if self._states.pop(state.partition, None) is not None:
            self._states[state.partition] = state

    @property
    def buffered_bytes(self) -> int:
        """What all partitions hold."""
        return sum(state.buffered_bytes for state in self._states.values())
