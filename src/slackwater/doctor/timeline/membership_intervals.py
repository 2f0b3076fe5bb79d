"""Who belonged to a group, from when to when, and how it ended.

Rules kept here
- A term is one stay of one member id. A classic member that comes back has a new id; a KIP-848 member keeps its own,
  and has a second term under it.
- The coordinator's word counts first: it alone knows when a member is gone. Where it is silent, the generations
  recorded in `__consumer_offsets` tell who was there, and at last a client's own log tells of that client.
- Nothing is invented: what a source cannot tell of a term (how it ended, since when it lasted) stays None.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import BROKER_SIDE, Row
from slackwater.doctor.events.table import FactKind
from slackwater.group.events import EventKind, Trigger


class End(StrEnum):
    """How a term ended."""

    LEFT = "left"
    EXPIRED = "expired"
    DROPPED = "dropped"
    UNSYNCED = "unsynced"
    REPLACED = "replaced"
    GONE = "gone"
    """It is not there any more, and the source does not tell how."""


_ENDS: Final[dict[str, End]] = {
    EventKind.MEMBER_LEFT: End.LEFT,
    EventKind.MEMBER_EXPIRED: End.EXPIRED,
    EventKind.MEMBER_DROPPED: End.DROPPED,
    EventKind.MEMBER_UNSYNCED: End.UNSYNCED,
}
_STARTED: Final = EventKind.REBALANCE_STARTED
_LEFT: Final = EventKind.MEMBER_LEFT
_REPLACED: Final = EventKind.MEMBER_REPLACED
_REJOINED: Final = EventKind.MEMBER_REJOINED
"""Told of who was a member before, perhaps before anything was read."""
_NEVER_JOINED: Final = EventKind.PENDING_MEMBER_EXPIRED
_JOIN: Final = Trigger.MEMBER_JOIN
_REMOVAL: Final = Trigger.ADMIN_REMOVAL
_OPENING: Final = frozenset({EventKind.MEMBER_ID_ISSUED, EventKind.MEMBER_JOINED, EventKind.MEMBER_REJOINED})
_BY_BROKER: Final = (*_OPENING, *_ENDS, _NEVER_JOINED, _REPLACED, _STARTED)
_NAMES_ONLY: Final = frozenset({_STARTED, EventKind.MEMBER_ID_ISSUED})
"""Rows that tell who a member is, and nothing of its settings."""
_BY_RECORDS: Final = (FactKind.MEMBER_RECORDED, FactKind.MEMBER_GONE, EventKind.GENERATION_RECORDED)
"""The kinds of rows that tell of terms."""
_CULPRIT_ENDS: Final[dict[str, End]] = {
    Trigger.MEMBER_LEAVE: End.LEFT,
    Trigger.POLL_TIMEOUT: End.LEFT,
    Trigger.SESSION_TIMEOUT: End.EXPIRED,
    Trigger.SYNC_TIMEOUT: End.UNSYNCED,
    Trigger.ADMIN_REMOVAL: End.LEFT,
}


@dataclass(slots=True)
class Term:
    """One stay of one member id."""

    member: str
    joined_ms: int
    client: str | None = None
    instance: str | None = None
    host: str | None = None
    seen_joining: bool = True
    ended_ms: int | None = None
    end: End | None = None
    reason: str = ""
    by_admin: bool = False
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    assignors: tuple[str, ...] = ()
    began: Row | None = None
    ended: Row | None = None
    last_generation: int | None = None

    @property
    def name(self) -> str:
        """The instance id of a static member, else the client id, else the member id."""
        return self.instance or self.client or self.member

    def lasted_ms(self) -> int | None:
        """How long it lasted, None when it is not over or its beginning was not seen."""
        if self.ended_ms is None or not self.seen_joining:
            return None
        return self.ended_ms - self.joined_ms


@dataclass(slots=True)
class Names:
    """Which client and which instance a member id stands for."""

    clients: dict[str, str] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    users: dict[str, set[str]] = field(default_factory=dict)
    """The client ids that were seen under an instance id."""
    labelled: frozenset[str] = frozenset()
    """Members that are called by their logs' names, for others have their client id too."""

    def learn(self, member: str | None, client: str | None, instance: str | None, host: str | None) -> None:
        """Remember the names that a row has together."""
        if member:
            if client:
                self.clients.setdefault(member, client)
            if instance:
                self.instances.setdefault(member, instance)
            if host:
                self.hosts.setdefault(member, host)
        if instance and client:
            self.users.setdefault(instance, set()).add(client)

    def fill(self, term: Term) -> None:
        """Give a term its names."""
        term.instance = term.instance or self.instances.get(term.member)
        term.host = term.host or self.hosts.get(term.member)
        term.client = term.client or self.clients.get(term.member)
        made_of = signals.made_of(term.member)
        if made_of != term.member:
            if term.client is None:
                term.client = None if term.instance == made_of else made_of
            elif term.client != made_of and term.member not in self.labelled:
                term.instance = term.instance or made_of


def terms(rows: Sequence[Row], of: Callable[..., Sequence[Row]], names: Names) -> list[Term]:
    """The terms of a group, from the best source that tells of any; `of` gives the rows of some kinds."""
    for read, kinds in ((_from_broker, _BY_BROKER), (_from_records, _BY_RECORDS), (_from_clients, ())):
        found = read(of(*kinds) if kinds else rows)
        if found:
            for term in found:
                names.fill(term)
            return sorted(found, key=lambda term: term.joined_ms)
    return []


class _Book:
    """Terms as they open and close."""

    def __init__(self) -> None:
        self.all: list[Term] = []
        self._last: dict[str, Term] = {}
        """By member id, its last term."""
        self._open: dict[str, Term] = {}
        self._unused: set[int] = set()
        self._unnamed: dict[str, str] = {}

    def replace(self, instance: str, row: Row) -> Term:
        """A static member came back under an id that is not told; the next line that tells it is about this one."""
        member = f"{instance}@{row.time_ms}"
        self._unnamed[instance] = member
        return self.open(member, row)

    def _adopt(self, member: str) -> None:
        instance = signals.made_of(member)
        unnamed = self._unnamed.get(instance)
        if unnamed is None or member in self._open or unnamed not in self._open:
            return
        del self._unnamed[instance]
        term = self._open.pop(unnamed)
        term.member = member
        self._open[member] = self._last[member] = term

    def open(self, member: str, row: Row) -> Term:
        if self._unnamed:
            self._adopt(member)
        term = self._open.get(member)
        if term is None:
            new = Term(member, row.time_ms, began=row, seen_joining=row.kind != _REJOINED)
            term = self._open[member] = self._new(new)
        if row.member is not None or row.kind != _STARTED:  # else it tells neither names nor settings
            self.tell(term, row)
        return term

    def _new(self, term: Term) -> Term:
        self.all.append(term)
        self._last[term.member] = term
        return term

    def tell(self, term: Term, row: Row) -> None:
        if row.member == term.member:
            term.client = term.client or row.client
            term.instance = term.instance or row.instance
            term.host = term.host or row.host
        if row.kind in _NAMES_ONLY:
            return
        detail, place = row.detail, row.place
        if session_ms := detail["session_timeout_ms"][place]:
            term.session_timeout_ms = session_ms
        if rebalance_ms := detail["rebalance_timeout_ms"][place]:
            term.rebalance_timeout_ms = rebalance_ms
        if detail["assignors"][place]:
            term.assignors = row.names("assignors")

    def close(self, member: str, end: End, row: Row) -> None:
        if self._unnamed and member not in self._last:
            self._adopt(member)
        term = self._open.pop(member, None)
        if term is None:
            last = self._last.get(member)
            if last is not None and last.ended_ms is not None:
                self._told_again(last, end, row)
                return
            term = self._new(Term(member, row.time_ms, seen_joining=False))
        self.tell(term, row)
        term.ended_ms, term.end, term.ended = row.time_ms, end, row
        term.reason = signals.reason(row)
        term.by_admin = row.trigger == _REMOVAL or row.told("by") == "administrator"

    def _told_again(self, last: Term, end: End, row: Row) -> None:
        """The leave's own line and the rebalance that it caused tell of one end, in either order."""
        if row.kind != _STARTED and last.ended is not None:
            if last.ended.kind == _STARTED:
                last.end, last.ended = end, row
                last.reason = signals.reason(row) or last.reason
            self.tell(last, row)

    def forget(self, member: str) -> None:
        """An id that was asked for and never used was no member."""
        term = self._open.pop(member, None)
        if term is not None:
            self._unused.add(id(term))

    def found(self) -> list[Term]:
        return [term for term in self.all if id(term) not in self._unused]

    def live(self) -> list[str]:
        return list(self._open)


def _from_broker(rows: Iterable[Row]) -> list[Term]:
    book = _Book()
    for row in rows:
        if row.source not in BROKER_SIDE:
            continue
        kind = row.kind
        if kind == _STARTED:
            _started(book, row)
        elif kind in _OPENING:
            if row.member:
                book.open(row.member, row)
        elif kind == _REPLACED:
            _replaced(book, row)
        elif kind == _NEVER_JOINED or (kind == _LEFT and row.told("pending")):
            for member in signals.members_named(row):
                book.forget(member)
        else:
            for member in signals.members_named(row):
                book.close(member, _ENDS[kind], row)
    return book.found()


def _replaced(book: _Book, row: Row) -> None:
    old = row.text("old_member")
    if old:
        book.close(old, End.REPLACED, row)
    # Kafka does not always print the new id of a static member that came back: it is named by its instance alone.
    term = book.open(row.member, row) if row.member else book.replace(row.instance or "", row)
    term.instance = row.instance or term.instance


def _started(book: _Book, row: Row) -> None:
    trigger = row.trigger
    if trigger == _JOIN:
        for member in signals.members_named(row):
            book.open(member, row)
    elif trigger in _CULPRIT_ENDS:
        for member in signals.members_named(row):
            book.close(member, _CULPRIT_ENDS[trigger], row)


def _from_records(rows: Iterable[Row]) -> list[Term]:
    """From who stands in the recorded generations: a member of one that is not in the next is gone."""
    book = _Book()
    for row in rows:
        if row.kind == FactKind.MEMBER_RECORDED and row.member:
            book.open(row.member, row)
        elif row.kind == FactKind.MEMBER_GONE and row.member:
            book.close(row.member, End.GONE, row)
        elif signals.is_recorded(row) and not signals.is_consumer_protocol(row):
            there = set(row.names("member_ids"))
            for member in book.live():
                if member not in there:
                    book.close(member, End.GONE, row)
            for member in there:
                book.open(member, row)
    return _static_swaps(book.found())


def _static_swaps(found: list[Term]) -> list[Term]:
    """A static member whose id changed between two records that follow each other came back in time."""
    came = {(term.instance, term.joined_ms) for term in found}
    for term in found:
        if term.end is End.GONE and term.instance is not None and (term.instance, term.ended_ms) in came:
            term.end = End.REPLACED
    return found


def _from_clients(rows: Iterable[Row]) -> list[Term]:
    """From each client's own log: a new member id is a new term."""
    found: list[Term] = []
    current: dict[str, Term] = {}
    runs: dict[str, list[Row]] = {}
    for row in rows:
        who = row.instance or row.client or row.label
        if not row.of_client or not who:
            continue
        if signals.is_start(row) or signals.is_close(row):
            runs.setdefault(who, []).append(row)
        term = current.get(who)
        if term is not None and term.ended_ms is None:
            end = _client_end(row)
            if end is not None:
                term.ended_ms, term.end, term.ended, term.reason = row.time_ms, end, row, row.text("reason")
        if term is not None and term.ended_ms is None and signals.is_joined(row) and row.generation:
            term.last_generation = row.generation
        if row.member and signals.tells_own_id(row) and (term is None or _is_new(term, row)):
            if term is not None and term.ended_ms is None:
                term.ended_ms, term.end = row.time_ms, End.GONE
            term = Term(row.member, row.time_ms, client=row.client, instance=row.instance, began=row)
            term.last_generation = row.generation
            current[who] = term
            found.append(term)
    for who, run in runs.items():
        if who not in current:
            found += _from_runs(who, run)
    return found


def _from_runs(who: str, run: list[Row]) -> list[Term]:
    """Of a log that never names the member's id: each run of the process is a term."""
    found: list[Term] = []
    for row in run:
        last = found[-1] if found else None
        if last is not None and last.ended_ms is None:
            end = End.LEFT if signals.is_close(row) else End.GONE
            last.ended_ms, last.end, last.ended = row.time_ms, end, row
        if signals.is_start(row):
            found.append(Term(f"{who}@{row.time_ms}", row.time_ms, client=who, instance=row.instance, began=row))
    return found


def _is_new(term: Term, row: Row) -> bool:
    return term.member != row.member or (term.ended_ms is not None and signals.is_joined(row))


def _client_end(row: Row) -> End | None:
    if signals.is_leave(row):
        return End.LEFT
    if signals.is_lost(row):
        return End.EXPIRED
    if signals.is_start(row):
        return End.GONE
    return None
