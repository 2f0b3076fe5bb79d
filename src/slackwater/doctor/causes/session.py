"""Expired sessions: paused processes, crashed processes, and crash loops.

Invariants:
- A session that expires while the process runs means a pause (GC, a frozen machine) or a lost network connection: the
  client notices it afterwards and rejoins at once with a new id.
- A process that crashes does not leave: its old id stays until its session expires. If it comes back sooner, its new id
  joins before the old one expires; a running process would have kept its id.
- A process that comes back is restarted by a supervisor; two crashes make a loop. A clean close does not mean a clean
  exit: an exception that ends the consumer's loop also closes the consumer.
- A static member that crashes and is back in time forms no generation. It is replaced, alone, repeatedly.
- A deploy restarts all members about equally often; a crash loop concerns one member or a few.
"""

from collections.abc import Sequence

from slackwater.doctor.causes.departures import (
    DepartureReason,
    ExplainedDeparture,
    by_timeline,
    filter_by_reason,
    recurs,
)
from slackwater.doctor.causes.finding import (
    CERTAIN,
    LIKELY,
    SURE,
    EvidenceLine,
    Finding,
    evidence,
    joining,
    shown,
)
from slackwater.doctor.timeline.client_timeline import NEAR_MS, ClientTimeline
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import MembershipEnd

NO_RESPONSE = "whether the process was paused, the network failed or the broker was down; add the broker's log"
CLIENT_LOG = "what the process did meanwhile (pause, crash, slow handler); add the client's log"


def session_expiry(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find members whose session expired while their process kept running."""
    pauses = filter_by_reason(departures, DepartureReason.PAUSE)
    if not pauses:
        return None
    timelines = _timelines(pauses)
    # A client that gets no response logs the same if its coordinator is down; one that is back has found it.
    is_certain = history.has_broker or any(explained.departure.back is not None for explained in pauses)
    confidence = min(max(explained.confidence for explained in pauses) + 0.1, CERTAIN)
    return Finding(
        cause="kip848_session_expiry" if history.is_consumer_protocol else "session_expiry",
        culprits=tuple(timeline.name for timeline in timelines),
        times=tuple(explained.left_ms for explained in pauses),
        confidence=confidence if is_certain else min(confidence, LIKELY),
        evidence=_evidence(pauses),
        is_recurring=recurs(pauses),
        figures=_pause_figures(pauses),
        missing_input=() if is_certain else (NO_RESPONSE,),
        alternatives=() if is_certain else ("coordinator_unreachable", "coordinator_restart"),
    )


def crash_loop(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find members that crash and are restarted more than once."""
    added = {id(timeline) for timeline in history.added_clients}
    repeated: list[ExplainedDeparture] = []
    deploys = restarts_of_all(history, departures)
    for every in by_timeline(departures):
        if len(every) < 2:
            continue
        timeline = every[0].timeline
        own = filter_by_reason(every, DepartureReason.CRASHED, DepartureReason.CLOSED)
        if any(explained.departure.overlapped for explained in own):
            # It crashed at least once; its other expiries without a known reason are most likely crashes too.
            own = filter_by_reason(
                every, DepartureReason.CRASHED, DepartureReason.CLOSED, DepartureReason.EXPIRED_UNKNOWN_REASON
            )
        crashed = filter_by_reason(own, DepartureReason.CRASHED)
        if len(own) < 2 or (id(timeline) in added and not crashed):
            continue
        if crashed or len(own) > 2 * deploys:
            repeated.extend(own)
    if not repeated:
        return _static_loop(departures)
    repeated.sort(key=lambda explained: explained.left_ms)
    confidences = [explained.confidence for explained in repeated]
    has_crash = any(explained.reason is DepartureReason.CRASHED for explained in repeated)
    return Finding(
        cause="crash_loop",
        culprits=tuple(timeline.name for timeline in _timelines(repeated)),
        times=tuple(explained.left_ms for explained in repeated),
        confidence=(
            min(sum(confidences) / len(confidences) + 0.1, CERTAIN) if has_crash else min(max(confidences), SURE)
        ),
        evidence=_crash_evidence(repeated),
        is_recurring=True,
        figures=_restart_figures(repeated),
        alternatives=() if has_crash else ("autoscaler_flapping", "rolling_restart"),
    )


def _static_loop(departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find one static member that replaces itself repeatedly while no other one does."""
    swapped = replaced_alone(departures)
    if len(swapped) < 2:
        return None
    is_restarted = all(explained.departure.same_process is False for explained in swapped)
    return Finding(
        cause="crash_loop",
        culprits=(swapped[0].timeline.name,),
        times=tuple(explained.left_ms for explained in swapped),
        confidence=SURE if is_restarted else LIKELY,
        evidence=_crash_evidence(swapped),
        is_recurring=True,
        figures=_restart_figures(swapped),
        missing_input=() if is_restarted else (CLIENT_LOG,),
        alternatives=() if is_restarted else ("instance_id_conflict", "static_restart_in_time"),
    )


def replaced_alone(departures: Sequence[ExplainedDeparture]) -> list[ExplainedDeparture]:
    """Return the returns in time of the only static member that had any; empty if others had too, as in a deploy."""
    swapped = by_timeline(filter_by_reason(departures, DepartureReason.STATIC_IN_TIME))
    return swapped[0] if len(swapped) == 1 else []


def crash(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find members that crashed once."""
    crashed = [own[0] for own in by_timeline(filter_by_reason(departures, DepartureReason.CRASHED)) if len(own) == 1]
    if not crashed or _all_back(history, crashed):
        return None
    return Finding(
        cause="crash",
        culprits=tuple(timeline.name for timeline in _timelines(crashed)),
        times=tuple(explained.left_ms for explained in crashed),
        confidence=max(explained.confidence for explained in crashed),
        evidence=_crash_evidence(crashed),
        figures=_restart_figures(crashed),
        missing_input=() if any(explained.timeline.has_log for explained in crashed) else (CLIENT_LOG,),
        alternatives=_crash_alternatives(crashed),
    )


def _crash_alternatives(crashed: Sequence[ExplainedDeparture]) -> tuple[str, ...]:
    """A member that has no log and does not come back may be alive. One that did not rejoin sent heartbeats or not."""
    unseen = [explained for explained in crashed if not explained.timeline.has_log and explained.departure.back is None]
    if any(explained.departure.end is MembershipEnd.DROPPED for explained in unseen):
        return "poll_delay", "session_expiry"
    return ("session_expiry",) if unseen else ()


def _all_back(history: GroupHistory, crashed: Sequence[ExplainedDeparture]) -> bool:
    """Return whether all members were stopped once and came back: a deploy that does not wait for close()."""
    return (
        len(crashed) > 1
        and all(explained.departure.back is not None for explained in crashed)
        and 2 * len(crashed) >= len(history.timelines)
    )


def restarts_of_all(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> int:
    """Return the number of deploys: how often at least half of the members (and more than one) left and came back."""
    went = filter_by_reason(
        departures, DepartureReason.CLOSED, DepartureReason.CRASHED, DepartureReason.LEFT_UNKNOWN_REASON
    )
    counts = sorted((len(own) for own in by_timeline(went)), reverse=True)
    half = max(2, -(-sum(1 for timeline in history.timelines.values() if timeline.intervals) // 2))
    return counts[half - 1] if len(counts) >= half else 0


def _timelines(departures: Sequence[ExplainedDeparture]) -> list[ClientTimeline]:
    return [own[0].timeline for own in by_timeline(departures)]


def _evidence(departures: Sequence[ExplainedDeparture]) -> tuple[EvidenceLine, ...]:
    lines: list[EvidenceLine | None] = []
    for explained in departures[:2]:
        departure = explained.departure
        is_noticed = departure.evidence is not None and departure.evidence.is_from_client
        what = "lost its session: no heartbeat response" if is_noticed else "was removed: no heartbeat"
        lines.append(evidence(departure.evidence, f"{explained.timeline.name} {what} within its session timeout"))
        notices = [
            row for row in explained.timeline.log.lost if abs(row.time_ms - (departure.back_ms or 0)) < 2 * NEAR_MS
        ]
        if notices:
            lines.append(
                evidence(
                    notices[0], f"{explained.timeline.name} was still running: it noticed that it had lost its session"
                )
            )
    return shown(lines)


def _crash_evidence(departures: Sequence[ExplainedDeparture]) -> tuple[EvidenceLine, ...]:
    lines: list[EvidenceLine | None] = []
    for explained in departures[:2]:
        timeline, departure = explained.timeline, explained.departure
        failed = [row for row in timeline.log.failures if row.time_ms <= departure.left_ms + NEAR_MS]
        if failed:
            lines.append(evidence(failed[-1], f"{timeline.name} ended with an error"))
        if departure.overlapped and departure.back is not None:
            began_again = joining(departure.back.began, "rejoined with a new id")
            lines.append(evidence(departure.back.began, f"{timeline.name} {began_again} before the old id expired"))
        lines.append(evidence(departure.evidence, f"{timeline.name} was removed from the group"))
        began = [
            row
            for row in timeline.starts
            if departure.back_ms and departure.interval.joined_ms < row.time_ms <= departure.back_ms
        ]
        if began:
            lines.append(evidence(began[-1], f"{timeline.name} was started again"))
    return shown(lines)


def _pause_figures(pauses: Sequence[ExplainedDeparture]) -> dict[str, int]:
    """Return the longest silence: the session timeout plus the time until the client was back."""
    session = max((explained.timeline.session_ms or 0 for explained in pauses), default=0)
    logged = max(
        (row.detail_number("duration_ms") or 0 for explained in pauses for row in explained.timeline.log.lost),
        default=0,
    )
    away = max((explained.departure.away_ms or 0 for explained in pauses), default=0)
    figures = {"session_ms": session, "pause_ms": max(logged, session + away if session else 0), "away_ms": away}
    return {name: value for name, value in figures.items() if value}


def _restart_figures(departures: Sequence[ExplainedDeparture]) -> dict[str, int]:
    away = [explained.departure.away_ms for explained in departures if explained.departure.away_ms]
    stays = [lasted for explained in departures if (lasted := explained.departure.interval.lasted_ms())]
    figures = {"restart_ms": max(away, default=0), "uptime_ms": min(stays, default=0), "deaths": len(departures)}
    return {name: value for name, value in figures.items() if value}
