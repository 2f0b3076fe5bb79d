"""Planned restarts: deploys of dynamic and static members, and changes of the assignor.

Invariants:
- A dynamic member leaves when it closes and comes back with a new id: up to two rebalances per member (the reason for
  KIP-345). A static member keeps its place until its session ends: no rebalance if it is back by then.
- Static members do not leave when they close; one that comes back too late was removed by its session timeout.
- A static member that sends LeaveGroup gives up its place: the restart is not hidden. Java's consumer does not when it
  closes; a tool, another library or an option of close() does.
- A join contains the member's assignors. A deploy after which the list differs is a migration.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from slackwater.doctor.causes.departures import (
    DepartureReason,
    ExplainedDeparture,
    by_timeline,
    filter_by_reason,
    recurs,
)
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, EvidenceLine, Finding, evidence, shown, unique
from slackwater.doctor.causes.session import replaced_alone
from slackwater.doctor.phrases import count_of, shown_names
from slackwater.doctor.timeline.client_timeline import ClientTimeline
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import MembershipEnd

BROKER_LOG = "whether they left, or were static members that kept their places; add the broker's log"
ASSIGNORS = "whether the assignor was changed; add the clients' logs or __consumer_offsets"
REMOVED = "whether the member comes back, or a tool removed it for good; add the lines after this one"
STATIC: Final = ("static_restart_in_time", "static_restart_too_late")
CLIENT_LOG = "whether it was restarted or exceeded max.poll.interval.ms; add the client's log"


def rolling_restart(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find members that closed and came back, each about once."""
    back = filter_by_reason(
        departures,
        DepartureReason.CLOSED,
        DepartureReason.CRASHED,
        DepartureReason.LEFT_UNKNOWN_REASON,
        DepartureReason.GONE_UNKNOWN_REASON,
    )
    timelines = _restarted(history, back)
    if not timelines:
        return _turnover(history, back)
    restarted = {id(timeline) for timeline in timelines}
    own = [explained for explained in back if id(explained.timeline) in restarted]
    counts = [len(restarts) for restarts in by_timeline(own)]
    all_members = len(timelines) > 1 and 2 * len(timelines) >= len(history.timelines)
    if max(counts) > 1 and not (all_members and max(counts) <= 2 * min(counts)):
        return None
    reasons_known = all(explained.reason in (DepartureReason.CLOSED, DepartureReason.CRASHED) for explained in own)
    if not reasons_known and not all_members:
        return None
    dynamic = _were_dynamic(history, timelines)
    has_assignor = history.is_consumer_protocol or _assignor_known(history, timelines)
    confidence = (CERTAIN if all_members else SURE) if reasons_known and dynamic and has_assignor else LIKELY
    cause = "rolling_restart"
    if migrated(history, timelines):
        cause = "assignor_migration"
    elif history.is_consumer_protocol:
        cause = "kip848_rolling_restart"
    return Finding(
        cause=cause,
        culprits=tuple(timeline.name for timeline in timelines),
        times=tuple(explained.left_ms for explained in own),
        confidence=min(
            confidence,
            min(
                (explained.confidence + 0.1 for explained in own if explained.reason is DepartureReason.CLOSED),
                default=confidence,
            ),
        ),
        evidence=_evidence(own),
        figures=_figures(own),
        missing_input=_open_questions({CLIENT_LOG: reasons_known, BROKER_LOG: dynamic, ASSIGNORS: has_assignor}),
        alternatives=(
            *(() if reasons_known else ("poll_delay",)),
            *(() if dynamic else STATIC),
            *(() if has_assignor or cause == "assignor_migration" else ("assignor_migration",)),
        ),
    )


def _open_questions(questions: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(question for question, answered in questions.items() if not answered)


def _assignor_known(history: GroupHistory, timelines: Sequence[ClientTimeline]) -> bool:
    """Return whether the group's assignor is known: brokers of Kafka 4 do not log it."""
    return any(timeline.assignors for timeline in timelines) or bool(history.assignors)


def _were_dynamic(history: GroupHistory, timelines: Sequence[ClientTimeline]) -> bool:
    """Return whether leaves are known. Static members do not leave, and not every client logs its kind."""
    if history.has_broker or history.has_records:
        return True
    return all(timeline.log.leaves and timeline.instance is None for timeline in timelines)


def _turnover(history: GroupHistory, gone: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find a deploy whose processes come back under other names: as many new members as left, one after another.

    A KIP-848 member generates a new id in each process, and a broker's log has no other name; a rollout can also rename
    its processes.
    """
    gone = [explained for explained in gone if explained.left_ms > history.start_ended_ms]
    left = {id(explained.timeline) for explained in gone}
    came = [timeline for timeline in history.added_clients if id(timeline) not in left]
    if len(gone) < 2 or abs(len(came) - len(gone)) > 1:
        return None
    moves = sorted(
        [*((explained.left_ms, -1) for explained in gone), *((timeline.intervals[0].joined_ms, 1) for timeline in came)]
    )
    balance, widest = 0, 0
    for _, step in moves:
        balance += step
        widest = max(widest, abs(balance))
    if widest > 1 and 2 * widest > len(gone):
        return None  # all left, then all joined (or the reverse): the group was scaled
    return Finding(
        cause="kip848_rolling_restart" if history.is_consumer_protocol else "rolling_restart",
        culprits=unique(explained.timeline.name for explained in gone),
        times=tuple(time for time, _ in moves),
        confidence=LIKELY,
        evidence=_evidence(gone),
        figures={"restarts": len(gone)},
        missing_input=("which process came back under which name; add __consumer_offsets or the clients' logs",),
        alternatives=("scale_out", "scale_in"),
    )


def static_restart(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find static members that came back, in time or too late."""
    late = filter_by_reason(departures, DepartureReason.STATIC_LATE)
    unknown = [
        explained
        for explained in filter_by_reason(departures, DepartureReason.EXPIRED_UNKNOWN_REASON)
        if explained.timeline.instance is not None
    ]
    if len({explained.timeline.name for explained in unknown}) > 1 or late:
        late = sorted([*late, *unknown], key=lambda explained: explained.left_ms)
    in_time = filter_by_reason(departures, DepartureReason.STATIC_IN_TIME)
    own = late or in_time
    if not own or (not late and len(replaced_alone(departures)) > 1):
        return None  # one member that is replaced repeatedly, alone, is not a deploy
    reasons_known = all(explained.reason is not DepartureReason.EXPIRED_UNKNOWN_REASON for explained in own)
    names = unique(explained.timeline.name for explained in own)
    # A record does not show whether the replaced process had ended.
    alone = not late and len(own) == 1 and not (history.has_broker or history.has_clients)
    return Finding(
        cause="static_restart_too_late" if late else "static_restart_in_time",
        culprits=names,
        times=tuple(explained.left_ms for explained in own),
        confidence=min(
            LIKELY if alone or not reasons_known else CERTAIN,
            max(explained.confidence for explained in own) if reasons_known else LIKELY,
        ),
        evidence=_evidence(own),
        figures=_late_figures(own) if late else _figures(own),
        missing_input=() if reasons_known and not alone else (CLIENT_LOG,),
        alternatives=("instance_id_conflict",) if alone else () if reasons_known else ("session_expiry",),
    )


def static_member_leaves(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find static members that leave explicitly."""
    if history.is_consumer_protocol:
        return None  # a static member that closes leaves temporarily and keeps its place
    own = [
        explained
        for explained in departures
        if explained.departure.interval.instance is not None
        and explained.departure.end is MembershipEnd.LEFT
        and explained.reason not in (DepartureReason.ADMIN, DepartureReason.POLL, DepartureReason.STATIC_IN_TIME)
    ]
    if not own:
        return None
    is_back = any(explained.departure.back is not None for explained in own)
    names = unique(explained.timeline.name for explained in own)
    came_back = ", and came back" if is_back else ""
    return Finding(
        cause="static_member_leaves",
        culprits=names,
        times=tuple(explained.left_ms for explained in own),
        confidence=SURE if is_back else LIKELY,
        evidence=_evidence(own),
        is_recurring=recurs(own),
        figures=_figures(own),
        missing_input=() if is_back else (REMOVED,),
        alternatives=() if is_back else ("scale_in",),
        is_partial=not is_back,
        headline=f"{shown_names(names)}: a static member that sent LeaveGroup{came_back}{count_of(len(own))}",
    )


def migrated(history: GroupHistory, timelines: Sequence[ClientTimeline]) -> bool:
    """Return whether the restarted members changed their assignors, or the group's assignor changed."""
    changed = 0
    for timeline in timelines:
        offered = [frozenset(assignors) for _, assignors in timeline.assignors]
        # A setting contains class names, a join protocol names: do not compare them with each other.
        classes = {names for names in offered if any(name != name.lower() for name in names)}
        changed += len(classes) > 1 or len(set(offered) - classes) > 1
    return changed > 0 or any(len(names) > 1 for names in history.assignors.values())


def _restarted(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> list[ClientTimeline]:
    """Return the clients that left and came back."""
    back = {id(explained.timeline) for explained in departures if explained.departure.back is not None}
    return [timeline for timeline in history.timelines.values() if id(timeline) in back]


_ENDED: Final = {
    MembershipEnd.LEFT: "left",
    MembershipEnd.EXPIRED: "was removed: its session expired",
    MembershipEnd.DROPPED: "was removed: it did not rejoin",
    MembershipEnd.UNSYNCED: "was removed: it did not sync",
    MembershipEnd.REPLACED: "was replaced",
    MembershipEnd.GONE: "is no longer in the group",
}


def _evidence(departures: Sequence[ExplainedDeparture]) -> tuple[EvidenceLine, ...]:
    lines: list[EvidenceLine | None] = []
    for explained in departures[:2]:
        departure = explained.departure
        lines.append(evidence(departure.evidence, f"{explained.timeline.name} {_ENDED[departure.end]}"))
        if departure.back is not None:
            lines.append(evidence(departure.back.began, f"{explained.timeline.name} came back as a new member"))
    return shown(lines)


def _late_figures(departures: Sequence[ExplainedDeparture]) -> dict[str, int]:
    """Return the figures of members that were removed a session timeout after their last heartbeat."""
    figures = _figures(departures)
    late, session = figures.pop("restart_ms", 0), figures.get("session_ms", 0)
    figures |= {"late_ms": late, "restart_ms": session + late if session and late else 0}
    return {name: value for name, value in figures.items() if value}


def _figures(departures: Sequence[ExplainedDeparture]) -> dict[str, int]:
    away = max((explained.departure.away_ms or 0 for explained in departures), default=0)
    session = max((explained.timeline.session_ms or 0 for explained in departures), default=0)
    figures = {"restart_ms": away, "session_ms": session, "restarts": len(departures)}
    return {name: value for name, value in figures.items() if value}
