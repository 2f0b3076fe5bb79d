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
from slackwater.doctor.timeline.client_timeline import NEAR_MS, Absence, ClientTimeline
from slackwater.doctor.timeline.cluster_history import Outage
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import MembershipEnd

POLL_MARGIN: Final = 0.5
"""A leave within this part of the limit is not a late poll, even if a library sends another rebalance timeout."""
_MAX_UNRENEWED_SESSION: Final = 1.15
"""In session timeouts. Libraries send three or more heartbeats per session: one heartbeat makes it last longer."""
FAILOVER_SESSIONS: Final = 2
"""An old id expires one session after the coordinator is back; another one for the rebalance that follows."""


class AbsenceReason(StrEnum):
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


# Enum members as module constants: they are compared for every absence.
_POLL: Final = AbsenceReason.POLL
_PAUSE: Final = AbsenceReason.PAUSE
_CLOSED: Final = AbsenceReason.CLOSED
_CRASHED: Final = AbsenceReason.CRASHED
_EXPIRED: Final = MembershipEnd.EXPIRED
_EXPIRED_UNKNOWN: Final = (AbsenceReason.EXPIRED_UNKNOWN_REASON, UNSURE)


class ExplainedAbsence(NamedTuple):
    """An absence with its reason."""

    absence: Absence
    reason: AbsenceReason
    confidence: float

    @property
    def timeline(self) -> ClientTimeline:
        """The client's timeline."""
        return self.absence.timeline

    @property
    def left_ms(self) -> int:
        """When the member left."""
        return self.absence.left_ms


def read_absences(history: GroupHistory) -> list[ExplainedAbsence]:
    """Explain every absence, in order of time."""
    formed = sorted(generation.time_ms for generation in history.generations)
    absences = [_explain(history, absence, formed) for absence in history.absences]
    absences = _mark_topic_changes(history, absences, formed)
    absences = _mark_stop_of_all(history, absences)
    # No library that sends heartbeats between messages supports KIP-848, whose session timeout is set on the broker.
    return absences if history.is_consumer_protocol else _mark_blocked_heartbeats(absences, formed)


def with_reason(absences: Iterable[ExplainedAbsence], *reasons: AbsenceReason) -> list[ExplainedAbsence]:
    """Return the absences with one of these reasons."""
    return [explained for explained in absences if explained.reason in reasons]


def by_timeline(absences: Iterable[ExplainedAbsence]) -> list[list[ExplainedAbsence]]:
    """Group the absences by timeline, in order of first occurrence."""
    groups: dict[int, list[ExplainedAbsence]] = {}
    for explained in absences:
        groups.setdefault(id(explained.absence.timeline), []).append(explained)
    return list(groups.values())


def recurs(absences: Iterable[ExplainedAbsence]) -> bool:
    """Return whether a client left more than once."""
    return any(len(own) > 1 for own in by_timeline(absences))


def outage_of(history: GroupHistory, time_ms: int, session_ms: int | None) -> Outage | None:
    """Return the outage that explains an event at this time."""
    after = FAILOVER_SESSIONS * (session_ms or SESSION_TIMEOUT_MS)
    for outage in history.outages:
        began = outage.ended_ms - after if outage.began_ms is None else outage.began_ms
        if began - NEAR_MS <= time_ms <= outage.ended_ms + after:
            return outage
    return None


def _mark_blocked_heartbeats(absences: list[ExplainedAbsence], formed: list[int]) -> list[ExplainedAbsence]:
    """Attribute all expiries of a client that sends heartbeats only between messages to its handler."""
    busy: set[int] = set()
    if all(r.reason is not _POLL and r.reason is not _PAUSE for r in absences):
        return absences  # no process is known to have kept running
    for own in by_timeline(r for r in absences if r.absence.end is _EXPIRED and _may_be_alive(r)):
        silent_at_once = [r for r in own if _silent_since_assignment(r.absence, formed)]
        if any(r.reason is _POLL for r in own) or (len(silent_at_once) > 1 and any(r.reason is _PAUSE for r in own)):
            busy |= {id(r) for r in own}
    return [r._replace(reason=_POLL) if id(r) in busy else r for r in absences]


def _may_be_alive(explained: ExplainedAbsence) -> bool:
    """Return whether its process kept running, or the history ends too early to know."""
    unknown = explained.reason is _CRASHED and explained.absence.back is None and not _process_ended(explained.absence)
    return unknown or explained.reason in (_POLL, _PAUSE)


def _silent_since_assignment(absence: Absence, formed: list[int]) -> bool:
    """Return whether it sent no heartbeat after its assignment: the session was never renewed."""
    if absence.evidence is None or not absence.evidence.is_from_broker:
        return False  # only the coordinator logs when the session expired
    session, stayed = absence.timeline.session_ms, _since_rejoin(absence, formed)
    return session is not None and stayed is not None and stayed < _MAX_UNRENEWED_SESSION * session


def _mark_topic_changes(
    history: GroupHistory, absences: list[ExplainedAbsence], formed: list[int]
) -> list[ExplainedAbsence]:
    """Attribute silences in a rebalance that a topic change started to that change."""
    changes = [change for change in history.cluster.topic_changes if change.topic in history.topics_read]
    deleted = sorted(change.time_ms for change in changes if change.kind == row_predicates.DELETED)
    other = sorted(
        [
            *(change.time_ms for change in changes if change.time_ms > history.start_ended_ms),
            *(
                at
                for timeline in history.timelines.values()
                for at, _ in timeline.topics
                if at > history.start_ended_ms
            ),
        ]
    )
    if not deleted and not other:
        return absences
    ended = [r for r in absences if r.absence.end is _EXPIRED and r.absence.back is None]
    together = len(ended) > 1 and ended[-1].left_ms - ended[0].left_ms <= NEAR_MS
    all_expired = together and all(interval.ended_ms is not None for interval in history.intervals)
    silent = set()
    for explained in ended:
        since = explained.left_ms - 2 * (explained.timeline.session_ms or SESSION_TIMEOUT_MS)
        times = deleted if all_expired else other if _silent_since_assignment(explained.absence, formed) else []
        if bisect_right(times, explained.left_ms) > bisect_right(times, since):
            silent.add(id(explained))
    return [r._replace(reason=AbsenceReason.TOPIC_CHANGED, confidence=SURE) if id(r) in silent else r for r in absences]


def _mark_stop_of_all(history: GroupHistory, absences: list[ExplainedAbsence]) -> list[ExplainedAbsence]:
    """Attribute the last leaves to close() if all members left together and the group stays empty.

    Late polls do not end at the same moment, and a member that polled late comes back.
    """
    open_intervals = any(interval.ended_ms is None for interval in history.intervals)
    last = [r for r in absences if r.reason is AbsenceReason.LEFT_UNKNOWN_REASON and r.absence.back is None]
    if open_intervals or len(last) < 2 or not history.has_broker:
        return absences
    if last[-1].left_ms - last[0].left_ms > NEAR_MS or last[-1].left_ms < max(r.left_ms for r in absences):
        return absences
    closed = {id(r) for r in last}
    return [r._replace(reason=_CLOSED, confidence=LIKELY) if id(r) in closed else r for r in absences]


def _explain(history: GroupHistory, absence: Absence, formed: list[int]) -> ExplainedAbsence:
    reason, confidence = _reason(history, absence, formed)
    return ExplainedAbsence(absence, reason, confidence)


def _reason(history: GroupHistory, absence: Absence, formed: list[int]) -> tuple[AbsenceReason, float]:
    if absence.interval.by_admin:
        return AbsenceReason.ADMIN, CERTAIN
    if row_predicates.is_poll_reason(absence.interval.reason) or _overran(history, absence):
        return _POLL, CERTAIN
    if _by_outage(history, absence):
        return AbsenceReason.FAILOVER, SURE
    return _BY_END[absence.end](absence, formed)


def _by_outage(history: GroupHistory, absence: Absence) -> bool:
    """Return whether it left around an outage, and neither said that it closes nor joined after the outage."""
    if absence.end is MembershipEnd.LEFT and row_predicates.is_close_reason(absence.interval.reason):
        return False
    outage = outage_of(history, absence.left_ms, absence.timeline.session_ms) if history.outages else None
    joined_ms = absence.interval.joined_ms if absence.interval.seen_joining else 0
    return outage is not None and joined_ms <= outage.ended_ms + NEAR_MS


def _overran(history: GroupHistory, absence: Absence) -> bool:
    until = absence.left_ms + NEAR_MS
    if absence.timeline.anonymous:
        # A client with the same client id logs a late poll at the time of the leave.
        overruns = history.overruns_by_client.get(absence.timeline.client or "", [])
        return bool(within(overruns, absence.left_ms - NEAR_MS, until))
    since = min(absence.left_ms - NEAR_MS, absence.interval.joined_ms)
    return bool(within(absence.timeline.overruns, since, until))


def _left(absence: Absence, formed: list[int]) -> tuple[AbsenceReason, float]:
    if _came_back_static(absence):
        return AbsenceReason.STATIC_IN_TIME, SURE
    if row_predicates.is_close_reason(absence.interval.reason):
        return (_CRASHED if _failed(absence) else _CLOSED), CERTAIN
    if absence.same_process is True:
        return (_CLOSED, LIKELY) if _closed(absence) else (_POLL, SURE)
    if absence.timeline.anonymous and absence.back is None:
        return AbsenceReason.LEFT_UNKNOWN_REASON, UNSURE
    if absence.same_process is False or absence.back is None:
        return (_CRASHED if _failed(absence) else _CLOSED), SURE
    limit = absence.timeline.limit_ms
    stayed = _since_rejoin(absence, formed)
    if limit is not None and stayed is not None and stayed < POLL_MARGIN * limit:
        return _CLOSED, LIKELY
    return AbsenceReason.LEFT_UNKNOWN_REASON, UNSURE


def _closed(absence: Absence) -> bool:
    """Return whether its log shows that it was closed: the line of its next start is missing."""
    return bool(within(absence.timeline.closes, absence.left_ms - NEAR_MS, absence.back_ms or absence.left_ms))


def _stopped(absence: Absence) -> bool:
    """Return whether its log shows that the application closed it in this interval, without an error before."""
    timeline, since = absence.timeline, absence.interval.joined_ms
    closed = (*timeline.closes, *(row for row in timeline.leaves if not row_predicates.is_overrun(row)))
    return any(since <= row.time_ms <= absence.left_ms + NEAR_MS for row in closed) and not _failed(absence)


def _came_back_static(absence: Absence) -> bool:
    """A KIP-848 static member that closes leaves temporarily and keeps its place (epoch -2)."""
    return (
        absence.interval.ended is not None
        and absence.interval.ended.detail_text("why") == "temporarily"
        and absence.back is not None
    )


def _expired(absence: Absence, formed: list[int]) -> tuple[AbsenceReason, float]:
    if absence.same_process is True:
        # A client that only gets UNKNOWN_MEMBER_ID was paused, or its handler blocked its heartbeats.
        return (_POLL, SURE) if _busy(absence) else (_PAUSE, SURE if _silence_logged(absence) else POSSIBLE)
    static = absence.interval.instance is not None
    if absence.back is None and absence.interval.ended is not None and absence.interval.ended.is_from_client:
        return _PAUSE, LIKELY  # the client logged it, so its process is running
    if absence.same_process is False:
        return (AbsenceReason.STATIC_LATE if static and not _failed(absence) else _CRASHED), SURE
    if absence.back is None and _stopped(absence):
        return _CLOSED, SURE  # it closed without LeaveGroup: a static member does, or the request was lost
    if absence.back is None and not absence.timeline.anonymous:
        # A crashed process logs nothing more; a hanging or disconnected one does.
        if (
            absence.timeline.has_log
            and absence.timeline.logged_ms[-1] > absence.left_ms
            and not _process_ended(absence)
        ):
            return _PAUSE, LIKELY
        return _CRASHED, (SURE if absence.timeline.has_log and not static else LIKELY)
    return _EXPIRED_UNKNOWN


def _silence_logged(absence: Absence) -> bool:
    """Return whether the coordinator logged the expiry, or the client logged its own session timeout."""
    if absence.evidence is None or absence.evidence.is_from_broker:
        return True
    until = absence.back_ms or absence.left_ms
    rows = within(absence.timeline.lost, absence.left_ms - NEAR_MS, until)
    return any(row_predicates.is_timed_out(row) for row in rows)


def _process_ended(absence: Absence) -> bool:
    """Return whether its log shows the end of the process or a later start (even without a join)."""
    started = absence.timeline.starts
    return _failed(absence) or bool(started and started[-1].time_ms > absence.interval.joined_ms)


def _dropped(absence: Absence, formed: list[int]) -> tuple[AbsenceReason, float]:
    """It did not rejoin within its rebalance timeout: its poll loop was blocked, or the process had ended."""
    if absence.back is None and _stopped(absence):
        return _CLOSED, LIKELY
    if absence.same_process is False or absence.back is None:
        return _CRASHED, LIKELY
    return _POLL, (SURE if absence.same_process else LIKELY)


def _gone(absence: Absence, formed: list[int]) -> tuple[AbsenceReason, float]:
    if absence.same_process is True and (_left_by_itself(absence) or _busy(absence)):
        return _POLL, SURE
    if absence.same_process is True and absence.timeline.lost:
        return _PAUSE, LIKELY
    if absence.same_process is False and absence.interval.instance is not None and absence.back is not None:
        # A static member that is back in time finds the generation it left.
        same_generation = (
            absence.interval.last_generation is not None
            and absence.interval.last_generation == absence.back.last_generation
        )
        return (AbsenceReason.STATIC_IN_TIME if same_generation else AbsenceReason.STATIC_LATE), LIKELY
    if absence.same_process is False and absence.timeline.has_log:
        closed = absence.timeline.leaves or within(absence.timeline.closes, absence.interval.joined_ms, absence.left_ms)
        return (_CRASHED if _failed(absence) or not closed else _CLOSED), LIKELY
    return (
        AbsenceReason.GONE_UNKNOWN_REASON,
        UNSURE,
    )  # a record does not show whether the first process closed or crashed


def _busy(absence: Absence) -> bool:
    """Return whether it kept working after UNKNOWN_MEMBER_ID before it rejoined.

    A paused client rejoins as soon as it gets the error. A client that sends heartbeats and rejoins only between
    messages (kafkajs, or any client with a blocked poll loop) gets the error repeatedly while its handler continues.
    """
    back = absence.back
    if back is None:
        return False
    errors = within(absence.timeline.lost, absence.left_ms - NEAR_MS, back.joined_ms)
    if not errors or within(absence.timeline.assigned, errors[0].time_ms + 1, back.joined_ms - 1):
        return False  # it rejoined sooner: the line of that join is missing
    return back.joined_ms - errors[0].time_ms > (absence.timeline.session_ms or NEAR_MS)


def _left_by_itself(absence: Absence) -> bool:
    """Return whether its log has a leave in this interval."""
    until = absence.back_ms or absence.left_ms
    return bool(within(absence.timeline.leaves, absence.interval.joined_ms + 1, until))


def _failed(absence: Absence) -> bool:
    """Return whether its log shows an error that ended the process in this interval."""
    until = absence.left_ms + NEAR_MS
    errors = within(absence.timeline.failures, absence.interval.joined_ms + 1, until)
    return any(_ended_process(absence, row.time_ms) for row in errors)


def _ended_process(absence: Absence, error_ms: int) -> bool:
    """Return whether its log has nothing more after the error: a client that continues has handled it."""
    timeline = absence.timeline
    restarts = (row.time_ms for row in timeline.starts if row.time_ms > error_ms)
    until = min(next(restarts, absence.left_ms), absence.left_ms)
    return not timeline.logged_between(error_ms + NEAR_MS, until - 1)


def _since_rejoin(absence: Absence, formed: list[int]) -> int | None:
    at = bisect_right(formed, absence.left_ms - 1)
    if at == 0:
        return None
    return absence.left_ms - max(formed[at - 1], absence.interval.joined_ms)


def _replaced(absence: Absence, formed: list[int]) -> tuple[AbsenceReason, float]:
    return AbsenceReason.STATIC_IN_TIME, CERTAIN


_BY_END: Final[Mapping[MembershipEnd, Callable[[Absence, list[int]], tuple[AbsenceReason, float]]]] = {
    MembershipEnd.REPLACED: _replaced,
    MembershipEnd.LEFT: _left,
    MembershipEnd.EXPIRED: _expired,
    MembershipEnd.DROPPED: _dropped,
    MembershipEnd.UNSYNCED: _dropped,
    MembershipEnd.GONE: _gone,
}
