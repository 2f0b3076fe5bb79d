"""A group's events in order, made into what the rules ask about: who was there, who went and came back, what was said.

Rules kept here
- One pass over the rows, then work that grows with the members' comings and goings, not with the lines.
- Names are Kafka's: a static member is known by its instance id, any other by its client id. Where several members
  share one client id (every library has a default), a member is known by its log's name; where no log tells its member
  id, the member id stands for itself, and nobody can tell whether it comes back.
- Whether the same process came back is asked of what can know: a KIP-848 member keeps its id for as long as its process
  lives; a client's log shows its starts; an id asked for while the old one was still a member is a new process, for a
  live one would have gone on under the id it had.
- A start is over when a generation stood for as long as Kafka's own initial delay (KIP-134, 3 s) and nobody came.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

from slackwater.doctor.defaults import INITIAL_DELAY_MS, SESSION_TIMEOUT_MS
from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import (
    ASSIGNOR,
    BROKER_SIDE,
    CLIENT_SIDE,
    KIND,
    NAMES,
    SOURCE,
    TRIGGER,
    Row,
    in_order,
    within,
)
from slackwater.doctor.events.table import FactKind
from slackwater.doctor.timeline.client_timeline import NEAR_MS, Absence, Story
from slackwater.doctor.timeline.clocks import apart, steadied
from slackwater.doctor.timeline.cluster_history import ClusterHistory, Outage
from slackwater.doctor.timeline.member_identity import by_log
from slackwater.doctor.timeline.membership_intervals import End, Names, Term, terms
from slackwater.group.events import EventKind, EventSource, GroupState

_LAST_TERMS: Final = 8
_EXPIRED: Final = End.EXPIRED
_WAS_REPLACED: Final = End.REPLACED
_SMALL_START: Final = 8
"""A first recorded generation up to this number is taken for a group's start, a higher one for what compaction left."""
_EMPTY: Final = GroupState.EMPTY
_STARTED: Final = EventKind.REBALANCE_STARTED
_SETTING: Final = FactKind.CLIENT_SETTING
_MEMBER: Final = FactKind.MEMBER_RECORDED
_JOINED: Final = (EventKind.MEMBER_JOINED, EventKind.REBALANCE_COMPLETED)
_TELL_PROTOCOL: Final = (EventKind.GENERATION_FORMED, EventKind.GENERATION_RECORDED, FactKind.MEMBER_RECORDED)
_GENERATIONS: Final[tuple[tuple[Callable[[Row], bool], tuple[EventKind, ...]], ...]] = (
    (signals.is_formed, (EventKind.GENERATION_FORMED,)),
    (signals.is_recorded, (EventKind.GENERATION_RECORDED,)),
    (signals.is_joined, (EventKind.GENERATION_FORMED, *_JOINED)),
)
"""Who tells of generations, and by which kinds of rows; the best first."""
_TELL_PARTITIONS: Final = (
    EventKind.PARTITIONS_ASSIGNED,
    EventKind.PARTITIONS_REVOKED,
    EventKind.PARTITIONS_LOST,
    FactKind.MEMBER_RECORDED,
)
_CLASSIC: Final = (EventKind.REBALANCE_STARTED, EventKind.MEMBER_ID_ISSUED, EventKind.PROGRESS)
"""What is never told of a KIP-848 group, or does not say that it is one."""
_FIRST_JOINS: Final = (
    EventKind.MEMBER_ID_ISSUED,
    EventKind.MEMBER_JOINED,
    EventKind.GENERATION_FORMED,
    EventKind.GENERATION_RECORDED,
)
"""What may tell of a group's first member, beside the first round that began."""
_HEARD: Final[dict[str, tuple[tuple[Callable[[Row], bool], str], ...]]] = {
    FactKind.CLIENT_STARTED: ((signals.is_start, "started"),),
    FactKind.CLIENT_SUBSCRIBED: ((signals.is_subscribe, "subscribes"),),
    FactKind.CLIENT_CLOSED: ((signals.is_close, "closes"),),
    FactKind.CLIENT_FAILED: ((signals.is_failure, "failures"),),
    EventKind.POLL_OVERRUN: ((signals.is_overrun, "overruns"),),
    EventKind.MEMBER_LEFT: ((signals.is_overrun, "overruns"), (signals.is_leave, "leaves")),
    EventKind.SESSION_LOST: ((signals.is_lost, "lost"),),
    EventKind.HEARTBEAT_REFUSED: ((signals.is_lost, "lost"),),
    EventKind.COMMIT_REFUSED: ((signals.is_lost, "lost"),),
    EventKind.JOIN_REFUSED: ((signals.is_join_refused, "refused"),),
    EventKind.COORDINATOR_LOST: ((signals.is_coordinator_lost, "coordinator_lost"),),
    EventKind.JOIN_REQUESTED: ((signals.is_rejoin, "rejoins"),),
    EventKind.MEMBER_JOINED: ((signals.is_rejoin, "rejoins"),),
}
"""By kind: what a client's row may be, and where it is then put down in its story."""


class Generation(NamedTuple):
    """A generation that was formed (of a KIP-848 group: an epoch that was begun)."""

    number: int
    time_ms: int
    members: int | None
    row: Row


class GroupHistory:
    """A group's rows, and what follows from them."""

    def __init__(self, group: str, rows: Iterable[Row], cluster: ClusterHistory | None = None) -> None:
        self.group = group
        steady, set_back = steadied(list(rows))
        ordered = in_order(steady)
        self.rows, members = by_log(ordered)
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, kind in enumerate(map(KIND, self.rows)):
            self._places[kind].append(place)
        self._of: dict[tuple[str, ...], list[Row]] = {}
        told = _JOINED if self.has_clients else ()
        self.clocks: tuple[str, ...] = (*set_back, *apart(self.each(EventKind.GENERATION_FORMED, *told)))
        """What is wrong with the clocks of what was read, in sentences."""
        self.cluster = cluster or ClusterHistory()
        self.names = Names(labelled=frozenset(members))
        for names in dict.fromkeys(map(NAMES, (row for row in self.rows if row.client or row.instance or row.host))):
            self.names.learn(*names)
        self.terms: list[Term] = terms(self.rows, self.of, self.names)
        self.stories: dict[str, Story] = {}
        self._by_member: dict[str, Story] = {}
        self._tell_terms()
        self._tell_clients()

    # ---- what there is to read

    def of(self, *kinds: str) -> list[Row]:
        """The rows of these kinds, in order."""
        found = self._of.get(kinds)
        if found is None:
            every = [self._places[kind] for kind in kinds if kind in self._places]
            if not every:
                return []
            places = every[0] if len(every) == 1 else sorted(chain.from_iterable(every))
            found = self._of[kinds] = [self.rows[place] for place in places]
        return found

    def each(self, *kinds: str) -> Iterator[Row]:
        """The rows of these kinds, kind by kind: for who asks whether there is one."""
        return chain.from_iterable(self.of(kind) for kind in kinds if kind in self._places)

    @cached_property
    def triggers(self) -> frozenset[str | None]:
        """What anybody told to be a rebalance's trigger."""
        return frozenset(map(TRIGGER, self.rows))

    @cached_property
    def assignors(self) -> dict[str, set[str]]:
        """By source, the assignors that generations were made by."""
        found: dict[str, set[str]] = {}
        chosen = ((row.source, row.told("protocol")) for row in self.each(*_TELL_PROTOCOL))
        for source, name in {*chosen, *((row.source, row.assignor) for row in filter(ASSIGNOR, self.rows))}:
            if name and name != "null":
                found.setdefault(source, set()).add(name)
        return found

    @cached_property
    def sources(self) -> frozenset[str]:
        """Who told of this group."""
        return frozenset(map(SOURCE, self.rows))

    @property
    def has_broker(self) -> bool:
        """The coordinator was heard, in its log or by its events."""
        return bool(self.sources & BROKER_SIDE)

    @property
    def has_clients(self) -> bool:
        """Some client's own log (or events) was read."""
        return bool(self.sources & CLIENT_SIDE)

    @property
    def has_records(self) -> bool:
        """`__consumer_offsets` was read."""
        return EventSource.OFFSETS_TOPIC in self.sources

    @property
    def told_from(self) -> str:
        """The best of what was read, by its name."""
        if self.has_broker:
            return "the broker's log"
        return "__consumer_offsets" if self.has_records else "the clients' logs"

    @property
    def began_ms(self) -> int:
        """The first row's time."""
        return self.rows[0].time_ms if self.rows else 0

    @property
    def ended_ms(self) -> int:
        """The last row's time."""
        return self.rows[-1].time_ms if self.rows else 0

    @cached_property
    def is_consumer_protocol(self) -> bool:
        """A KIP-848 group."""
        asked = self.each(*(kind for kind in self._places if kind not in _CLASSIC))
        told = (row for row in asked if row.detail["group_protocol"][row.place] == signals.CONSUMER)
        return any(map(signals.is_consumer_protocol, told))

    # ---- generations

    @cached_property
    def generations(self) -> list[Generation]:
        """The generations that were formed, from the best source that tells of any."""
        for told_by, kinds in _GENERATIONS:
            seen: dict[int, Generation] = {}
            for row in self.of(*kinds):
                number = row.generation
                if number is not None and number > 0 and number not in seen and told_by(row):
                    seen[number] = Generation(number, row.time_ms, signals.size_of(row), row)
            if seen:
                return [seen[number] for number in sorted(seen)]
        return []

    @cached_property
    def rebalances(self) -> int:
        """How many generations were formed; of those in `__consumer_offsets` only the last may be left, and the gaps
        between their numbers tell of the others."""
        formed = self.generations
        if not formed or not signals.is_recorded(formed[0].row):
            return len(formed)
        kept = {one.number for one in formed if one.members}
        recorded = self.of(EventKind.GENERATION_RECORDED)
        empty = {row.generation for row in recorded if signals.is_recorded_empty(row) and row.generation} - kept
        unseen = formed[0].number - 1 if self._begins_with_first(formed[0]) else 0
        return unseen + formed[-1].number - formed[0].number + 1 - len(empty)

    def _begins_with_first(self, first: Generation) -> bool:
        """Nothing was recorded before because the first rounds did not get that far, not because it was compacted."""
        return not self.is_consumer_protocol and first.number <= _SMALL_START

    @property
    def complete_since_ms(self) -> int:
        """Since when every generation is accounted for."""
        only_recorded = bool(self.generations) and signals.is_recorded(self.generations[0].row)
        return self.generations[0].time_ms if only_recorded else self.began_ms

    @cached_property
    def start_seen(self) -> bool:
        """The group's beginning (from empty) lies in this history; without a broker nothing else can be known."""
        if not self.has_broker:
            return True
        # Of a group that is old nearly every row is asked, and nearly none could be the first.
        asked = (row for row in self.each(*_FIRST_JOINS) if row.state_before == _EMPTY or row.generation in (1, 2))
        begun = (row for row in self.each(_STARTED) if row.detail["old_generation"][row.place] == 0)
        return any(map(signals.is_first_join, chain(begun, asked)))

    @cached_property
    def topics_read(self) -> frozenset[str]:
        """The topics that its members subscribed to, or were assigned."""
        subscribed = {topic for story in self.stories.values() for _, topics in story.topics for topic in topics}
        assigned = {
            name.rpartition("-")[0] for row in self.each(*_TELL_PARTITIONS) for name in row.told("partitions") or ()
        }
        return frozenset(subscribed | assigned)

    @cached_property
    def overruns_by_client(self) -> dict[str, list[Row]]:
        """What clients said of late polls, by client id, in order: members that share one are told apart nowhere."""
        found: dict[str, list[Row]] = {}
        for story in self.stories.values():
            found.setdefault(story.client or "", []).extend(story.overruns)
        return {client: in_order(rows) for client, rows in found.items()}

    # ---- start

    @cached_property
    def settled_ms(self) -> int:
        """When the group's start was over; the history's beginning when the start is not in it."""
        if not self.start_seen or not self.terms:
            return self.began_ms
        joins = self._joins()
        # Where no generation is told of, each join stands for the one that it brought about.
        stood = self.generations or [Generation(0, joined_ms, None, self.rows[0]) for _, _, joined_ms in joins]
        at = 0
        for one in stood:
            # A client's log, or a record, tells of a join after its generation was formed: it was part of it.
            while at < len(joins) and (joins[at][0] <= one.time_ms or 0 < joins[at][1] <= one.number):
                at += 1
            if at == len(joins) or joins[at][0] - one.time_ms > INITIAL_DELAY_MS:
                return max(one.time_ms, *(joined_ms for _, _, joined_ms in joins[:at])) if at else one.time_ms
        return stood[-1].time_ms if stood else self.began_ms

    def _joins(self) -> list[tuple[int, int, int]]:
        """When members came, the generation that is named with it, and when they had joined.

        A client's log tells of a join when its round is over, which may be long after the process came up.
        """
        first = {
            id(story.terms[0]): story.starts[0].time_ms
            for story in self.stories.values()
            if story.starts and story.terms
        }
        return sorted(
            (
                first.get(id(term), term.joined_ms) if _of_client(term) else term.joined_ms,
                _generation_of(term),
                term.joined_ms,
            )
            for term in self.terms
            if term.seen_joining
        )

    @cached_property
    def starters(self) -> list[Story]:
        """Those who came while the group started."""
        return [
            story
            for story in self.stories.values()
            if story.terms and story.terms[0].joined_ms <= self.settled_ms and story.terms[0].seen_joining
        ]

    @cached_property
    def arrivals(self) -> list[Story]:
        """Those who came for the first time after the start was over, and were not on their way before."""
        return [
            story
            for story in self.stories.values()
            if story.terms
            and story.terms[0].seen_joining
            and story.terms[0].joined_ms > self.settled_ms
            and not (
                self.start_seen and story.started and story.started[0].time_ms <= self.settled_ms + INITIAL_DELAY_MS
            )
        ]

    # ---- outages

    @cached_property
    def outages(self) -> tuple[Outage, ...]:
        """The coordinator's outages: those that brokers tell of, or one that all clients saw at once."""
        if not self.cluster.outages and self.has_broker:
            return ()
        if self.cluster.outages:
            nodes = {row.text("node") for row in self.rows if row.of_broker} - {""}
            return tuple(one for one in self.cluster.outages if not nodes or one.node in nodes)
        lost = [story.without_coordinator() for story in self.stories.values() if story.logged]
        if len(lost) < 2 or not all(lost):
            return ()
        first = sorted(rows[0].time_ms for rows in lost)
        if first[-1] - first[0] > SESSION_TIMEOUT_MS:
            return ()
        last = max(row.time_ms for rows in lost for row in rows)
        told = tuple(rows[0] for rows in lost)
        return (Outage(next((name for row in told if (name := signals.node(row))), ""), first[0], last, told),)

    # ---- absences

    @cached_property
    def absences(self) -> list[Absence]:
        """Every end of a term, in order of time."""
        found = [
            self._absence(story, at)
            for story in self.stories.values()
            for at in range(len(story.terms))
            if story.terms[at].ended_ms is not None
        ]
        return sorted(found, key=lambda one: one.left_ms)

    def _absence(self, story: Story, at: int) -> Absence:
        term = story.terms[at]
        back = story.terms[at + 1] if at + 1 < len(story.terms) else None
        left_ms = term.ended_ms if term.ended_ms is not None else 0
        overlapped = back is not None and back.joined_ms < left_ms and term.end is not _WAS_REPLACED
        return Absence(story, term, left_ms, back, self._same_process(story, term, back, overlapped), overlapped)

    def _same_process(self, story: Story, term: Term, back: Term | None, overlapped: bool) -> bool | None:
        if back is None:
            return None
        if self.is_consumer_protocol and signals.is_uuid(term.member):
            return term.member == back.member
        if overlapped:
            return False
        begin, end = term.joined_ms, back.joined_ms + NEAR_MS
        if within(story.starts, begin + 1, end):
            # A process that joined and is then started again; the start that led to `term` itself lies before it.
            return False
        if story.starts and story.said_between(begin, end):
            return True
        left = term.ended_ms if term.ended_ms is not None else begin
        if within(story.lost, left - NEAR_MS, end):
            return True  # it says that its session is over: only a process that lives can
        return None

    # ---- the making

    def _tell_terms(self) -> None:
        shared = _shared_clients(self.terms, self.generations, self.ended_ms)
        for term in self.terms:
            anonymous = term.instance is None and term.client in shared
            name = term.member if anonymous else term.name
            story = self.stories.get(name)
            if story is None:
                story = self.stories[name] = Story(name, term.client, term.instance, anonymous)
            story.client = story.client or term.client
            story.terms.append(term)
            self._by_member[term.member] = story
            if term.assignors:
                story.note("assignors", (term.joined_ms, term.assignors))

    def _tell_clients(self) -> None:
        by_client: dict[str, list[Story]] = {}
        for story in self.stories.values():
            for client in {story.client, *self.names.users.get(story.instance or "", ())}:
                if client:
                    by_client.setdefault(client, []).append(story)
        if not self.has_clients and not self.has_records:
            return
        for row in self.rows:
            if row.source in CLIENT_SIDE:
                if row.client or row.label:
                    self._tell(self._story_of(row, by_client), row)
            elif row.kind == _MEMBER:
                self._tell_record(row, by_client)

    def _story_of(self, row: Row, by_client: dict[str, list[Story]]) -> Story:
        if row.instance and row.instance in self.stories:
            return self.stories[row.instance]
        client = row.client or row.label or ""
        found = by_client.get(client, [])
        own = self._by_member.get(row.member or "")
        if own is not None:
            return own
        anonymous = bool(found) and found[0].anonymous
        if found and not anonymous:
            return found[0]
        name = row.instance or (row.label if anonymous else None) or client
        story = self.stories.setdefault(name, Story(name, client, row.instance))
        if not anonymous:
            by_client.setdefault(client, []).append(story)
        return story

    def _tell_record(self, row: Row, by_client: dict[str, list[Story]]) -> None:
        story = self.stories.get(row.instance or "") or self._by_member.get(row.member or "")
        if story is None:
            namesakes = by_client.get(row.client or "", ())
            story = next((one for one in namesakes if not one.anonymous), None)
        if story is None:
            return
        if topics := frozenset(row.names("topics")):
            _note_topics(story, row.time_ms, topics)
        for term in story.terms[-_LAST_TERMS:]:
            if term.member == row.member:
                term.session_timeout_ms = term.session_timeout_ms or row.number("session_timeout_ms")
                term.rebalance_timeout_ms = term.rebalance_timeout_ms or row.number("rebalance_timeout_ms")

    def _tell(self, story: Story, row: Row) -> None:
        story.note("said_ms", row.time_ms)
        if row.kind == _SETTING:
            self._tell_setting(story, row)
        for is_one, where in _HEARD.get(row.kind, ()):
            if is_one(row):
                story.note(where, row)
        if topics := signals.subscribed(row):
            _note_topics(story, row.time_ms, topics)
        if assignors := row.names("assignors"):
            story.note("assignors", (row.time_ms, assignors))

    def _tell_setting(self, story: Story, row: Row) -> None:
        name, value = row.text("setting"), row.text("value")
        story.settings = {**story.settings, name: value}
        if name == "partition.assignment.strategy":
            story.note("assignors", (row.time_ms, signals.assignors(value)))


def _of_client(term: Term) -> bool:
    return term.began is not None and term.began.of_client


def _generation_of(term: Term) -> int:
    """The generation that a client (or a record) names with the join; 0 where none is named, as in a broker's log."""
    began = term.began
    if began is None or began.of_broker or began.generation is None:
        return 0
    return began.generation


def _note_topics(story: Story, time_ms: int, topics: frozenset[str]) -> None:
    if not story.topics or story.topics[-1][1] != topics:
        story.note("topics", (time_ms, topics))


def _shared_clients(found: Sequence[Term], generations: Sequence[Generation], end_ms: int) -> frozenset[str]:
    """Client ids that several live members have at once.

    A process that died without a word and came back overlaps too, until its old id expires: that is no sharing. Two ids
    that lived through several generations together, and of which the older did not expire, are two members.
    """
    shared: set[str] = set()
    last: dict[str, list[Term]] = {}
    formed = sorted(one.time_ms for one in generations)
    for term in found:
        if term.client is None or term.instance is not None or term.client in shared:
            continue
        for older in last.setdefault(term.client, [])[-8:]:
            until = min(older.ended_ms or end_ms, term.ended_ms or end_ms)
            if older.end is _EXPIRED or until <= term.joined_ms:
                continue
            together = bisect_right(formed, until) - bisect_right(formed, term.joined_ms)
            if together >= 2 or until - term.joined_ms > (older.session_timeout_ms or SESSION_TIMEOUT_MS):
                shared.add(term.client)
        last[term.client].append(term)
    return frozenset(shared)
