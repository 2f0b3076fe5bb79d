"""Group events: a record of every change of a consumer group.

Invariants:
- All sources use one flat schema: coordinator, member, and readers of logs and of `__consumer_offsets`.
- An unknown value is None.
- `kind` determines the type of `detail` (`DETAIL_TYPES`).
- Heartbeats and commits emit no events.
- `to_json` and `from_json` are inverses; the columns of a JSON line are in the order of the dataclass.
"""

import json
from dataclasses import KW_ONLY, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final, get_type_hints

from slackwater.group.topic_partition import TopicPartition
from slackwater.group.value_class import value_class


class EventKind(StrEnum):
    """The kind of a group event."""

    GROUP_CREATED = "group_created"
    GROUP_DELETED = "group_deleted"
    GROUP_EMPTIED = "group_emptied"
    GROUP_LOADED = "group_loaded"
    GROUP_UNLOADED = "group_unloaded"
    MEMBER_ID_ISSUED = "member_id_issued"
    PENDING_MEMBER_EXPIRED = "pending_member_expired"
    MEMBER_JOINED = "member_joined"
    MEMBER_REJOINED = "member_rejoined"
    MEMBER_REPLACED = "member_replaced"
    MEMBER_LEFT = "member_left"
    MEMBER_EXPIRED = "member_expired"
    MEMBER_DROPPED = "member_dropped"
    MEMBER_UNSYNCED = "member_unsynced"
    MEMBER_FENCED = "member_fenced"
    JOIN_REFUSED = "join_refused"
    REBALANCE_STARTED = "rebalance_started"
    REBALANCE_WAITING = "rebalance_waiting"
    GENERATION_FORMED = "generation_formed"
    LEADER_CHANGED = "leader_changed"
    REBALANCE_COMPLETED = "rebalance_completed"
    REBALANCE_FAILED = "rebalance_failed"
    OFFSETS_EXPIRED = "offsets_expired"
    OFFSETS_DELETED = "offsets_deleted"
    JOIN_REQUESTED = "join_requested"
    PARTITIONS_ASSIGNED = "partitions_assigned"
    PARTITIONS_REVOKED = "partitions_revoked"
    PARTITIONS_LOST = "partitions_lost"
    POLL_OVERRUN = "poll_overrun"
    SESSION_LOST = "session_lost"
    HEARTBEAT_REFUSED = "heartbeat_refused"
    COMMIT_REFUSED = "commit_refused"
    COORDINATOR_FOUND = "coordinator_found"
    COORDINATOR_LOST = "coordinator_lost"
    GENERATION_RECORDED = "generation_recorded"
    PROGRESS = "progress"


class Trigger(StrEnum):
    """Why a rebalance started."""

    MEMBER_JOIN = "member_join"
    MEMBER_LEAVE = "member_leave"
    POLL_TIMEOUT = "poll_timeout"
    SESSION_TIMEOUT = "session_timeout"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    SUBSCRIPTION_CHANGE = "subscription_change"
    PATTERN_MATCHED = "pattern_matched"
    PARTITIONS_ADDED = "partitions_added"
    TOPIC_DELETED = "topic_deleted"
    LEADER_REJOIN = "leader_rejoin"
    COOPERATIVE_FOLLOWUP = "cooperative_followup"
    STATIC_CHANGED = "static_changed"
    INSTANCE_CONFLICT = "instance_conflict"
    ADMIN_REMOVAL = "admin_removal"
    USER_ENFORCED = "user_enforced"
    COORDINATOR_FAILOVER = "coordinator_failover"
    OVER_CAPACITY = "over_capacity"
    PROTOCOL_CHANGE = "protocol_change"
    UNKNOWN = "unknown"


class EventSource(StrEnum):
    """Where an event comes from."""

    COORDINATOR = "coordinator"
    MEMBER = "member"
    BROKER_LOG = "broker_log"
    CLIENT_LOG = "client_log"
    OFFSETS_TOPIC = "offsets_topic"


class GroupState(StrEnum):
    """Kafka's states of a classic group, and InitialRebalance (KIP-134), which is PreparingRebalance on the wire."""

    EMPTY = "Empty"
    INITIAL_REBALANCE = "InitialRebalance"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    @property
    def wire_name(self) -> str:
        """The name of this state in DescribeGroups and ListGroups."""
        return "PreparingRebalance" if self is GroupState.INITIAL_REBALANCE else self.value


@value_class
class GroupLifecycle:
    """group_created, group_deleted, group_emptied, group_loaded, group_unloaded."""

    members: int | None = None
    epoch: int | None = None


@value_class
class MemberIdTimeout:
    """member_id_issued, pending_member_expired."""

    session_timeout_ms: int


@value_class
class MemberJoined:
    """member_joined, member_rejoined; `topics` and `client_software` (KIP-511) are those of a new consumer."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignors: tuple[str, ...]
    metadata_changed: bool | None
    reason: str | None
    topics: tuple[str, ...] = ()
    client_software: str | None = None


@value_class
class MemberReplaced:
    """member_replaced: a static member rejoined with a new member id."""

    old_member: str
    rebalance_needed: bool


@value_class
class MemberLeft:
    """member_left: `by` is `itself` or `administrator`."""

    by: str
    reason: str | None
    pending: bool = False


@value_class
class MemberTimedOut:
    """member_expired, member_dropped, member_unsynced: the timer, its duration, the time of the last request."""

    timer: str
    timer_ms: int
    last_heard_ms: int | None


@value_class
class MemberFenced:
    """member_fenced: the rejected operation, and the member id that holds the instance id."""

    operation: str
    holder: str | None


@value_class
class JoinRefused:
    """join_refused."""

    error: str


@value_class
class RebalanceStarted:
    """rebalance_started: the member that caused it, the reason in the wording of Kafka's log, the changed topics."""

    culprit: str | None
    old_generation: int
    timeout_ms: int
    initial_delay: bool
    reason: str
    topics: tuple[str, ...] = ()


@value_class
class RebalanceWaiting:
    """rebalance_waiting: the members and pending members that the rebalance waits for."""

    waiting_for: tuple[str, ...]
    until_ms: int


@value_class
class GenerationFormed:
    """generation_formed."""

    leader: str
    protocol: str
    static_members: int
    join_phase_ms: int


LEADER_FAILED_TO_JOIN: Final = "failed to join before the rebalance timeout"
LEADER_LEFT: Final = "is no longer a member"


@value_class
class LeaderChanged:
    """leader_changed: `why` is one of the reasons above."""

    old_leader: str | None
    why: str


@value_class
class RebalanceCompleted:
    """rebalance_completed."""

    duration_ms: int


@value_class
class RebalanceFailed:
    """rebalance_failed."""

    error: str
    duration_ms: int


@value_class
class OffsetsRemoved:
    """offsets_expired, offsets_deleted."""

    count: int


@value_class
class JoinRequested:
    """join_requested."""

    reason: str


@value_class
class PartitionsChanged:
    """partitions_assigned, partitions_revoked, partitions_lost; `callback_ms` is the duration of the listener."""

    partitions: tuple[TopicPartition, ...]
    callback_ms: int | None = None


@value_class
class PollOverrun:
    """poll_overrun."""

    limit_ms: int
    over_ms: int


@value_class
class RequestRefused:
    """session_lost, heartbeat_refused, commit_refused."""

    error: str
    generation: int | None = None


@value_class
class CoordinatorChanged:
    """coordinator_found, coordinator_lost."""

    node: str | None
    why: str | None = None


@value_class
class GenerationRecorded:
    """generation_recorded: `gap` is the number of generations since the previous record that have no record."""

    members: tuple[str, ...]
    assignment: tuple[tuple[str, tuple[TopicPartition, ...]], ...]
    gap: int | None


@value_class
class GroupProgress:
    """progress: the commits of one group in one minute."""

    commits: int
    offsets_advanced: int
    partitions: int


EventDetail = (
    GroupLifecycle
    | MemberIdTimeout
    | MemberJoined
    | MemberReplaced
    | MemberLeft
    | MemberTimedOut
    | MemberFenced
    | JoinRefused
    | RebalanceStarted
    | RebalanceWaiting
    | GenerationFormed
    | LeaderChanged
    | RebalanceCompleted
    | RebalanceFailed
    | OffsetsRemoved
    | JoinRequested
    | PartitionsChanged
    | PollOverrun
    | RequestRefused
    | CoordinatorChanged
    | GenerationRecorded
    | GroupProgress
)

DETAIL_TYPES: Final[dict[EventKind, type[EventDetail]]] = {
    EventKind.GROUP_CREATED: GroupLifecycle,
    EventKind.GROUP_DELETED: GroupLifecycle,
    EventKind.GROUP_EMPTIED: GroupLifecycle,
    EventKind.GROUP_LOADED: GroupLifecycle,
    EventKind.GROUP_UNLOADED: GroupLifecycle,
    EventKind.MEMBER_ID_ISSUED: MemberIdTimeout,
    EventKind.PENDING_MEMBER_EXPIRED: MemberIdTimeout,
    EventKind.MEMBER_JOINED: MemberJoined,
    EventKind.MEMBER_REJOINED: MemberJoined,
    EventKind.MEMBER_REPLACED: MemberReplaced,
    EventKind.MEMBER_LEFT: MemberLeft,
    EventKind.MEMBER_EXPIRED: MemberTimedOut,
    EventKind.MEMBER_DROPPED: MemberTimedOut,
    EventKind.MEMBER_UNSYNCED: MemberTimedOut,
    EventKind.MEMBER_FENCED: MemberFenced,
    EventKind.JOIN_REFUSED: JoinRefused,
    EventKind.REBALANCE_STARTED: RebalanceStarted,
    EventKind.REBALANCE_WAITING: RebalanceWaiting,
    EventKind.GENERATION_FORMED: GenerationFormed,
    EventKind.LEADER_CHANGED: LeaderChanged,
    EventKind.REBALANCE_COMPLETED: RebalanceCompleted,
    EventKind.REBALANCE_FAILED: RebalanceFailed,
    EventKind.OFFSETS_EXPIRED: OffsetsRemoved,
    EventKind.OFFSETS_DELETED: OffsetsRemoved,
    EventKind.JOIN_REQUESTED: JoinRequested,
    EventKind.PARTITIONS_ASSIGNED: PartitionsChanged,
    EventKind.PARTITIONS_REVOKED: PartitionsChanged,
    EventKind.PARTITIONS_LOST: PartitionsChanged,
    EventKind.POLL_OVERRUN: PollOverrun,
    EventKind.SESSION_LOST: RequestRefused,
    EventKind.HEARTBEAT_REFUSED: RequestRefused,
    EventKind.COMMIT_REFUSED: RequestRefused,
    EventKind.COORDINATOR_FOUND: CoordinatorChanged,
    EventKind.COORDINATOR_LOST: CoordinatorChanged,
    EventKind.GENERATION_RECORDED: GenerationRecorded,
    EventKind.PROGRESS: GroupProgress,
}


@value_class
class GroupEvent:
    """One event; a row of the event table."""

    _: KW_ONLY
    time_ms: int
    cluster: str | None = None
    group: str
    kind: EventKind
    trigger: Trigger | None = None
    generation: int | None = None
    state_before: GroupState | None = None
    state_after: GroupState | None = None
    member: str | None = None
    instance: str | None = None
    client: str | None = None
    host: str | None = None
    protocol_type: str | None = None
    assignor: str | None = None
    members: int | None = None
    detail: EventDetail | None = None
    source: EventSource
    evidence: str | None = None

    def to_json(self) -> str:
        """Return this event as one JSON line, without the newline."""
        return _encode(_plain(self))

    @classmethod
    def from_json(cls, line: str) -> "GroupEvent":
        """Parse a line written by `to_json`."""
        row = json.loads(line)
        kind = EventKind(row["kind"])
        row["detail"] = None if row["detail"] is None else _build(DETAIL_TYPES[kind], row["detail"])
        for name, enum in _ENUMS.items():
            row[name] = None if row[name] is None else enum(row[name])
        return cls(**row)


@value_class
class PublishEvent:
    """The effect of a state machine that publishes a group event."""

    event: GroupEvent


_ENUMS: Final[dict[str, type[StrEnum]]] = {
    "kind": EventKind,
    "source": EventSource,
    "trigger": Trigger,
    "state_before": GroupState,
    "state_after": GroupState,
}


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SCALARS: Final = frozenset({str, int, bool, type(None), *_ENUMS.values()})
_columns: Final[dict[type, tuple[str, ...]]] = {}
"""Cache: the field names of a class, empty if it is not a dataclass."""


def _plain(value: object) -> object:
    kind = type(value)
    if kind in _SCALARS:
        return value
    columns = _columns.get(kind)
    if columns is None:
        columns = _columns[kind] = tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
    if columns:
        row = {name: getattr(value, name) for name in columns}
        for name, field_value in row.items():
            if type(field_value) not in _SCALARS:
                row[name] = _plain(field_value)
        return row
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _build(detail: type[EventDetail], row: dict[str, Any]) -> EventDetail:
    hints = get_type_hints(detail)
    return detail(**{name: _typed(hints[name], value) for name, value in row.items()})


def _typed(hint: Any, value: Any) -> Any:
    """Convert JSON lists to the tuples and partitions that `hint` names."""
    if not isinstance(value, list):
        return value
    if hint is TopicPartition:
        return TopicPartition(*value)
    inner = hint.__args__
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_typed(inner[0], item) for item in value)
    return tuple(_typed(item_hint, item) for item_hint, item in zip(inner, value, strict=True))
