"""The state of a coordinator: settings, groups, partitions of the offsets topic, timers, and pending writes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.group import ClassicGroup, OffsetsExpiration, TimerOwner
from slackwater.group.coordinator.records import CoordinatorRecord
from slackwater.group.coordinator.timers import Timers
from slackwater.group.coordinator.triggers import KnownTopic
from slackwater.group.errors import Error
from slackwater.group.internal_topics import offsets_partition

if TYPE_CHECKING:
    from slackwater.group.coordinator.effect_collector import EffectCollector

WriteCallback = Callable[["EffectCollector", Error], None]


class PendingWrite(NamedTuple):
    """An append whose result is not known yet."""

    offsets_partition: int
    records: tuple[CoordinatorRecord, ...]
    callback: WriteCallback
    producer_id: int | None = None  # of the transaction that the records belong to


class OffsetsPartition:
    """One partition of the offsets topic that this coordinator owns or is loading."""

    __slots__ = ("epoch", "expiration", "groups", "loading")

    def __init__(self, number: int, epoch: int) -> None:
        self.epoch = epoch
        self.loading = True
        self.groups: dict[str, ClassicGroup] = {}  # only while loading; then they move to CoordinatorState.groups
        self.expiration = OffsetsExpiration(number)


class CoordinatorState:
    """Everything that request handlers and timers read and change."""

    __slots__ = (
        "config",
        "groups",
        "last_write_id",
        "offsets_partitions",
        "timers",
        "topics",
        "transactions",
        "wall_offset_ms",
        "writes",
    )

    def __init__(self, config: CoordinatorConfig) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets_partitions: dict[int, OffsetsPartition] = {}
        self.timers: Timers[TimerOwner] = Timers()
        self.wall_offset_ms = 0  # wall time minus the time of the timers
        self.writes: dict[int, PendingWrite] = {}
        self.last_write_id = 0
        # Groups with pending offsets, by the partition of the offsets topic and the producer id.
        self.transactions: dict[tuple[int, int], dict[str, None]] = {}
        self.topics: dict[str, KnownTopic] | None = None  # None: this coordinator does not know the topics

    def offsets_partition_of(self, group_id: str) -> int:
        """Return the partition of the offsets topic that stores a group (CO-01)."""
        return offsets_partition(group_id, self.config.offsets_topic_num_partitions)

    def unavailable_error(self, group_id: str) -> Error:
        """Return why this coordinator cannot serve a group now, or NONE (CO-02)."""
        partition = self.offsets_partitions.get(self.offsets_partition_of(group_id))
        if partition is None:
            return Error.NOT_COORDINATOR
        return Error.COORDINATOR_LOAD_IN_PROGRESS if partition.loading else Error.NONE
