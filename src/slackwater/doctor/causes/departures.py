"""Explain each end of a membership interval on its own, before causes combine several.

Invariants:
- The reason that the client sent with its leave (KIP-800) decides.
- A member that left and came back in the same process exceeded max.poll.interval.ms: nothing else makes a running
  consumer leave and rejoin (`unsubscribe` and `subscribe` do, with their own reason).
- A session that expired while the process ran means a pause or a lost network connection; a session that expired
  because the process ended means a crash. A start in the client's log distinguishes them.
- A leave sooner after the last rejoin than max.poll.interval.ms is not caused by it: rejoining happens in poll(). The
  broker knows the interval of a classic member as its rebalance timeout.
- A library that sends heartbeats only between messages (kafkajs) expires while its handler works. It gets the error
  repeatedly before it rejoins, or never sends a heartbeat after its assignment. A paused process does neither.
- Ends around an outage of the coordinator are caused by the outage.
- Members that go silent in the rebalance that a change of their topics started (or all together after a topic was
  deleted) went silent because of it: some clients hang on such a change.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from slackwater.doctor.causes.finding import CERTAIN, LIKELY, POSSIBLE, SURE, UNSURE
from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import within
from slackwater.doctor.timeline.client_timeline import NEAR_MS, ClientTimeline, Departure
from slackwater.doctor.timeline.cluster_history import Outage
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import MembershipEnd

POLL_MARGIN: Final = 0.5
"""A leave within this part of the limit is not a late poll, even if a library sends another rebalance timeout."""
_MAX_UNRENEWED_SESSION: Final = 1.15
"""In session timeouts. Libraries send three or more heartbeats per session: one heartbeat makes it last longer."""
FAILOVER_SESSIONS: Final = 2
"""An old id expires one session after the coordinator is back; another one for the rebalance that follows."""


class DepartureReason(StrEnum):
    """Why a member left."""

    POLL = "poll"
    PAUSE = "pause"
    CLOSED = "closed"
    CRASHED = "crashed"
    STATIC_IN_TIME = "static_in_time"
    STATIC_LATE = "static_late"
    FAILOVER = "failover"
    TOPIC_CHANGED = "topic_changed"
    ADMIN = "admin"
    LEFT_UNKNOWN_REASON = "left_unknown_reason"
    EXPIRED_UNKNOWN_REASON = "expired_unknown_reason"
    GONE_UNKNOWN_REASON = "gone_unknown_reason"


# Enum members as module constants: they are compared for every departure.
_POLL: Final = DepartureReason.POLL
_PAUSE: Final = DepartureReason.PAUSE
_CLOSED: Final = DepartureReason.CLOSED
_CRASHED: Final = DepartureReason.CRASHED
_EXPIRED: Final = MembershipEnd.EXPIRED
_EXPIRED_UNKNOWN: Final = (DepartureReason.EXPIRED_UNKNOWN_REASON, UNSURE)


class ExplainedDeparture(NamedTuple):
    """A departure with its reason."""

    departure: Departure
    reason: DepartureReason
    confidence: float

    @property
    def timeline(self) -> ClientTimeline:
        """The client's timeline."""
        return self.departure.timeline

    @property
    def left_ms(self) -> int:
        """When the member left."""
        return self.departure.left_ms


def explain_departures(history: GroupHistory) -> list[ExplainedDeparture]:
    """Explain every departure, in order of time."""
    formed = sorted(generation.time_ms for generation in history.generations)
    departures = [_explain(history, departure, formed) for departure in history.departures]
    departures = _mark_topic_changes(history, departures, formed)
    departures = _mark_stop_of_all(history, departures)
    # No library that sends heartbeats between messages supports KIP-848, whose session timeout is set on the broker.
    return departures if history.is_consumer_protocol else _mark_blocked_heartbeats(departures, formed)


def filter_by_reason(departures: Iterable[ExplainedDeparture], *reasons: DepartureReason) -> list[ExplainedDeparture]:
    """Return the departures with one of these reasons."""
    return [explained for explained in departures if explained.reason in reasons]


def by_timeline(departures: Iterable[ExplainedDeparture]) -> list[list[ExplainedDeparture]]:
    """Group the departures by timeline, in order of first occurrence."""
    groups: dict[int, list[ExplainedDeparture]] = {}
    for explained in departures:
        groups.setdefault(id(explained.departure.timeline), []).append(explained)
    return list(groups.values())


def recurs(departures: Iterable[ExplainedDeparture]) -> bool:
    """Return whether a client left more than once."""
    return any(len(own) > 1 for own in by_timeline(departures))


def outage_of(history: GroupHistory, time_ms: int, session_ms: int | None) -> Outage | None:
    """Return the outage that explains an event at this time."""
    after = FAILOVER_SESSIONS * (session_ms or SESSION_TIMEOUT_MS)
    for outage in history.outages:
        began = outage.ended_ms - after if outage.began_ms is None else outage.began_ms
        if began - NEAR_MS <= time_ms <= outage.ended_ms + after:
            return outage
    return None


def _mark_blocked_heartbeats(departures: list[ExplainedDeparture], formed: list[int]) -> list[ExplainedDeparture]:
    """Attribute all expiries of a client that sends heartbeats only between messages to its handler."""
    busy: set[int] = set()
    if all(explained.reason is not _POLL and explained.reason is not _PAUSE for explained in departures):
        return departures  # no process is known to have kept running
    for own in by_timeline(
        explained for explained in departures if explained.departure.end is _EXPIRED and _may_be_alive(explained)
    ):
        silent_at_once = [explained for explained in own if _silent_since_assignment(explained.departure, formed)]
        if any(explained.reason is _POLL for explained in own) or (
            len(silent_at_once) > 1 and any(explained.reason is _PAUSE for explained in own)
        ):
            busy |= {id(explained) for explained in own}
    return [explained._replace(reason=_POLL) if id(explained) in busy else explained for explained in departures]


def _may_be_alive(explained: ExplainedDeparture) -> bool:
    """Return whether its process kept running, or the history ends too early to know."""
    unknown = (
        explained.reason is _CRASHED and explained.departure.back is None and not _process_ended(explained.departure)
    )
    return unknown or explained.reason in (_POLL, _PAUSE)


def _silent_since_assignment(departure: Departure, formed: list[int]) -> bool:
    """Return whether it sent no heartbeat after its assignment: the session was never renewed."""
    if departure.evidence is None or not departure.evidence.is_from_broker:
        return False  # only the coordinator logs when the session expired
    session, stayed = departure.timeline.session_ms, _since_rejoin(departure, formed)
    return session is not None and stayed is not None and stayed < _MAX_UNRENEWED_SESSION * session


def _mark_topic_changes(
    history: GroupHistory, departures: list[ExplainedDeparture], formed: list[int]
) -> list[ExplainedDeparture]:
    """Attribute silences in a rebalance that a topic change started to that change."""
    changes = [change for change in history.cluster.topic_changes if change.topic in history.topics_read]
    deleted = sorted(change.time_ms for change in changes if change.kind == row_predicates.DELETED)
    other = sorted(
        [
            *(change.time_ms for change in changes if change.time_ms > history.start_ended_ms),
            *(
                time_ms
                for timeline in history.timelines.values()
                for time_ms, _ in timeline.topics
                if time_ms > history.start_ended_ms
            ),
        ]
    )
    if not deleted and not other:
        return departures
    ended = [
        explained
        for explained in departures
        if explained.departure.end is _EXPIRED and explained.departure.back is None
    ]
    together = len(ended) > 1 and ended[-1].left_ms - ended[0].left_ms <= NEAR_MS
    all_expired = together and all(interval.ended_ms is not None for interval in history.intervals)
    silent = set()
    for explained in ended:
        since = explained.left_ms - 2 * (explained.timeline.session_ms or SESSION_TIMEOUT_MS)
        times = deleted if all_expired else other if _silent_since_assignment(explained.departure, formed) else []
        if bisect_right(times, explained.left_ms) > bisect_right(times, since):
            silent.add(id(explained))
    return [
        explained._replace(reason=DepartureReason.TOPIC_CHANGED, confidence=SURE)
        if id(explained) in silent
        else explained
        for explained in departures
    ]


def _mark_stop_of_all(history: GroupHistory, departures: list[ExplainedDeparture]) -> list[ExplainedDeparture]:
    """Attribute the last leaves to close() if all members left together and the group stays empty.

    Late polls do not end at the same moment, and a member that polled late comes back.
    """
    open_intervals = any(interval.ended_ms is None for interval in history.intervals)
    last = [
        explained
        for explained in departures
        if explained.reason is DepartureReason.LEFT_UNKNOWN_REASON and explained.departure.back is None
    ]
    if open_intervals or len(last) < 2 or not history.has_broker:
        return departures
    if last[-1].left_ms - last[0].left_ms > NEAR_MS or last[-1].left_ms < max(
        explained.left_ms for explained in departures
    ):
        return departures
    closed = {id(explained) for explained in last}
    return [
        explained._replace(reason=_CLOSED, confidence=LIKELY) if id(explained) in closed else explained
        for explained in departures
    ]


def _explain(history: GroupHistory, departure: Departure, formed: list[int]) -> ExplainedDeparture:
    reason, confidence = _reason(history, departure, formed)
    return ExplainedDeparture(departure, reason, confidence)


def _reason(history: GroupHistory, departure: Departure, formed: list[int]) -> tuple[DepartureReason, float]:
    if departure.interval.by_admin:
        return DepartureReason.ADMIN, CERTAIN
    if row_predicates.is_poll_reason(departure.interval.reason) or _overran(history, departure):
        return _POLL, CERTAIN
    if _by_outage(history, departure):
        return DepartureReason.FAILOVER, SURE
    return _BY_END[departure.end](departure, formed)


def _by_outage(history: GroupHistory, departure: Departure) -> bool:
    """Return whether it left around an outage, and neither said that it closes nor joined after the outage."""
    if departure.end is MembershipEnd.LEFT and row_predicates.is_close_reason(departure.interval.reason):
        return False
    outage = outage_of(history, departure.left_ms, departure.timeline.session_ms) if history.outages else None
    joined_ms = departure.interval.joined_ms if departure.interval.seen_joining else 0
    return outage is not None and joined_ms <= outage.ended_ms + NEAR_MS


def _overran(history: GroupHistory, departure: Departure) -> bool:
    until = departure.left_ms + NEAR_MS
    if departure.timeline.anonymous:
        # A client with the same client id logs a late poll at the time of the leave.
        overruns = history.overruns_by_client.get(departure.timeline.client or "", [])
        return bool(within(overruns, departure.left_ms - NEAR_MS, until))
    since = min(departure.left_ms - NEAR_MS, departure.interval.joined_ms)
    return bool(within(departure.timeline.log.overruns, since, until))


def _left(departure: Departure, formed: list[int]) -> tuple[DepartureReason, float]:
    if _came_back_static(departure):
        return DepartureReason.STATIC_IN_TIME, SURE
    if row_predicates.is_close_reason(departure.interval.reason):
        return (_CRASHED if _failed(departure) else _CLOSED), CERTAIN
    if departure.same_process is True:
        return (_CLOSED, LIKELY) if _closed(departure) else (_POLL, SURE)
    if departure.timeline.anonymous and departure.back is None:
        return DepartureReason.LEFT_UNKNOWN_REASON, UNSURE
    if departure.same_process is False or departure.back is None:
        return (_CRASHED if _failed(departure) else _CLOSED), SURE
    limit = departure.timeline.limit_ms
    stayed = _since_rejoin(departure, formed)
    if limit is not None and stayed is not None and stayed < POLL_MARGIN * limit:
        return _CLOSED, LIKELY
    return DepartureReason.LEFT_UNKNOWN_REASON, UNSURE


def _closed(departure: Departure) -> bool:
    """Return whether its log shows that it was closed: the line of its next start is missing."""
    return bool(
        within(departure.timeline.log.closes, departure.left_ms - NEAR_MS, departure.back_ms or departure.left_ms)
    )


def _stopped(departure: Departure) -> bool:
    """Return whether its log shows that the application closed it in this interval, without an error before."""
    timeline, since = departure.timeline, departure.interval.joined_ms
    closed = (*timeline.log.closes, *(row for row in timeline.log.leaves if not row_predicates.is_overrun(row)))
    return any(since <= row.time_ms <= departure.left_ms + NEAR_MS for row in closed) and not _failed(departure)


def _came_back_static(departure: Departure) -> bool:
    """A KIP-848 static member that closes leaves temporarily and keeps its place (epoch -2)."""
    return (
        departure.interval.ended is not None
        and departure.interval.ended.detail_text("why") == "temporarily"
        and departure.back is not None
    )


def _expired(departure: Departure, formed: list[int]) -> tuple[DepartureReason, float]:
    if departure.same_process is True:
        # A client that only gets UNKNOWN_MEMBER_ID was paused, or its handler blocked its heartbeats.
        return (_POLL, SURE) if _busy(departure) else (_PAUSE, SURE if _silence_logged(departure) else POSSIBLE)
    static = departure.interval.instance is not None
    if departure.back is None and departure.interval.ended is not None and departure.interval.ended.is_from_client:
        return _PAUSE, LIKELY  # the client logged it, so its process is running
    if departure.same_process is False:
        return (DepartureReason.STATIC_LATE if static and not _failed(departure) else _CRASHED), SURE
    if departure.back is None and _stopped(departure):
        return _CLOSED, SURE  # it closed without LeaveGroup: a static member does, or the request was lost
    if departure.back is None and not departure.timeline.anonymous:
        # A crashed process logs nothing more; a hanging or disconnected one does.
        if (
            departure.timeline.has_log
            and departure.timeline.log.logged_ms[-1] > departure.left_ms
            and not _process_ended(departure)
        ):
            return _PAUSE, LIKELY
        return _CRASHED, (SURE if departure.timeline.has_log and not static else LIKELY)
    return _EXPIRED_UNKNOWN


def _silence_logged(departure: Departure) -> bool:
    """Return whether the coordinator logged the expiry, or the client logged its own session timeout."""
    if departure.evidence is None or departure.evidence.is_from_broker:
        return True
    until = departure.back_ms or departure.left_ms
    rows = within(departure.timeline.log.lost, departure.left_ms - NEAR_MS, until)
    return any(row_predicates.is_timed_out(row) for row in rows)


def _process_ended(departure: Departure) -> bool:
    """Return whether its log shows the end of the process or a later start (even without a join)."""
    started = departure.timeline.starts
    return _failed(departure) or bool(started and started[-1].time_ms > departure.interval.joined_ms)


def _dropped(departure: Departure, formed: list[int]) -> tuple[DepartureReason, float]:
    """It did not rejoin within its rebalance timeout: its poll loop was blocked, or the process had ended."""
    if departure.back is None and _stopped(departure):
        return _CLOSED, LIKELY
    if departure.same_process is False or departure.back is None:
        return _CRASHED, LIKELY
    return _POLL, (SURE if departure.same_process else LIKELY)


def _gone(departure: Departure, formed: list[int]) -> tuple[DepartureReason, float]:
    if departure.same_process is True and (_left_by_itself(departure) or _busy(departure)):
        return _POLL, SURE
    if departure.same_process is True and departure.timeline.log.lost:
        return _PAUSE, LIKELY
    if departure.same_process is False and departure.interval.instance is not None and departure.back is not None:
        # A static member that is back in time finds the generation it left.
        same_generation = (
            departure.interval.last_generation is not None
            and departure.interval.last_generation == departure.back.last_generation
        )
        return (DepartureReason.STATIC_IN_TIME if same_generation else DepartureReason.STATIC_LATE), LIKELY
    if departure.same_process is False and departure.timeline.has_log:
        closed = departure.timeline.log.leaves or within(
            departure.timeline.log.closes, departure.interval.joined_ms, departure.left_ms
        )
        return (_CRASHED if _failed(departure) or not closed else _CLOSED), LIKELY
    return (
        DepartureReason.GONE_UNKNOWN_REASON,
        UNSURE,
    )  # a record does not show whether the first process closed or crashed


def _busy(departure: Departure) -> bool:
    """Return whether it kept working after UNKNOWN_MEMBER_ID before it rejoined.

    A paused client rejoins as soon as it gets the error. A client that sends heartbeats and rejoins only between
    messages (kafkajs, or any client with a blocked poll loop) gets the error repeatedly while its handler continues.
    """
    back = departure.back
    if back is None:
        return False
    errors = within(departure.timeline.log.lost, departure.left_ms - NEAR_MS, back.joined_ms)
    if not errors or within(departure.timeline.log.assigned, errors[0].time_ms + 1, back.joined_ms - 1):
        return False  # it rejoined sooner: the line of that join is missing
    return back.joined_ms - errors[0].time_ms > (departure.timeline.session_ms or NEAR_MS)


def _left_by_itself(departure: Departure) -> bool:
    """Return whether its log has a leave in this interval."""
    until = departure.back_ms or departure.left_ms
    return bool(within(departure.timeline.log.leaves, departure.interval.joined_ms + 1, until))


def _failed(departure: Departure) -> bool:
    """Return whether its log shows an error that ended the process in this interval."""
    until = departure.left_ms + NEAR_MS
    errors = within(departure.timeline.log.failures, departure.interval.joined_ms + 1, until)
    return any(_ended_process(departure, row.time_ms) for row in errors)


def _ended_process(departure: Departure, error_ms: int) -> bool:
    """Return whether its log has nothing more after the error: a client that continues has handled it."""
    timeline = departure.timeline
    restarts = (row.time_ms for row in timeline.starts if row.time_ms > error_ms)
    until = min(next(restarts, departure.left_ms), departure.left_ms)
    return not timeline.logged_between(error_ms + NEAR_MS, until - 1)


def _since_rejoin(departure: Departure, formed: list[int]) -> int | None:
    index = bisect_right(formed, departure.left_ms - 1)
    if index == 0:
        return None
    return departure.left_ms - max(formed[index - 1], departure.interval.joined_ms)


def _replaced(departure: Departure, formed: list[int]) -> tuple[DepartureReason, float]:
    return DepartureReason.STATIC_IN_TIME, CERTAIN


_BY_END: Final[Mapping[MembershipEnd, Callable[[Departure, list[int]], tuple[DepartureReason, float]]]] = {
    MembershipEnd.REPLACED: _replaced,
    MembershipEnd.LEFT: _left,
    MembershipEnd.EXPIRED: _expired,
    MembershipEnd.DROPPED: _dropped,
    MembershipEnd.UNSYNCED: _dropped,
    MembershipEnd.GONE: _gone,
}
