"""Scaling: members that were added, members that were removed, and an alternating number of members.

Invariants:
- A client that joins for the first time after the start is a scale-out; one that closes and does not come back is a
  scale-in.
- A flapping autoscaler adds members and removes them again, repeatedly. In a restart the member leaves first.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from slackwater.doctor.causes.departures import DepartureReason, ExplainedDeparture, by_timeline, filter_by_reason
from slackwater.doctor.causes.finding import (
    CERTAIN,
    LIKELY,
    NEARLY_CERTAIN,
    SURE,
    Finding,
    evidence,
    joining,
    shown,
    unique,
)
from slackwater.doctor.causes.session import restarts_of_all
from slackwater.doctor.events.rows import Row
from slackwater.doctor.timeline.client_timeline import NEAR_MS, ClientTimeline
from slackwater.doctor.timeline.group_history import GroupHistory

_MIN_SEEN_MS: Final = 10_000
"""If the history ends sooner after a join or a leave, the member may be one that is restarted."""
_AFTER: Final = "whether it comes back; add the lines after these"
_BEFORE: Final = "whether they were members before and stay now; add the lines before and after these"
CLIENT_LOG = "whether it was stopped or crashed; add the client's log"


def scale_out(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find new members that stayed."""
    left = {id(explained.timeline) for explained in departures}
    came = [timeline for timeline in history.added_clients if id(timeline) not in left]
    if not came:
        return None
    is_seen = _seen_ms(history, max(timeline.intervals[0].joined_ms for timeline in came)) >= _MIN_SEEN_MS
    is_known = (
        _named(came)
        and is_seen
        and all(_arrival_logged(timeline) for timeline in came)
        and not _may_have_returned(history, came, departures)
    )
    return Finding(
        cause="scale_out",
        culprits=tuple(timeline.name for timeline in came),
        times=tuple(timeline.intervals[0].joined_ms for timeline in came),
        confidence=NEARLY_CERTAIN if is_known else LIKELY,
        evidence=shown(
            evidence(
                timeline.intervals[0].began, f"{timeline.name} {joining(timeline.intervals[0].began, 'joined, new')}"
            )
            for timeline in came
        ),
        alternatives=() if is_seen else ("rolling_restart", "crash_loop"),
        missing_input=() if is_seen else (_BEFORE,),
    )


def scale_in(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find members that closed and did not come back."""
    once = [own[0] for own in by_timeline(departures) if len(own) == 1]
    gone = [
        explained
        for explained in once
        if explained.reason in (DepartureReason.CLOSED, DepartureReason.GONE_UNKNOWN_REASON)
        and explained.departure.back is None
    ]
    if not gone:
        return None
    is_known = all(explained.reason is DepartureReason.CLOSED for explained in gone) and _named(
        [explained.timeline for explained in gone]
    )
    # A member without a name that joined later can be the same client.
    first_ms = min(explained.left_ms for explained in gone)
    later = [timeline for timeline in history.added_clients if timeline.intervals[0].joined_ms > first_ms]
    is_known = is_known and _named(later) and not any(_logged_later(explained) for explained in gone)
    is_known = is_known and not _has_unexplained_epochs(history, first_ms)
    is_seen = _seen_ms(history, max(explained.left_ms for explained in gone)) >= _MIN_SEEN_MS
    is_closed = all(explained.confidence >= CERTAIN for explained in gone)
    is_known = is_known and is_seen
    return Finding(
        cause="scale_in",
        culprits=unique(explained.timeline.name for explained in gone),
        times=tuple(explained.left_ms for explained in gone),
        confidence=NEARLY_CERTAIN if is_known else 0.6,
        evidence=shown(
            evidence(explained.departure.evidence, f"{explained.timeline.name} left and did not come back")
            for explained in gone
        ),
        missing_input=() if is_known else (_AFTER if is_closed else CLIENT_LOG,),
        alternatives=_scale_in_alternatives(is_known=is_known, is_seen=is_seen, is_closed=is_closed),
    )


def _scale_in_alternatives(*, is_known: bool, is_seen: bool, is_closed: bool) -> tuple[str, ...]:
    if is_known:
        return ()
    if is_closed:
        return ("rolling_restart",)
    return ("crash",) if is_seen else ("rolling_restart", "poll_delay", "crash")


def _seen_ms(history: GroupHistory, since_ms: int) -> int:
    """Return how long the history continues after this time."""
    return max(history.ended_ms, history.cluster.ended_ms) - since_ms


def flapping(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find new members that leave and join repeatedly, or are replaced by others that leave too."""
    moves = sorted([*_arrivals(history), *_leaves(history, departures)], key=itemgetter(0))
    runs = [move for index, move in enumerate(moves) if index == 0 or move[1] != moves[index - 1][1]]
    # At least join, leave and join again, of clients that are recognised when they come back.
    if len(runs) < 3 or any(timeline.anonymous for _, _, timeline, _ in moves):
        return None
    moved = {id(timeline) for _, _, timeline, _ in moves}
    back = [
        own for own in by_timeline(departures) if id(own[0].timeline) in moved and own[0].departure.back is not None
    ]
    if back and max(map(len, back)) <= 2 * restarts_of_all(history, departures):
        return None  # a deploy restarts all members as often
    named = _named([timeline for _, _, timeline, _ in moves])
    is_unknown = not named or bool(
        filter_by_reason(departures, DepartureReason.LEFT_UNKNOWN_REASON, DepartureReason.GONE_UNKNOWN_REASON)
    )
    logged = named and any(timeline.has_log for _, _, timeline, _ in moves)
    return Finding(
        cause="autoscaler_flapping",
        culprits=unique(timeline.name for _, _, timeline, _ in moves),
        times=tuple(time for time, _, _, _ in moves),
        confidence=SURE + 0.05 if not is_unknown else (SURE if logged else LIKELY),
        evidence=shown(
            evidence(row, f"{timeline.name} {joining(row) if step > 0 else 'left'}") for _, step, timeline, row in runs
        ),
        is_recurring=True,
        figures={"swings": len(runs), "period_ms": (runs[-1][0] - runs[0][0]) // max(1, len(runs) - 1)},
        alternatives=("crash_loop",) if is_unknown else (),
        missing_input=(CLIENT_LOG,) if is_unknown and not logged else (),
    )


def _named(timelines: Sequence[ClientTimeline]) -> bool:
    """Return whether their names survive a restart; a member id does not."""
    return all(
        (timeline.client is not None or timeline.instance is not None) and not timeline.anonymous
        for timeline in timelines
    )


def _has_unexplained_epochs(history: GroupHistory, since_ms: int) -> bool:
    """Return whether a KIP-848 group had more epochs than joins and leaves: lines are missing, perhaps of a return."""
    if not history.is_consumer_protocol:
        return False
    epochs = sum(1 for generation in history.generations if generation.time_ms >= since_ms)
    moves = (time_ms for interval in history.intervals for time_ms in (interval.joined_ms, interval.ended_ms))
    return epochs > sum(1 for time_ms in moves if time_ms is not None and time_ms >= since_ms)


def _logged_later(explained: ExplainedDeparture) -> bool:
    """Return whether the client's own log continues: the line of its next join is missing."""
    return explained.timeline.has_log and explained.timeline.log.logged_ms[-1] > explained.left_ms + NEAR_MS


def _may_have_returned(
    history: GroupHistory, came: Sequence[ClientTimeline], departures: Sequence[ExplainedDeparture]
) -> bool:
    """Return whether a new member can be a client that left before and whose name or leave is not in the input."""
    if departures and not history.has_broker:
        return True  # the client's earlier lines can be missing
    last_ms = max(timeline.intervals[0].joined_ms for timeline in came)
    return any(
        explained.left_ms <= last_ms and explained.departure.back is None and not _named([explained.timeline])
        for explained in departures
    )


def _arrival_logged(timeline: ClientTimeline) -> bool:
    """Return whether its arrival is logged; a record contains only the end of the rebalance."""
    began = timeline.intervals[0].began
    return bool(timeline.starts) or (began is not None and began.is_from_broker)


_Move = tuple[int, int, ClientTimeline, Row | None]


def _arrivals(history: GroupHistory) -> list[_Move]:
    return [
        (interval.joined_ms, 1, timeline, interval.began)
        for timeline in history.added_clients
        for interval in timeline.intervals
    ]


def _leaves(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> list[_Move]:
    added = {id(timeline) for timeline in history.added_clients}
    return [
        (explained.left_ms, -1, explained.timeline, explained.departure.evidence)
        for explained in departures
        if id(explained.timeline) in added
        and explained.reason
        in (DepartureReason.CLOSED, DepartureReason.LEFT_UNKNOWN_REASON, DepartureReason.GONE_UNKNOWN_REASON)
    ]
