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

from slackwater.doctor.causes.absences import AbsenceReason, ExplainedAbsence, by_timeline, recurs, with_reason
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


def session_expiry(history: GroupHistory, absences: Sequence[ExplainedAbsence]) -> Finding | None:
    """Find members whose session expired while their process kept running."""
    pauses = with_reason(absences, AbsenceReason.PAUSE)
    if not pauses:
        return None
    timelines = _timelines(pauses)
    # A client that gets no response logs the same if its coordinator is down; one that is back has found it.
    is_certain = history.has_broker or any(explained.absence.back is not None for explained in pauses)
    confidence = min(max(explained.confidence for explained in pauses) + 0.1, CERTAIN)
    return Finding(
        cause="kip848_session_expiry" if history.is_consumer_protocol else "session_expiry",
        culprits=tuple(timeline.name for timeline in timelines),
        times=tuple(explained.left_ms for explained in pauses),
        confidence=confidence if is_certain else min(confidence, LIKELY),
        evidence=_evidence(pauses),
        recurring=recurs(pauses),
        figures=_pause_figures(pauses),
        missing=() if is_certain else (NO_RESPONSE,),
        alternatives=() if is_certain else ("coordinator_unreachable", "coordinator_restart"),
    )


def crash_loop(history: GroupHistory, absences: Sequence[ExplainedAbsence]) -> Finding | None:
    """Find members that crash and are restarted more than once."""
    added = {id(timeline) for timeline in history.added_clients}
    repeated: list[ExplainedAbsence] = []
    deploys = restarts_of_all(history, absences)
    for every in by_timeline(absences):
        if len(every) < 2:
            continue
        timeline = every[0].timeline
        own = with_reason(every, AbsenceReason.CRASHED, AbsenceReason.CLOSED)
        if any(r.absence.overlapped for r in own):
            # It crashed at least once; its other expiries without a known reason are most likely crashes too.
            own = with_reason(every, AbsenceReason.CRASHED, AbsenceReason.CLOSED, AbsenceReason.EXPIRED_UNKNOWN_REASON)
        crashed = with_reason(own, AbsenceReason.CRASHED)
        if len(own) < 2 or (id(timeline) in added and not crashed):
            continue
        if crashed or len(own) > 2 * deploys:
            repeated.extend(own)
    if not repeated:
        return _static_loop(absences)
    repeated.sort(key=lambda explained: explained.left_ms)
    confidences = [explained.confidence for explained in repeated]
    has_crash = any(explained.reason is AbsenceReason.CRASHED for explained in repeated)
    return Finding(
        cause="crash_loop",
        culprits=tuple(timeline.name for timeline in _timelines(repeated)),
        times=tuple(explained.left_ms for explained in repeated),
        confidence=(
            min(sum(confidences) / len(confidences) + 0.1, CERTAIN) if has_crash else min(max(confidences), SURE)
        ),
        evidence=_crash_evidence(repeated),
        recurring=True,
        figures=_restart_figures(repeated),
        alternatives=() if has_crash else ("autoscaler_flapping", "rolling_restart"),
    )


def _static_loop(absences: Sequence[ExplainedAbsence]) -> Finding | None:
    """Find one static member that replaces itself repeatedly while no other one does."""
    swapped = replaced_alone(absences)
    if len(swapped) < 2:
        return None
    is_restarted = all(explained.absence.same_process is False for explained in swapped)
    return Finding(
        cause="crash_loop",
        culprits=(swapped[0].timeline.name,),
        times=tuple(explained.left_ms for explained in swapped),
        confidence=SURE if is_restarted else LIKELY,
        evidence=_crash_evidence(swapped),
        recurring=True,
        figures=_restart_figures(swapped),
        missing=() if is_restarted else (CLIENT_LOG,),
        alternatives=() if is_restarted else ("instance_id_conflict", "static_restart_in_time"),
    )


def replaced_alone(absences: Sequence[ExplainedAbsence]) -> list[ExplainedAbsence]:
    """Return the returns in time of the only static member that had any; empty if others had too, as in a deploy."""
    swapped = by_timeline(with_reason(absences, AbsenceReason.STATIC_IN_TIME))
    return swapped[0] if len(swapped) == 1 else []


def crash(history: GroupHistory, absences: Sequence[ExplainedAbsence]) -> Finding | None:
    """Find members that crashed once."""
    crashed = [own[0] for own in by_timeline(with_reason(absences, AbsenceReason.CRASHED)) if len(own) == 1]
    if not crashed or _all_back(history, crashed):
        return None
    return Finding(
        cause="crash",
        culprits=tuple(timeline.name for timeline in _timelines(crashed)),
        times=tuple(explained.left_ms for explained in crashed),
        confidence=max(explained.confidence for explained in crashed),
        evidence=_crash_evidence(crashed),
        figures=_restart_figures(crashed),
        missing=() if any(r.timeline.has_log for r in crashed) else (CLIENT_LOG,),
        alternatives=_crash_alternatives(crashed),
    )


def _crash_alternatives(crashed: Sequence[ExplainedAbsence]) -> tuple[str, ...]:
    """A member that has no log and does not come back may be alive. One that did not rejoin sent heartbeats or not."""
    unseen = [r for r in crashed if not r.timeline.has_log and r.absence.back is None]
    if any(r.absence.end is MembershipEnd.DROPPED for r in unseen):
        return "poll_delay", "session_expiry"
    return ("session_expiry",) if unseen else ()


def _all_back(history: GroupHistory, crashed: Sequence[ExplainedAbsence]) -> bool:
    """Return whether all members were stopped once and came back: a deploy that does not wait for close()."""
    return (
        len(crashed) > 1
        and all(explained.absence.back is not None for explained in crashed)
        and 2 * len(crashed) >= len(history.timelines)
    )


def restarts_of_all(history: GroupHistory, absences: Sequence[ExplainedAbsence]) -> int:
    """Return the number of deploys: how often at least half of the members (and more than one) left and came back."""
    went = with_reason(absences, AbsenceReason.CLOSED, AbsenceReason.CRASHED, AbsenceReason.LEFT_UNKNOWN_REASON)
    counts = sorted((len(own) for own in by_timeline(went)), reverse=True)
    half = max(2, -(-sum(1 for timeline in history.timelines.values() if timeline.intervals) // 2))
    return counts[half - 1] if len(counts) >= half else 0


def _timelines(absences: Sequence[ExplainedAbsence]) -> list[ClientTimeline]:
    return [own[0].timeline for own in by_timeline(absences)]


def _evidence(absences: Sequence[ExplainedAbsence]) -> tuple[EvidenceLine, ...]:
    lines: list[EvidenceLine | None] = []
    for explained in absences[:2]:
        absence = explained.absence
        is_noticed = absence.evidence is not None and absence.evidence.is_from_client
        what = "lost its session: no heartbeat response" if is_noticed else "was removed: no heartbeat"
        lines.append(evidence(absence.evidence, f"{explained.timeline.name} {what} within its session timeout"))
        notices = [row for row in explained.timeline.lost if abs(row.time_ms - (absence.back_ms or 0)) < 2 * NEAR_MS]
        if notices:
            lines.append(
                evidence(
                    notices[0], f"{explained.timeline.name} was still running: it noticed that it had lost its session"
                )
            )
    return shown(lines)


def _crash_evidence(absences: Sequence[ExplainedAbsence]) -> tuple[EvidenceLine, ...]:
    lines: list[EvidenceLine | None] = []
    for explained in absences[:2]:
        timeline, absence = explained.timeline, explained.absence
        failed = [row for row in timeline.failures if row.time_ms <= absence.left_ms + NEAR_MS]
        if failed:
            lines.append(evidence(failed[-1], f"{timeline.name} ended with an error"))
        if absence.overlapped and absence.back is not None:
            began_again = joining(absence.back.began, "rejoined with a new id")
            lines.append(evidence(absence.back.began, f"{timeline.name} {began_again} before the old id expired"))
        lines.append(evidence(absence.evidence, f"{timeline.name} was removed from the group"))
        began = [
            row
            for row in timeline.starts
            if absence.back_ms and absence.interval.joined_ms < row.time_ms <= absence.back_ms
        ]
        if began:
            lines.append(evidence(began[-1], f"{timeline.name} was started again"))
    return shown(lines)


def _pause_figures(pauses: Sequence[ExplainedAbsence]) -> dict[str, int]:
    """Return the longest silence: the session timeout plus the time until the client was back."""
    session = max((explained.timeline.session_ms or 0 for explained in pauses), default=0)
    logged = max((row.detail_number("duration_ms") or 0 for r in pauses for row in r.timeline.lost), default=0)
    away = max((explained.absence.away_ms or 0 for explained in pauses), default=0)
    figures = {"session_ms": session, "pause_ms": max(logged, session + away if session else 0), "away_ms": away}
    return {name: value for name, value in figures.items() if value}


def _restart_figures(absences: Sequence[ExplainedAbsence]) -> dict[str, int]:
    away = [explained.absence.away_ms for explained in absences if explained.absence.away_ms]
    stays = [lasted for explained in absences if (lasted := explained.absence.interval.lasted_ms())]
    figures = {"restart_ms": max(away, default=0), "uptime_ms": min(stays, default=0), "deaths": len(absences)}
    return {name: value for name, value in figures.items() if value}
