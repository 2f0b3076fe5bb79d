"""A group's events in order of time, and the facts that the rules need: members, departures, generations, outages.

Invariants:
- One pass over the rows; all further work grows with the number of membership changes, not with the number of rows.
- A static member is identified by its instance id, a dynamic member by its client id. If several members share a client
  id (every library has a default), a member is identified by the name of its log, or by its member id if no log
  contains that id; then a return of the same client cannot be recognised.
- Whether the same process came back is decided by: the member id in a KIP-848 group (it lives as long as the process),
  the starts in a client's log, or a new member id requested while the old one was still a member (a running process
  keeps its id).
- The start of a group is over when no member arrives for the initial delay (KIP-134, 3 s) after a generation.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Final, NamedTuple

from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import (
    ASSIGNOR,
    BROKER_SIDE,
    CLIENT_SIDE,
    KIND,
    MEMBER_NAMES,
    SOURCE,
    TRIGGER,
    Row,
    in_order,
    within,
)
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.events.times import time_remarks, with_comparable_times
from slackwater.doctor.timeline.client_timeline import NEAR_MS, ClientLog, ClientTimeline, Departure
from slackwater.doctor.timeline.clocks import correct_clock_jumps, find_zone_differences
from slackwater.doctor.timeline.cluster_history import ClusterHistory, Outage
from slackwater.doctor.timeline.member_identity import split_members_by_log
from slackwater.doctor.timeline.membership_intervals import (
    MemberNames,
    MembershipEnd,
    MembershipInterval,
    membership_intervals,
)
from slackwater.group.events import EventKind, EventSource, GroupState
from slackwater.group.rebalance_counter import INITIAL_DELAY_MS

_LAST_INTERVALS: Final = 8
_EXPIRED: Final = MembershipEnd.EXPIRED
_WAS_REPLACED: Final = MembershipEnd.REPLACED
_SMALL_START: Final = 8
"""A first recorded generation up to this number is taken for the group's start; a higher one is left by compaction."""
_EMPTY: Final = GroupState.EMPTY
_STARTED: Final = EventKind.REBALANCE_STARTED
_SETTING: Final = OtherEventKind.CLIENT_SETTING
_MEMBER: Final = OtherEventKind.MEMBER_RECORDED
_JOINED: Final = (EventKind.MEMBER_JOINED, EventKind.REBALANCE_COMPLETED)
_WITH_PROTOCOL: Final = (EventKind.GENERATION_FORMED, EventKind.GENERATION_RECORDED, OtherEventKind.MEMBER_RECORDED)
_GENERATIONS: Final[tuple[tuple[Callable[[Row], bool], tuple[EventKind, ...]], ...]] = (
    (row_predicates.is_formed, (EventKind.GENERATION_FORMED,)),
    (row_predicates.is_recorded, (EventKind.GENERATION_RECORDED,)),
    (row_predicates.is_joined, (EventKind.GENERATION_FORMED, *_JOINED)),
)
"""Sources of generations and their kinds of rows, the best first."""
_WITH_PARTITIONS: Final = (
    EventKind.PARTITIONS_ASSIGNED,
    EventKind.PARTITIONS_REVOKED,
    EventKind.PARTITIONS_LOST,
    OtherEventKind.MEMBER_RECORDED,
)
_CLASSIC: Final = (EventKind.REBALANCE_STARTED, EventKind.MEMBER_ID_ISSUED, EventKind.PROGRESS)
"""Kinds that do not occur in a KIP-848 group or do not identify one."""
_FIRST_JOINS: Final = (
    EventKind.MEMBER_ID_ISSUED,
    EventKind.MEMBER_JOINED,
    EventKind.GENERATION_FORMED,
    EventKind.GENERATION_RECORDED,
)
"""Kinds that can report the first member of a group, besides the first rebalance."""
_CLIENT_ROWS: Final[dict[str, tuple[tuple[Callable[[Row], bool], Callable[[ClientLog], list[Row]]], ...]]] = {
    OtherEventKind.CLIENT_STARTED: ((row_predicates.is_start, lambda log: log.started),),
    OtherEventKind.CLIENT_SUBSCRIBED: ((row_predicates.is_subscribe, lambda log: log.subscribes),),
    OtherEventKind.CLIENT_CLOSED: ((row_predicates.is_close, lambda log: log.closes),),
    OtherEventKind.CLIENT_FAILED: ((row_predicates.is_failure, lambda log: log.failures),),
    EventKind.POLL_OVERRUN: ((row_predicates.is_overrun, lambda log: log.overruns),),
    EventKind.MEMBER_LEFT: (
        (row_predicates.is_overrun, lambda log: log.overruns),
        (row_predicates.is_leave, lambda log: log.leaves),
    ),
    EventKind.SESSION_LOST: ((row_predicates.is_lost, lambda log: log.lost),),
    EventKind.HEARTBEAT_REFUSED: ((row_predicates.is_lost, lambda log: log.lost),),
    EventKind.COMMIT_REFUSED: ((row_predicates.is_lost, lambda log: log.lost),),
    EventKind.COORDINATOR_LOST: ((row_predicates.is_coordinator_lost, lambda log: log.coordinator_lost),),
    EventKind.PARTITIONS_ASSIGNED: ((row_predicates.is_assignment, lambda log: log.assigned),),
    EventKind.JOIN_REQUESTED: ((row_predicates.is_rejoin, lambda log: log.rejoins),),
    EventKind.MEMBER_JOINED: ((row_predicates.is_rejoin, lambda log: log.rejoins),),
}
"""By kind: predicates on a client's row, and the list of its log to which a matching row is appended."""


class FormedGeneration(NamedTuple):
    """A generation that was formed (in a KIP-848 group: an epoch)."""

    number: int
    time_ms: int
    members: int | None
    row: Row


class GroupHistory:
    """The rows of a group and everything derived from them."""

    def __init__(self, group: str, rows: Iterable[Row], cluster: ClusterHistory | None = None) -> None:
        self.group = group
        corrected, jumps = correct_clock_jumps(with_comparable_times(list(rows)))
        ordered = in_order(corrected)
        self.rows, members = split_members_by_log(ordered)
        self._indexes: defaultdict[str, list[int]] = defaultdict(list)
        for index, kind in enumerate(map(KIND, self.rows)):
            self._indexes[kind].append(index)
        self._rows_of_kinds: dict[tuple[str, ...], list[Row]] = {}
        client_kinds = _JOINED if self.has_clients else ()
        self.clocks: tuple[str, ...] = (
            *jumps,
            *time_remarks(ordered),
            *find_zone_differences(self.iter_rows(EventKind.GENERATION_FORMED, *client_kinds)),
        )
        """Messages about clock problems in the input."""
        self.cluster = cluster or ClusterHistory()
        self.names = MemberNames(labelled=frozenset(members))
        for names in dict.fromkeys(
            map(MEMBER_NAMES, (row for row in self.rows if row.client or row.instance or row.host))
        ):
            self.names.learn(*names)
        self.intervals: list[MembershipInterval] = membership_intervals(self.rows, self.rows_of, self.names)
        self.timelines: dict[str, ClientTimeline] = {}
        self._by_member: dict[str, ClientTimeline] = {}
        self._add_intervals()
        self._add_client_rows()

    # ---- rows and sources

    def rows_of(self, *kinds: str) -> list[Row]:
        """Return the rows of these kinds in order of time."""
        rows = self._rows_of_kinds.get(kinds)
        if rows is None:
            by_kind = [self._indexes[kind] for kind in kinds if kind in self._indexes]
            if not by_kind:
                return []
            indexes = by_kind[0] if len(by_kind) == 1 else sorted(chain.from_iterable(by_kind))
            rows = self._rows_of_kinds[kinds] = [self.rows[index] for index in indexes]
        return rows

    def iter_rows(self, *kinds: str) -> Iterator[Row]:
        """Iterate over the rows of these kinds, kind by kind."""
        return chain.from_iterable(self.rows_of(kind) for kind in kinds if kind in self._indexes)

    @cached_property
    def triggers(self) -> frozenset[str | None]:
        """All triggers of rebalances in the rows."""
        return frozenset(map(TRIGGER, self.rows))

    @cached_property
    def assignors(self) -> dict[str, set[str]]:
        """By source, the assignors of the generations."""
        by_source: dict[str, set[str]] = {}
        chosen = ((row.source, row.detail_value("protocol")) for row in self.iter_rows(*_WITH_PROTOCOL))
        for source, name in {*chosen, *((row.source, row.assignor) for row in filter(ASSIGNOR, self.rows))}:
            if name and name != "null":
                by_source.setdefault(source, set()).add(name)
        return by_source

    @cached_property
    def sources(self) -> frozenset[str]:
        """The sources that have rows about this group."""
        return frozenset(map(SOURCE, self.rows))

    @property
    def has_broker(self) -> bool:
        """Whether the coordinator's log or events were read."""
        return bool(self.sources & BROKER_SIDE)

    @property
    def has_clients(self) -> bool:
        """Whether a client's log or events were read."""
        return bool(self.sources & CLIENT_SIDE)

    @property
    def has_records(self) -> bool:
        """`__consumer_offsets` was read."""
        return EventSource.OFFSETS_TOPIC in self.sources

    @property
    def best_source(self) -> str:
        """The name of the best source that was read."""
        if self.has_broker:
            return "the broker's log"
        return "__consumer_offsets" if self.has_records else "the clients' logs"

    @property
    def began_ms(self) -> int:
        """Time of the first row."""
        return self.rows[0].time_ms if self.rows else 0

    @property
    def ended_ms(self) -> int:
        """Time of the last row."""
        return self.rows[-1].time_ms if self.rows else 0

    @cached_property
    def is_consumer_protocol(self) -> bool:
        """Whether this is a KIP-848 group."""
        rows = self.iter_rows(*(kind for kind in self._indexes if kind not in _CLASSIC))
        candidates = (row for row in rows if row.detail["group_protocol"][row.detail_index] == row_predicates.CONSUMER)
        return any(map(row_predicates.is_consumer_protocol, candidates))

    # ---- generations

    @cached_property
    def generations(self) -> list[FormedGeneration]:
        """The generations that were formed, from the best source that has any.

        If the broker's line about a generation is missing, the line about its assignment counts.
        """
        for is_generation, kinds in _GENERATIONS:
            seen = self._generations_of(is_generation, kinds)
            if seen:
                if is_generation is row_predicates.is_formed:
                    seen = self._generations_of(row_predicates.is_assigned, (EventKind.REBALANCE_COMPLETED,)) | seen
                return [seen[number] for number in sorted(seen)]
        return []

    def _generations_of(
        self, is_generation: Callable[[Row], bool], kinds: tuple[EventKind, ...]
    ) -> dict[int, FormedGeneration]:
        seen: dict[int, FormedGeneration] = {}
        for row in self.rows_of(*kinds):
            number = row.generation
            if number is not None and number > 0 and number not in seen and is_generation(row):
                seen[number] = FormedGeneration(number, row.time_ms, row_predicates.member_count(row), row)
        return seen

    @property
    def shrunk(self) -> tuple[FormedGeneration, FormedGeneration] | None:
        """The first two consecutive generations of which the second has fewer members."""
        pairs = pairwise(self.generations)
        return next(
            (
                (before, after)
                for before, after in pairs
                if (after.members or 0) < (before.members or 0) and after.members
            ),
            None,
        )

    @cached_property
    def rebalance_count(self) -> int:
        """Number of generations formed.

        Compaction of `__consumer_offsets` can leave only the last ones; the gaps in their numbers count the others.
        """
        formed = self.generations
        if not formed or not row_predicates.is_recorded(formed[0].row):
            return len(formed)
        with_members = {generation.number for generation in formed if generation.members}
        recorded = self.rows_of(EventKind.GENERATION_RECORDED)
        empty = {
            row.generation for row in recorded if row_predicates.is_recorded_empty(row) and row.generation
        } - with_members
        unseen = formed[0].number - 1 if self._begins_with_first(formed[0]) else 0
        return unseen + formed[-1].number - formed[0].number + 1 - len(empty)

    def _begins_with_first(self, first: FormedGeneration) -> bool:
        """Return whether earlier generations were never completed, as opposed to compacted away."""
        return not self.is_consumer_protocol and first.number <= _SMALL_START

    @property
    def complete_since_ms(self) -> int:
        """Time from which every generation is accounted for."""
        only_recorded = bool(self.generations) and row_predicates.is_recorded(self.generations[0].row)
        return self.generations[0].time_ms if only_recorded else self.began_ms

    @cached_property
    def has_start(self) -> bool:
        """Whether the history contains the group's start from empty; assumed if no broker's log was read."""
        if not self.has_broker:
            return True
        # Filter first: in an old group nearly every row has one of these kinds and almost none is the first join.
        joins = (row for row in self.iter_rows(*_FIRST_JOINS) if row.state_before == _EMPTY or row.generation in (1, 2))
        rebalances = (row for row in self.iter_rows(_STARTED) if row.detail["old_generation"][row.detail_index] == 0)
        return any(map(row_predicates.is_first_join, chain(rebalances, joins)))

    @cached_property
    def topics_read(self) -> frozenset[str]:
        """The topics that its members subscribed to or were assigned."""
        subscribed = {
            topic for timeline in self.timelines.values() for _, topics in timeline.topics for topic in topics
        }
        assigned = {
            name.rpartition("-")[0]
            for row in self.iter_rows(*_WITH_PARTITIONS)
            for name in row.detail_value("partitions") or ()
        }
        return frozenset(subscribed | assigned)

    @cached_property
    def overruns_by_client(self) -> dict[str, list[Row]]:
        """Late polls by client id, in order of time, for members that share a client id."""
        by_client: dict[str, list[Row]] = {}
        for timeline in self.timelines.values():
            by_client.setdefault(timeline.client or "", []).extend(timeline.log.overruns)
        return {client: in_order(rows) for client, rows in by_client.items()}

    # ---- start

    @cached_property
    def start_ended_ms(self) -> int:
        """When the group's start was over; the time of the first row if the start is not in the history."""
        if not self.has_start or not self.intervals:
            return self.began_ms
        joins = self._joins()
        # Without generations, each join stands for the generation that it caused.
        generations_or_joins = self.generations or [
            FormedGeneration(0, joined_ms, None, self.rows[0]) for _, _, joined_ms in joins
        ]
        next_join, number = 0, 0
        for generation in generations_or_joins:
            missing = generation.number > number + 1 > 1
            number = generation.number
            # A client's log or a record reports a join after its generation was formed: the join belongs to it.
            while next_join < len(joins) and (
                joins[next_join][0] <= generation.time_ms or 0 < joins[next_join][1] <= generation.number
            ):
                if missing and next_join and joins[next_join][0] - joins[next_join - 1][0] > INITIAL_DELAY_MS:
                    return max(joined_ms for _, _, joined_ms in joins[:next_join])  # after a generation without a line
                next_join += 1
            if next_join == len(joins) or joins[next_join][0] - generation.time_ms > INITIAL_DELAY_MS:
                return (
                    max(generation.time_ms, *(joined_ms for _, _, joined_ms in joins[:next_join]))
                    if next_join
                    else generation.time_ms
                )
        return generations_or_joins[-1].time_ms if generations_or_joins else self.began_ms

    def _joins(self) -> list[tuple[int, int, int]]:
        """Return when each member arrived, the generation logged with its join, and when it had joined.

        A client logs its join when the rebalance is over, which can be long after the process started.
        """
        first = {
            id(timeline.intervals[0]): timeline.starts[0].time_ms
            for timeline in self.timelines.values()
            if timeline.starts and timeline.intervals
        }
        return sorted(
            (
                first.get(id(interval), interval.joined_ms) if _of_client(interval) else interval.joined_ms,
                _generation_of(interval),
                interval.joined_ms,
            )
            for interval in self.intervals
            if interval.seen_joining
        )

    @cached_property
    def initial_clients(self) -> list[ClientTimeline]:
        """The clients that joined during the group's start."""
        return [
            timeline
            for timeline in self.timelines.values()
            if timeline.intervals
            and timeline.intervals[0].joined_ms <= self.start_ended_ms
            and timeline.intervals[0].seen_joining
        ]

    @cached_property
    def added_clients(self) -> list[ClientTimeline]:
        """The clients that joined for the first time after the start and were not starting before."""
        return [
            timeline
            for timeline in self.timelines.values()
            if timeline.intervals
            and timeline.intervals[0].seen_joining
            and timeline.intervals[0].joined_ms > self.start_ended_ms
            and not (
                self.has_start
                and timeline.log.started
                and timeline.log.started[0].time_ms <= self.start_ended_ms + INITIAL_DELAY_MS
            )
        ]

    # ---- outages

    @cached_property
    def outages(self) -> tuple[Outage, ...]:
        """Outages of the coordinator, from brokers' logs, or one that all clients noticed together."""
        if self.has_broker or self.cluster.outages:
            nodes = {row.detail_text("node") for row in self.rows if row.is_from_broker} - {""}
            known = [outage for outage in self.cluster.outages if not nodes or outage.node in nodes]
            outages = (*known, *(outage for outage in self._reloads() if not _is_near(outage, known)))
            return tuple(whole for outage in outages if (whole := self._with_end(outage)) is not None)
        with_log = [timeline for timeline in self.timelines.values() if timeline.has_log]
        lost = [rows for timeline in with_log if (rows := timeline.without_coordinator())]
        if len(lost) < 2 or 2 * len(lost) <= len(with_log):
            return ()
        first = sorted(rows[0].time_ms for rows in lost)
        if first[-1] - first[0] > SESSION_TIMEOUT_MS:
            return ()
        last = max(row.time_ms for rows in lost for row in rows)
        reports = tuple(rows[0] for rows in lost)
        node = next((name for row in reports if (name := row_predicates.node(row))), "")
        return (Outage(node, first[0], last, reports),)

    def _reloads(self) -> Iterator[Outage]:
        """Yield when the coordinator lost the group and had it again: its broker stopped, or its partition moved."""
        unloaded: Row | None = None
        for row in self.rows_of(EventKind.GROUP_UNLOADED, EventKind.GROUP_LOADED):
            if not row.is_from_broker:
                continue
            if row.kind == EventKind.GROUP_UNLOADED:
                unloaded = row
                continue
            began_ms = None if unloaded is None else unloaded.time_ms
            yield Outage(
                row_predicates.node(row), began_ms, row.time_ms, (row,) if unloaded is None else (unloaded, row)
            )
            unloaded = None
        if unloaded is not None:
            yield Outage(row_predicates.node(unloaded), unloaded.time_ms, unloaded.time_ms, (unloaded,))

    def _with_end(self, outage: Outage) -> Outage | None:
        """Return the outage. Without a logged end, it ended with the coordinator's next line about the group."""
        if outage.has_end:
            return outage
        later = within(self.rows, outage.ended_ms, self.ended_ms)
        ended = (row.time_ms for row in later if row.is_from_broker and row.kind != EventKind.GROUP_UNLOADED)
        ended_ms = next(ended, None)
        return None if ended_ms is None else outage._replace(ended_ms=ended_ms)

    def continues_after(self, outage: Outage) -> bool:
        """Return whether the group's rows reach the outage; otherwise it may have ended before."""
        since = outage.ended_ms - NEAR_MS if outage.began_ms is None else outage.began_ms
        return any(
            row.kind != EventKind.GROUP_UNLOADED for row in within(self.rows, since, self.ended_ms)
        ) or self._loaded_near(outage)

    def _loaded_near(self, outage: Outage) -> bool:
        """Return whether a killed coordinator loaded the group before its start was complete."""
        return bool(
            within(
                self.rows_of(EventKind.GROUP_LOADED), outage.ended_ms - SESSION_TIMEOUT_MS, outage.ended_ms + NEAR_MS
            )
        )

    # ---- departures

    @cached_property
    def departures(self) -> list[Departure]:
        """The ends of all membership intervals, in order of time."""
        ended = [
            self._departure(timeline, index)
            for timeline in self.timelines.values()
            for index in range(len(timeline.intervals))
            if timeline.intervals[index].ended_ms is not None
        ]
        return sorted(ended, key=lambda departure: departure.left_ms)

    def _departure(self, timeline: ClientTimeline, index: int) -> Departure:
        interval = timeline.intervals[index]
        back = timeline.intervals[index + 1] if index + 1 < len(timeline.intervals) else None
        left_ms = interval.ended_ms if interval.ended_ms is not None else 0
        overlapped = back is not None and back.joined_ms < left_ms and interval.end is not _WAS_REPLACED
        return Departure(
            timeline, interval, left_ms, back, self._same_process(timeline, interval, back, overlapped), overlapped
        )

    def _same_process(
        self, timeline: ClientTimeline, interval: MembershipInterval, back: MembershipInterval | None, overlapped: bool
    ) -> bool | None:
        if back is None:
            return None
        if self.is_consumer_protocol and row_predicates.is_uuid(interval.member):
            return interval.member == back.member
        if overlapped:
            return False
        begin, end = interval.joined_ms, back.joined_ms + NEAR_MS
        if within(timeline.starts, begin + 1, end):
            # The process joined and then started again; the start before `interval` is earlier.
            return False
        if timeline.starts and timeline.logged_between(begin, end):
            return True
        left = interval.ended_ms if interval.ended_ms is not None else begin
        if within(timeline.log.lost, left - NEAR_MS, end):
            return True  # only a running process can log that its session expired
        return None

    # ---- construction

    def _add_intervals(self) -> None:
        shared = _shared_clients(self.intervals, self.generations, self.ended_ms)
        for interval in self.intervals:
            anonymous = interval.instance is None and interval.client in shared
            name = interval.member if anonymous else interval.name
            timeline = self.timelines.get(name)
            if timeline is None:
                timeline = self.timelines[name] = ClientTimeline(name, interval.client, interval.instance, anonymous)
            timeline.client = timeline.client or interval.client
            timeline.intervals.append(interval)
            self._by_member[interval.member] = timeline
            if interval.assignors:
                timeline.assignors.append((interval.joined_ms, interval.assignors))
            if interval.topics:
                _append_topics(timeline, interval.joined_ms, interval.topics)

    def _add_client_rows(self) -> None:
        by_client: dict[str, list[ClientTimeline]] = {}
        for timeline in self.timelines.values():
            for client in {timeline.client, *self.names.users.get(timeline.instance or "", ())}:
                if client:
                    by_client.setdefault(client, []).append(timeline)
        if not self.has_clients and not self.has_records:
            return
        for row in self.rows:
            if row.source in CLIENT_SIDE:
                if row.client or row.label:
                    self._add_row(self._timeline_of(row, by_client), row)
            elif row.kind == _MEMBER:
                self._add_record(row, by_client)

    def _timeline_of(self, row: Row, by_client: dict[str, list[ClientTimeline]]) -> ClientTimeline:
        if row.instance and row.instance in self.timelines:
            return self.timelines[row.instance]
        client = row.client or row.label or ""
        candidates = by_client.get(client, [])
        own = self._by_member.get(row.member or "")
        if own is not None:
            return own
        anonymous = bool(candidates) and candidates[0].anonymous
        if candidates and not anonymous:
            return candidates[0]
        name = row.instance or (row.label if anonymous else None) or client
        timeline = self.timelines.setdefault(name, ClientTimeline(name, client, row.instance))
        if not anonymous:
            by_client.setdefault(client, []).append(timeline)
        return timeline

    def _add_record(self, row: Row, by_client: dict[str, list[ClientTimeline]]) -> None:
        timeline = self.timelines.get(row.instance or "") or self._by_member.get(row.member or "")
        if timeline is None:
            candidates = by_client.get(row.client or "", ())
            timeline = next((candidate for candidate in candidates if not candidate.anonymous), None)
        if timeline is None:
            return
        if topics := frozenset(row.detail_names("topics")):
            _append_topics(timeline, row.time_ms, topics)
        for interval in timeline.intervals[-_LAST_INTERVALS:]:
            if interval.member == row.member:
                interval.session_timeout_ms = interval.session_timeout_ms or row.detail_number("session_timeout_ms")
                interval.rebalance_timeout_ms = interval.rebalance_timeout_ms or row.detail_number(
                    "rebalance_timeout_ms"
                )

    def _add_row(self, timeline: ClientTimeline, row: Row) -> None:
        log = timeline.create_log()
        log.logged_ms.append(row.time_ms)
        if row.kind == _SETTING:
            self._add_setting(timeline, row)
        for matches, rows_of in _CLIENT_ROWS.get(row.kind, ()):
            if matches(row):
                rows_of(log).append(row)
        if topics := row_predicates.subscribed(row):
            _append_topics(timeline, row.time_ms, topics)
        if assignors := row.detail_names("assignors"):
            timeline.assignors.append((row.time_ms, assignors))

    def _add_setting(self, timeline: ClientTimeline, row: Row) -> None:
        name, value = row.detail_text("setting"), row.detail_text("value")
        timeline.settings = {**timeline.settings, name: value}
        if name == "partition.assignment.strategy":
            timeline.assignors.append((row.time_ms, row_predicates.assignors(value)))


def _is_near(outage: Outage, known: Iterable[Outage]) -> bool:
    """Return whether a known outage of a broker is the reason why the coordinator lost the group."""
    return any(
        (other.ended_ms if other.began_ms is None else other.began_ms) - SESSION_TIMEOUT_MS
        <= outage.ended_ms
        <= other.ended_ms + 2 * SESSION_TIMEOUT_MS
        for other in known
    )


def _of_client(interval: MembershipInterval) -> bool:
    return interval.began is not None and interval.began.is_from_client


def _generation_of(interval: MembershipInterval) -> int:
    """Return the generation that a client or a record reports with the join; 0 if none, as in a broker's log."""
    began = interval.began
    if began is None or began.is_from_broker or began.generation is None:
        return 0
    return began.generation


def _append_topics(timeline: ClientTimeline, time_ms: int, topics: frozenset[str]) -> None:
    if not timeline.topics or timeline.topics[-1][1] != topics:
        timeline.topics.append((time_ms, topics))


def _shared_clients(
    intervals: Sequence[MembershipInterval], generations: Sequence[FormedGeneration], end_ms: int
) -> frozenset[str]:
    """Return the client ids that several live members have at the same time.

    A process that died without leaving and came back also overlaps, until its old id expires: that is not sharing.
    Two ids that took part in several generations together, where the older did not expire, are two members.
    """
    shared: set[str] = set()
    last: dict[str, list[MembershipInterval]] = {}
    formed = sorted(generation.time_ms for generation in generations)
    for interval in intervals:
        if interval.client is None or interval.instance is not None or interval.client in shared:
            continue
        for older in last.setdefault(interval.client, [])[-8:]:
            until = min(older.ended_ms or end_ms, interval.ended_ms or end_ms)
            if not older.seen_joining and not interval.seen_joining:
                shared.add(interval.client)  # both were members before the history begins
            if older.end is _EXPIRED or until <= interval.joined_ms:
                continue
            together = bisect_right(formed, until) - bisect_right(formed, interval.joined_ms)
            if together >= 2 or until - interval.joined_ms > (older.session_timeout_ms or SESSION_TIMEOUT_MS):
                shared.add(interval.client)
        last[interval.client].append(interval)
    return frozenset(shared)
