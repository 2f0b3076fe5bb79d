"""The position of each assigned partition and the batches fetched ahead of it.

Invariants:
- `position` is the offset of the next record that poll() returns. Fetched batches lie between `position` and
  `fetch_offset`, where the next fetch starts.
- A partition is fetched only when it has a position: the committed offset, a seek, or the result of
  `auto.offset.reset`.
- A seek, a reset and a new assignment change `version`. Responses and decoded batches of an older version are
  discarded.
- A paused partition keeps its fetched batches and returns no records.
- All methods are called with the consumer's lock held.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from slackwater.client.network.fetch import FetchedData
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    from slackwater.client.consumer.decoding import DecodedRecords, DecodedTable

MAX_FETCHED_RESPONSES: Final = 2


class PartitionState:
    """One assigned partition."""

    __slots__ = (
        "committed_requested",
        "decoded",
        "decoding",
        "fetch_offset",
        "fetched",
        "fetching",
        "has_error",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "paused",
        "position",
        "preferred_replica",
        "reset_timestamp",
        "resetting",
        "version",
    )

    def __init__(self, partition: TopicPartition, version: int) -> None:
        self.partition = partition
        self.version = version
        self.position: int | None = None
        self.leader_epoch = -1  # of the last record before the position
        self.reset_timestamp: int | None = None  # the ListOffsets timestamp to start from
        self.resetting = False  # a ListOffsets request is in flight
        self.committed_requested = False
        self.paused = False
        self.fetching = False
        self.has_error = False  # not fetched until the error has been raised
        self.fetch_offset = 0
        self.fetched: deque[FetchedData] = deque()
        self.decoding: FetchedData | None = None  # being decoded, without the lock
        self.decoded: DecodedRecords | DecodedTable | None = None
        self.preferred_replica: tuple[int, float] | None = None  # node id, and when the preference expires
        self.log_start_offset: int | None = None
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None

    @property
    def buffered_bytes(self) -> int:
        """The bytes that were fetched and not returned yet."""
        size = sum(len(batches.data) for batches in self.fetched)
        if self.decoding is not None:
            size += len(self.decoding.data)
        if self.decoded is not None:
            size += len(self.decoded.batches.data)
        return size

    @property
    def has_buffered(self) -> bool:
        """Whether there are fetched batches that were not returned yet."""
        return bool(self.fetched) or self.decoding is not None or self.decoded is not None

    @property
    def lag(self) -> int | None:
        """The offsets between the position and the high watermark, or None if one of them is unknown."""
        if self.position is None or self.high_watermark is None:
            return None
        return max(self.high_watermark - self.position, 0)

    @property
    def is_fetchable(self) -> bool:
        """Whether the next fetch request should include this partition."""
        blocked = self.paused or self.fetching or self.has_error
        return self.position is not None and not blocked and len(self.fetched) < MAX_FETCHED_RESPONSES

    def undo_decoding(self) -> None:
        """Put the decoded batches back, to be decoded again from the position on."""
        if self.decoded is not None:
            self.fetched.appendleft(self.decoded.batches)
            self.decoded = None


class Positions:
    """All partitions that a consumer reads."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._last_version = 0

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._states)

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition, or None if it is not assigned."""
        return self._states.get(partition)

    def require(self, partition: TopicPartition) -> PartitionState:
        """Return the state of a partition; raise `UsageError` if it is not assigned."""
        state = self._states.get(partition)
        if state is None:
            raise UsageError(f"{partition} is not assigned to this consumer; assign it, or wait until the group does.")
        return state

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those already assigned keep their state."""
        self._states = {
            partition: self._states.get(partition) or PartitionState(partition, self._next_version())
            for partition in dict.fromkeys(partitions)
        }

    def _next_version(self) -> int:
        self._last_version += 1
        return self._last_version

    def seek(self, state: PartitionState, offset: int, leader_epoch: int = -1) -> None:
        """Continue from this offset."""
        self._discard_fetched(state)
        state.position = state.fetch_offset = offset
        state.leader_epoch = leader_epoch
        state.reset_timestamp = None

    def reset(self, state: PartitionState, timestamp: int) -> None:
        """Continue from the offset that ListOffsets returns for this timestamp."""
        self._discard_fetched(state)
        state.position = None
        state.leader_epoch = -1
        state.reset_timestamp = timestamp

    def _discard_fetched(self, state: PartitionState) -> None:
        state.version = self._next_version()
        state.fetched.clear()
        state.decoding = state.decoded = None
        state.fetching = state.resetting = state.has_error = False
        state.preferred_replica = None

    def move_to_end(self, state: PartitionState) -> None:
        """Return records of all other partitions before this one, so that none starves."""
        if self._states.pop(state.partition, None) is not None:
            self._states[state.partition] = state

    @property
    def buffered_bytes(self) -> int:
        """The bytes that all partitions hold."""
        return sum(state.buffered_bytes for state in self._states.values())
