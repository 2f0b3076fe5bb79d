"""One call of the coordinator: one input, the time, and the effects it leads to, in order.

Rules kept here
- Handlers answer, append and tell only through a turn, so the order of effects is the order of decisions.
- What waits for a write is a function of the turn in which the write's outcome arrives. Records are applied when they
  are written, in the order of the appends, before anything else is told of it; an unload settles what is outstanding
  with NOT_COORDINATOR.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.effects import AppendRecords, Effect, EmitEvent, SendResponse
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, OffsetsSweep, PendingMember, TimerOwner
from slackwater.group.coordinator.records import CommittedOffset, CoordinatorRecord, GroupMetadata
from slackwater.group.coordinator.timers import Timers
from slackwater.group.errors import Error
from slackwater.group.events import EventDetail, EventKind, EventSource, GroupEvent, GroupState, Trigger
from slackwater.group.java_order import string_hash
from slackwater.group.messages import Response

WriteCallback = Callable[["EffectCollector", Error], None]

# SG-08: what a failed write means to the client that waits for it.
_WRITE_ERRORS: Final = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.INVALID_FETCH_SIZE: Error.UNKNOWN_SERVER_ERROR,
}


def response_error(error: Error) -> Error:
    """The error a client is told when a write it depends on failed with `error`."""
    return _WRITE_ERRORS.get(error, error)


class PendingWrite(NamedTuple):
    """An append whose outcome is not known yet."""

    shard: int
    records: tuple[CoordinatorRecord, ...]
    then: WriteCallback


class OffsetsPartition:
    """One partition of the offsets topic that this coordinator owns, or is loading."""

    __slots__ = ("epoch", "groups", "loading", "sweep")

    def __init__(self, number: int, epoch: int) -> None:
        self.epoch = epoch
        self.loading = True
        self.groups: dict[str, ClassicGroup] = {}  # while loading; afterwards they are the coordinator's
        self.sweep = OffsetsSweep(number)


class CoordinatorState:
    """What every turn works on: settings, groups, shards, timers, outstanding writes."""

    __slots__ = ("config", "groups", "last_write_id", "shards", "timers", "writes")

    def __init__(self, config: CoordinatorConfig) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.shards: dict[int, OffsetsPartition] = {}
        self.timers: Timers[TimerOwner] = Timers()
        self.writes: dict[int, PendingWrite] = {}
        self.last_write_id = 0

    def shard_of(self, group_id: str) -> int:
        """The partition of the offsets topic that holds a group: Java's string hash, made positive (CO-01)."""
        code = string_hash(group_id)
        signed = code - (1 << 32) if code >= 1 << 31 else code
        return (0 if signed == -(1 << 31) else abs(signed)) % self.config.offsets_topic_num_partitions

    def refusal(self, group_id: str) -> Error:
        """Why this coordinator cannot speak for a group now, or NONE (CO-02)."""
        shard = self.shards.get(self.shard_of(group_id))
        if shard is None:
            return Error.NOT_COORDINATOR
        return Error.COORDINATOR_LOAD_IN_PROGRESS if shard.loading else Error.NONE


class EffectCollector:
    """Collects the effects of one input."""

    __slots__ = ("desk", "effects", "now_ms")

    def __init__(self, desk: CoordinatorState, now_ms: int) -> None:
        self.desk = desk
        self.now_ms = now_ms
        self.effects: list[Effect] = []

    def answer(self, caller: object, response: Response) -> None:
        """Answer a request."""
        self.effects.append(SendResponse(caller, response))

    def append(self, shard: int, records: Iterable[CoordinatorRecord], then: WriteCallback) -> None:
        """Write records, all of one group; `then` runs when the outcome is known."""
        desk = self.desk
        desk.last_write_id = write_id = desk.last_write_id + 1
        written = tuple(records)
        desk.writes[write_id] = tuple.__new__(
            PendingWrite, (shard, written, then)
        )  # without the class's slower `__new__`
        if written and (group := desk.groups.get(written[0].group_id)) is not None:
            group.writing[write_id] = written
        self.effects.append(AppendRecords(write_id, shard, written))

    def also(self, then: WriteCallback) -> None:
        """Let `then` run with the outcome of the last append, too."""
        desk = self.desk
        write = desk.writes[desk.last_write_id]

        def both(turn: "EffectCollector", error: Error) -> None:
            write.then(turn, error)
            then(turn, error)

        desk.writes[desk.last_write_id] = PendingWrite(write.shard, write.records, both)

    def settle(self, write_id: int, error: Error) -> None:
        """Take over what was written, or not, and go on with whatever waited for it."""
        write = self.desk.writes.pop(write_id, None)
        if write is None:
            return  # settled when its shard was unloaded
        _, records, then = write
        if records and (group := self.desk.groups.get(records[0].group_id)) is not None:
            group.writing.pop(write_id, None)
            if error is Error.NONE:
                group.apply(records)
        then(self, error)

    def give_up(self, write_id: int) -> None:
        """Let whoever waits for a write wait no longer; what becomes of it is taken over later, in silence."""
        write = self.desk.writes.get(write_id)
        if write is not None:
            self.desk.writes[write_id] = PendingWrite(write.shard, write.records, _nobody_waits)
            write.then(self, Error.REQUEST_TIMED_OUT)

    def tell(
        self,
        group: ClassicGroup,
        kind: EventKind,
        detail: EventDetail | None = None,
        *,
        who: ClassicGroupMember | PendingMember | None = None,
        trigger: Trigger | None = None,
        before: GroupState | None = None,
        member_id: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        """Emit a group event."""
        event = GroupEvent(
            time_ms=self.now_ms,
            cluster=self.desk.config.cluster,
            group=group.group_id,
            kind=kind,
            trigger=trigger,
            generation=group.generation_id,
            state_before=before,
            state_after=group.state,
            member=who.member_id if who is not None else member_id,
            instance=who.group_instance_id if isinstance(who, ClassicGroupMember) else instance_id,
            client=who.client_id if who is not None else None,
            host=who.client_host if who is not None else None,
            protocol_type=group.protocol_type,
            assignor=group.protocol_name,
            members=len(group.members),
            detail=detail,
            source=EventSource.COORDINATOR,
        )
        self.effects.append(EmitEvent(event))


def _nobody_waits(turn: EffectCollector, error: Error) -> None:
    """What comes after a write that was given up."""


def group_tombstones(group: ClassicGroup) -> list[CoordinatorRecord]:
    """Everything it takes to forget a group, offsets on their way to the log included."""
    partitions = sorted({*group.offsets, *group.unwritten()})
    return [
        *(CommittedOffset(group.group_id, topic, partition, None) for topic, partition in partitions),
        GroupMetadata(group.group_id, None),
    ]
