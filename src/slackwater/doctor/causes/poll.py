"""Poll delay: a member did not call poll() within max.poll.interval.ms.

Invariants:
- The client leaves by its own timer, so its log and the reason of its leave show it; the broker sees only a leave.
- The first such member is the culprit. A member that kept up before, and whose own late poll began only after the first
  one left, was overloaded by the partitions it took over: it is secondary. A member that was late at the same time, or
  never kept up, is also a culprit (a slow downstream system, or too little capacity).
- A member that repeatedly leaves exactly one poll interval after each rejoin most likely exceeds it, even if that is
  not logged.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from slackwater.doctor.causes.departures import DepartureReason, ExplainedDeparture, by_timeline, filter_by_reason
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, EvidenceLine, Finding, evidence, joining, shown
from slackwater.doctor.events.times import has_clock
from slackwater.doctor.timeline.client_timeline import NEAR_MS, ClientTimeline
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import MembershipEnd
from slackwater.group.events import EventKind

SUBSCRIPTIONS: Final = (
    "whether all members read the same topics (if not, two services share the group, and each needs a group.id of its "
    "own); add the clients' logs or __consumer_offsets"
)
MIN_BATCHES_FOR_PERCENTILE: Final = 100
"""The 99th percentile of fewer values is their maximum."""
_DETECTION_MS: Final = 1_500
"""librdkafka logs an overrun when its timer notices it, not when the batch ends: what it logs is less than that."""
_TOGETHER: Final = 0.05
"""Members whose late batches began within this part of the limit most likely waited for the same thing."""
_AT_THE_LIMIT: Final = 1.25
"""The timer fires at its limit; the rest is for the join before the first poll."""


def poll_delay(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find members that exceeded max.poll.interval.ms."""
    poll_timeouts = _find_poll_timeouts(history, departures)
    if not poll_timeouts:
        return None
    culprits, secondary = _split_secondary(
        poll_timeouts, sorted(generation.time_ms for generation in history.generations)
    )
    sure = any(timeline.log.overruns for timeline, _ in poll_timeouts) or any(
        explained.confidence >= CERTAIN for explained in filter_by_reason(departures, DepartureReason.POLL)
    )
    knows_topics = _is_alone(history) or (
        all(timeline.topics for timeline in culprits) and sum(bool(s.topics) for s in history.timelines.values()) > 1
    )
    confidence = max(
        (explained.confidence for explained in filter_by_reason(departures, DepartureReason.POLL)), default=LIKELY
    )
    confidence = CERTAIN if sure else confidence
    return Finding(
        cause="kip848_poll_delay" if history.is_consumer_protocol else "poll_delay",
        culprits=tuple(timeline.name for timeline in culprits),
        secondary_members=tuple(timeline.name for timeline in secondary),
        times=tuple(sorted(time for _, times in poll_timeouts for time in times)),
        confidence=confidence if knows_topics else min(confidence, LIKELY),
        evidence=_evidence(culprits, departures),
        is_recurring=any(len(times) > 1 for _, times in poll_timeouts),
        figures=_figures(history, culprits, departures) | _together(culprits, poll_timeouts),
        missing_input=() if knows_topics else (SUBSCRIPTIONS,),
    )


def _is_alone(history: GroupHistory) -> bool:
    """Return whether the group never had more than one member, so that no other service uses its id."""
    sizes = {row.members for row in history.rows_of(EventKind.GENERATION_FORMED) if row.members is not None}
    return max(sizes, default=0) == 1 and len(history.timelines) == 1


def _together(
    culprits: Sequence[ClientTimeline], poll_timeouts: Sequence[tuple[ClientTimeline, list[int]]]
) -> dict[str, int]:
    """Return within which time all culprits were late for the first time, if that shows a common reason."""
    limit = min((timeline.limit_ms or 0 for timeline in culprits), default=0)
    own = {id(timeline) for timeline in culprits}
    first = [times[0] for timeline, times in poll_timeouts if id(timeline) in own]
    spread = max(first) - min(first)
    return {"together_ms": spread} if has_clock(min(first)) and 0 < spread <= _TOGETHER * limit else {}


def at_the_limit(stays_ms: Iterable[int], limit_ms: int | None) -> bool:
    """Return whether every membership lasted one poll interval and not much longer."""
    stays = list(stays_ms)
    if limit_ms is None or not stays:
        return False
    return all(limit_ms - NEAR_MS / 2 <= stay <= _AT_THE_LIMIT * limit_ms + NEAR_MS for stay in stays)


def _find_poll_timeouts(
    history: GroupHistory, departures: Sequence[ExplainedDeparture]
) -> list[tuple[ClientTimeline, list[int]]]:
    """Return per member when it left by its poll timer; the client's line and the coordinator's count once."""
    poll_timeouts = []
    left_by_timer = {
        id(own[0].timeline): own for own in by_timeline(filter_by_reason(departures, DepartureReason.POLL))
    }
    if not left_by_timer and not any(timeline.log.overruns for timeline in history.timelines.values()):
        return []
    logged_clients = {
        timeline.client for timeline in history.timelines.values() if timeline.log.overruns and not timeline.anonymous
    }
    for timeline in history.timelines.values():
        if timeline.anonymous and timeline.client in logged_clients:
            continue  # the client with the log counts for it
        left = [explained.left_ms for explained in left_by_timer.get(id(timeline), ())]
        logged = (
            _drop_close((row.time_ms for row in timeline.log.overruns), timeline.limit_ms or NEAR_MS)
            if timeline.log.overruns
            else []
        )
        if left or logged:
            times = left if len(left) >= len(logged) else logged
            # The client's line is earlier than a leave that is only inferred from its return.
            times = [min(both) for both in zip(left, logged, strict=True)] if len(left) == len(logged) else times
            poll_timeouts.append((timeline, times))
    return sorted(poll_timeouts, key=lambda entry: entry[1][0])


def _drop_close(times: Iterable[int], gap_ms: int) -> list[int]:
    """Drop times that follow another too closely to be a separate event."""
    separate: list[int] = []
    for time in times:
        if not separate or time - separate[-1] >= min(gap_ms, NEAR_MS):
            separate.append(time)
    return separate


def _split_secondary(
    poll_timeouts: Sequence[tuple[ClientTimeline, list[int]]], formed: Sequence[int]
) -> tuple[list[ClientTimeline], list[ClientTimeline]]:
    first, first_times = poll_timeouts[0]
    culprits: list[ClientTimeline] = [first]
    secondary: list[ClientTimeline] = []
    for timeline, times in poll_timeouts[1:]:
        limit = timeline.limit_ms or first.limit_ms or 0
        late_poll_began_ms = times[0] - limit  # start of the poll that took too long
        began_after_takeover = limit > 0 and late_poll_began_ms >= first_times[0]
        (secondary if began_after_takeover and _kept_up(timeline, formed, first_times[0], limit) else culprits).append(
            timeline
        )
    return culprits, secondary


def _kept_up(timeline: ClientTimeline, formed: Sequence[int], before_ms: int, limit_ms: int) -> bool:
    """Return whether it was a member for longer than the limit before the first poll timeout."""
    for interval in timeline.intervals:
        until = before_ms if interval.ended_ms is None else min(interval.ended_ms, before_ms)
        index = bisect_left(formed, interval.joined_ms)  # it has no partitions before its first generation
        if index < len(formed) and until - formed[index] > limit_ms:
            return True
    return False


def _evidence(culprits: Sequence[ClientTimeline], departures: Sequence[ExplainedDeparture]) -> tuple[EvidenceLine, ...]:
    lines: list[EvidenceLine | None] = []
    for timeline in culprits:
        if timeline.log.overruns:
            lines.append(evidence(timeline.log.overruns[0], f"{timeline.name} exceeded max.poll.interval.ms"))
        timeout = next(
            (
                explained
                for explained in filter_by_reason(departures, DepartureReason.POLL)
                if explained.timeline is timeline
            ),
            None,
        )
        if timeout is not None:
            lines.append(evidence(timeout.departure.evidence, f"{timeline.name} {_describe_end(timeout)}"))
        back = timeout.departure.back if timeout is not None else None
        if back is not None:
            lines.append(evidence(back.began, f"{timeline.name} {joining(back.began, 'rejoined')}"))
    return shown(lines)


def _describe_end(timeout: ExplainedDeparture) -> str:
    match timeout.departure.end:
        case MembershipEnd.EXPIRED:
            return "expired while its handler was busy: this client sends heartbeats only between messages"
        case MembershipEnd.DROPPED:
            return "did not rejoin within the rebalance timeout: its poll loop was blocked"
        case _:
            return "left the group: max.poll.interval.ms exceeded"


def _poll_records(timelines: Iterable[ClientTimeline]) -> int:
    """Return the max.poll.records that these clients logged; 0 if none did, or they differ."""
    values = {value for timeline in timelines if (value := timeline.settings.get("max.poll.records", "")).isdigit()}
    return int(values.pop()) if len(values) == 1 else 0


def _figures(
    history: GroupHistory, culprits: Sequence[ClientTimeline], departures: Sequence[ExplainedDeparture]
) -> dict[str, int]:
    """Return the limit and the duration of the late batches: the limit plus the work left when the timer fired."""
    limit = max((timeline.limit_ms or 0 for timeline in culprits), default=0)
    logged = [
        over_ms
        for timeline in culprits
        for row in timeline.log.overruns
        if (over_ms := row.detail_number("over_ms")) is not None and over_ms >= _DETECTION_MS
    ]
    names = {id(timeline) for timeline in culprits}
    away = [
        explained.departure.away_ms or 0
        for explained in filter_by_reason(departures, DepartureReason.POLL)
        if id(explained.timeline) in names
    ]
    # The timer fires at the limit: the time until the member is back shows how long its batch really took.
    over = sorted(away if max(away, default=0) >= max(logged, default=0) else logged)
    longest = over[-1] if over else 0
    figures = {"limit_ms": limit, "longest_ms": limit + longest} if limit else {"over_ms": longest}
    if limit and over:
        figures["late_batches"] = len(over)
        if len(over) >= MIN_BATCHES_FOR_PERCENTILE:
            figures["p99_ms"] = limit + over[math.ceil(0.99 * len(over)) - 1]
    figures["poll_records"] = _poll_records(culprits) or _poll_records(history.timelines.values())
    if any(
        explained.departure.end is MembershipEnd.EXPIRED
        for explained in filter_by_reason(departures, DepartureReason.POLL)
        if id(explained.timeline) in names
    ):
        # Heartbeats wait for the handler, so the session timeout is the limit.
        figures["handler_blocks"] = 1
        figures["session_ms"] = max((timeline.session_ms or 0 for timeline in culprits), default=0)
        figures["handler_ms"] = figures["session_ms"] + max(away, default=0) if figures["session_ms"] else 0
    return {name: value for name, value in figures.items() if value}
