"""Membership intervals: when each member id belonged to a group, and how its membership ended.

Invariants:
- An interval is one continuous membership of one member id. A classic member that comes back has a new id. A KIP-848
  member keeps its id and gets a second interval.
- The best source with any data is used: the coordinator, then the generations recorded in `__consumer_offsets`, then
  the clients' own logs.
- Values that a source does not contain (how an interval ended, when it began) are None.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import BROKER_SIDE, Row
from slackwater.doctor.events.table import OtherEventKind
from slackwater.group.events import EventKind, Trigger


class MembershipEnd(StrEnum):
    """How an interval ended."""

    LEFT = "left"
    EXPIRED = "expired"
    DROPPED = "dropped"
    UNSYNCED = "unsynced"
    REPLACED = "replaced"
    GONE = "gone"
    """The member is no longer in the group; the source does not contain the reason."""


_ENDS: Final[dict[str, MembershipEnd]] = {
    EventKind.MEMBER_LEFT: MembershipEnd.LEFT,
    EventKind.MEMBER_EXPIRED: MembershipEnd.EXPIRED,
    EventKind.MEMBER_DROPPED: MembershipEnd.DROPPED,
    EventKind.MEMBER_UNSYNCED: MembershipEnd.UNSYNCED,
}
_STARTED: Final = EventKind.REBALANCE_STARTED
_LEFT: Final = EventKind.MEMBER_LEFT
_REPLACED: Final = EventKind.MEMBER_REPLACED
_REJOINED: Final = EventKind.MEMBER_REJOINED
"""The member joined before, possibly before the start of the history."""
_NEVER_JOINED: Final = EventKind.PENDING_MEMBER_EXPIRED
_JOIN: Final = Trigger.MEMBER_JOIN
_REMOVAL: Final = Trigger.ADMIN_REMOVAL
_OPENING: Final = frozenset({EventKind.MEMBER_ID_ISSUED, EventKind.MEMBER_JOINED, EventKind.MEMBER_REJOINED})
_BY_BROKER: Final = (*_OPENING, *_ENDS, _NEVER_JOINED, _REPLACED, _STARTED)
_WITHOUT_SETTINGS: Final = frozenset({_STARTED, EventKind.MEMBER_ID_ISSUED})
"""Rows that contain the names of a member but not its settings."""
_BY_RECORDS: Final = (OtherEventKind.MEMBER_RECORDED, OtherEventKind.MEMBER_GONE, EventKind.GENERATION_RECORDED)
"""Kinds of rows from which intervals are built."""
_CULPRIT_ENDS: Final[dict[str, MembershipEnd]] = {
    Trigger.MEMBER_LEAVE: MembershipEnd.LEFT,
    Trigger.POLL_TIMEOUT: MembershipEnd.LEFT,
    Trigger.SESSION_TIMEOUT: MembershipEnd.EXPIRED,
    Trigger.SYNC_TIMEOUT: MembershipEnd.UNSYNCED,
    Trigger.ADMIN_REMOVAL: MembershipEnd.LEFT,
}


@dataclass(slots=True)
class MembershipInterval:
    """One continuous membership of one member id."""

    member: str
    joined_ms: int
    client: str | None = None
    instance: str | None = None
    host: str | None = None
    seen_joining: bool = True
    ended_ms: int | None = None
    end: MembershipEnd | None = None
    reason: str = ""
    by_admin: bool = False
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    assignors: tuple[str, ...] = ()
    topics: frozenset[str] = frozenset()
    began: Row | None = None
    ended: Row | None = None
    last_generation: int | None = None

    @property
    def name(self) -> str:
        """The instance id of a static member, else the client id, else the member id."""
        return self.instance or self.client or self.member

    def lasted_ms(self) -> int | None:
        """Return its duration, or None if it is not over or its begin is not in the history."""
        if self.ended_ms is None or not self.seen_joining:
            return None
        return self.ended_ms - self.joined_ms


@dataclass(slots=True)
class MemberNames:
    """Maps member ids to client ids, instance ids and hosts."""

    clients: dict[str, str] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    users: dict[str, set[str]] = field(default_factory=dict)
    """The client ids used with each instance id."""
    labelled: frozenset[str] = frozenset()
    """Members named after their logs because others share their client id."""

    def learn(self, member: str | None, client: str | None, instance: str | None, host: str | None) -> None:
        """Record the names that occur together in one row."""
        if member:
            if client:
                self.clients.setdefault(member, client)
            if instance:
                self.instances.setdefault(member, instance)
            if host:
                self.hosts.setdefault(member, host)
        if instance and client:
            self.users.setdefault(instance, set()).add(client)

    def fill(self, interval: MembershipInterval) -> None:
        """Set the names of an interval."""
        interval.instance = interval.instance or self.instances.get(interval.member)
        interval.host = interval.host or self.hosts.get(interval.member)
        interval.client = interval.client or self.clients.get(interval.member)
        made_of = row_predicates.member_id_prefix(interval.member)
        if made_of != interval.member:
            if interval.client is None:
                interval.client = None if interval.instance == made_of else made_of
            elif interval.client != made_of and interval.member not in self.labelled:
                interval.instance = interval.instance or made_of


def membership_intervals(
    rows: Sequence[Row], rows_of: Callable[..., Sequence[Row]], names: MemberNames
) -> list[MembershipInterval]:
    """Return the intervals of a group from the best source that has any; `rows_of` returns the rows of given kinds."""
    for read, kinds in ((_from_broker, _BY_BROKER), (_from_records, _BY_RECORDS), (_from_clients, ())):
        intervals = read(rows_of(*kinds) if kinds else rows)
        if intervals:
            for interval in intervals:
                names.fill(interval)
            return sorted(intervals, key=lambda interval: interval.joined_ms)
    return []


class MembershipTracker:
    """Opens and closes intervals while rows are read in order."""

    def __init__(self) -> None:
        self.all: list[MembershipInterval] = []
        self._last: dict[str, MembershipInterval] = {}
        """The last interval by member id."""
        self._open: dict[str, MembershipInterval] = {}
        self._unused: set[int] = set()
        self._unnamed: dict[str, str] = {}

    def replace(self, instance: str, row: Row) -> MembershipInterval:
        """Open an interval for a static member whose new id is not logged; a later row with the id completes it."""
        member = f"{instance}@{row.time_ms}"
        self._unnamed[instance] = member
        return self.open(member, row)

    def _adopt(self, member: str) -> None:
        instance = row_predicates.member_id_prefix(member)
        unnamed = self._unnamed.get(instance)
        if unnamed is None or member in self._open or unnamed not in self._open:
            return
        del self._unnamed[instance]
        interval = self._open.pop(unnamed)
        interval.member = member
        self._open[member] = self._last[member] = interval

    def open(self, member: str, row: Row) -> MembershipInterval:
        if self._unnamed:
            self._adopt(member)
        interval = self._open.get(member)
        if interval is None:
            new = MembershipInterval(member, row.time_ms, began=row, seen_joining=row.kind != _REJOINED)
            interval = self._open[member] = self._new(new)
        if row.member is not None or row.kind != _STARTED:  # otherwise it has neither names nor settings
            self.update(interval, row)
        return interval

    def _new(self, interval: MembershipInterval) -> MembershipInterval:
        self.all.append(interval)
        self._last[interval.member] = interval
        return interval

    def update(self, interval: MembershipInterval, row: Row) -> None:
        if row.member == interval.member:
            interval.client = interval.client or row.client
            interval.instance = interval.instance or row.instance
            interval.host = interval.host or row.host
        if row.kind in _WITHOUT_SETTINGS:
            return
        detail, index = row.detail, row.detail_index
        if session_ms := detail["session_timeout_ms"][index]:
            interval.session_timeout_ms = session_ms
        if rebalance_ms := detail["rebalance_timeout_ms"][index]:
            interval.rebalance_timeout_ms = rebalance_ms
        if detail["assignors"][index]:
            interval.assignors = row.detail_names("assignors")
        if detail["topics"][index]:
            interval.topics = frozenset(row.detail_names("topics"))

    def close(self, member: str, end: MembershipEnd, row: Row) -> None:
        if self._unnamed and member not in self._last:
            self._adopt(member)
        interval = self._open.pop(member, None)
        if interval is None:
            last = self._last.get(member)
            if last is not None and last.ended_ms is not None:
                self._merge_end(last, end, row)
                return
            interval = self._new(MembershipInterval(member, row.time_ms, seen_joining=False))
        self.update(interval, row)
        interval.ended_ms, interval.end, interval.ended = row.time_ms, end, row
        interval.reason = row_predicates.reason(row)
        interval.by_admin = row.trigger == _REMOVAL or row.detail_value("by") == "administrator"

    def _merge_end(self, last: MembershipInterval, end: MembershipEnd, row: Row) -> None:
        """Merge the row of a leave with the row of the rebalance that it caused; they come in either order."""
        if row.kind != _STARTED and last.ended is not None:
            if last.ended.kind == _STARTED:
                last.end, last.ended = end, row
                last.reason = row_predicates.reason(row) or last.reason
            self.update(last, row)

    def forget(self, member: str) -> None:
        """Discard an interval whose member id was issued but never used to join."""
        interval = self._open.pop(member, None)
        if interval is not None:
            self._unused.add(id(interval))

    def intervals(self) -> list[MembershipInterval]:
        return [interval for interval in self.all if id(interval) not in self._unused]

    def open_members(self) -> list[str]:
        return list(self._open)


def _from_broker(rows: Iterable[Row]) -> list[MembershipInterval]:
    tracker = MembershipTracker()
    for row in rows:
        if row.source not in BROKER_SIDE:
            continue
        kind = row.kind
        if kind == _STARTED:
            _started(tracker, row)
        elif kind in _OPENING:
            if row.member:
                tracker.open(row.member, row)
        elif kind == _REPLACED:
            _replaced(tracker, row)
        elif kind == _NEVER_JOINED or (kind == _LEFT and row.detail_value("pending")):
            for member in row_predicates.members_named(row):
                tracker.forget(member)
        else:
            for member in row_predicates.members_named(row):
                tracker.close(member, _ENDS[kind], row)
    return tracker.intervals()


def _replaced(tracker: MembershipTracker, row: Row) -> None:
    old = row.detail_text("old_member")
    if old:
        tracker.close(old, MembershipEnd.REPLACED, row)
    # Kafka does not always log the new id of a returning static member: identify it by its instance id.
    interval = tracker.open(row.member, row) if row.member else tracker.replace(row.instance or "", row)
    interval.instance = row.instance or interval.instance


def _started(tracker: MembershipTracker, row: Row) -> None:
    trigger = row.trigger
    if trigger == _JOIN:
        for member in row_predicates.members_named(row):
            tracker.open(member, row)
    elif trigger in _CULPRIT_ENDS:
        for member in row_predicates.members_named(row):
            tracker.close(member, _CULPRIT_ENDS[trigger], row)


def _from_records(rows: Iterable[Row]) -> list[MembershipInterval]:
    """Build intervals from recorded generations: a member that is missing in the next one has left."""
    tracker = MembershipTracker()
    for row in rows:
        if row.kind == OtherEventKind.MEMBER_RECORDED and row.member:
            tracker.open(row.member, row)
        elif row.kind == OtherEventKind.MEMBER_GONE and row.member:
            tracker.close(row.member, MembershipEnd.GONE, row)
        elif row_predicates.is_recorded(row) and not row_predicates.is_consumer_protocol(row):
            recorded = dict.fromkeys(row.detail_names("member_ids"))
            for member in tracker.open_members():
                if member not in recorded:
                    tracker.close(member, MembershipEnd.GONE, row)
            for member in recorded:
                tracker.open(member, row)
    return _static_swaps(tracker.intervals())


def _static_swaps(intervals: list[MembershipInterval]) -> list[MembershipInterval]:
    """Mark static members whose id changed between two consecutive records as replaced."""
    came = {(interval.instance, interval.joined_ms) for interval in intervals}
    for interval in intervals:
        if (
            interval.end is MembershipEnd.GONE
            and interval.instance is not None
            and (interval.instance, interval.ended_ms) in came
        ):
            interval.end = MembershipEnd.REPLACED
    return intervals


def _from_clients(rows: Iterable[Row]) -> list[MembershipInterval]:
    """Build intervals from the clients' logs: a new member id starts a new interval."""
    intervals: list[MembershipInterval] = []
    current: dict[str, MembershipInterval] = {}
    runs: dict[str, list[Row]] = {}
    for row in rows:
        client = row.instance or row.client or row.label
        if not row.is_from_client or not client:
            continue
        if row_predicates.is_start(row) or row_predicates.is_close(row):
            runs.setdefault(client, []).append(row)
        interval = current.get(client)
        if interval is not None and interval.ended_ms is None:
            end = _client_end(row)
            if end is not None:
                interval.ended_ms, interval.end, interval.ended = row.time_ms, end, row
                interval.reason = row.detail_text("reason")
        if interval is not None and interval.ended_ms is None and row_predicates.is_joined(row) and row.generation:
            interval.last_generation = row.generation
        if row.member and row_predicates.has_own_member_id(row) and (interval is None or _is_new(interval, row)):
            if interval is not None and interval.ended_ms is None:
                interval.ended_ms, interval.end = row.time_ms, MembershipEnd.GONE
            interval = MembershipInterval(row.member, row.time_ms, client=row.client, instance=row.instance, began=row)
            interval.last_generation = row.generation
            current[client] = interval
            intervals.append(interval)
    for client, run in runs.items():
        if client not in current:
            intervals += _from_runs(client, run)
    return intervals


def _from_runs(client: str, run: list[Row]) -> list[MembershipInterval]:
    """Build intervals from a log without member ids: each run of the process is one interval."""
    intervals: list[MembershipInterval] = []
    for row in run:
        last = intervals[-1] if intervals else None
        if last is not None and last.ended_ms is None:
            end = MembershipEnd.LEFT if row_predicates.is_close(row) else MembershipEnd.GONE
            last.ended_ms, last.end, last.ended = row.time_ms, end, row
        if row_predicates.is_start(row):
            intervals.append(
                MembershipInterval(
                    f"{client}@{row.time_ms}", row.time_ms, client=client, instance=row.instance, began=row
                )
            )
    return intervals


def _is_new(interval: MembershipInterval, row: Row) -> bool:
    return interval.member != row.member or (interval.ended_ms is not None and row_predicates.is_joined(row))


def _client_end(row: Row) -> MembershipEnd | None:
    if row_predicates.is_leave(row):
        return MembershipEnd.LEFT
    if row_predicates.is_lost(row):
        return MembershipEnd.EXPIRED
    if row_predicates.is_start(row):
        return MembershipEnd.GONE
    return None
