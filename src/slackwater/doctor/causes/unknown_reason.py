"""Departures that several causes can explain because the source that would decide was not read.

Invariants:
- If two causes leave the same rows, the finding is `unknown`; it names both causes and the log that would decide.
- A cause that can be excluded is excluded: a member that leaves exactly one poll interval after each rejoin most likely
  exceeds max.poll.interval.ms.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.departures import DepartureReason, ExplainedDeparture, recurs
from slackwater.doctor.causes.finding import LIKELY, UNSURE, Finding, evidence, shown, unique
from slackwater.doctor.causes.poll import at_the_limit
from slackwater.doctor.timeline.group_history import GroupHistory

POSSIBLE_CAUSES: Final[dict[DepartureReason, tuple[str, ...]]] = {
    DepartureReason.LEFT_UNKNOWN_REASON: ("poll_delay", "crash_loop", "rolling_restart"),
    DepartureReason.EXPIRED_UNKNOWN_REASON: ("session_expiry", "crash_loop", "poll_delay"),
    DepartureReason.GONE_UNKNOWN_REASON: ("poll_delay", "session_expiry", "crash_loop", "rolling_restart"),
}
_LEFT: Final = DepartureReason.LEFT_UNKNOWN_REASON
_KIP848: Final = {name: f"kip848_{name}" for name in ("poll_delay", "session_expiry", "rolling_restart")}


def unknown_reason(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find members that left and came back for an unknown reason."""
    own = [explained for explained in departures if explained.reason in POSSIBLE_CAUSES]
    if not own:
        return None
    names = unique(explained.timeline.name for explained in own)
    times = tuple(explained.left_ms for explained in own)
    lines = shown(
        evidence(explained.departure.evidence, f"{explained.timeline.name} {_what(explained.reason)}")
        for explained in own
    )
    recurring = recurs(own)
    limit = _poll_limit(history, own) if recurring else None
    if limit is not None:
        return Finding(
            cause="kip848_poll_delay" if history.is_consumer_protocol else "poll_delay",
            culprits=names,
            times=times,
            confidence=LIKELY,
            evidence=lines,
            is_recurring=True,
            figures={"limit_ms": limit},
            missing_input=_missing(history, names),
            alternatives=("crash_loop",),
        )
    return Finding(
        cause="unknown",
        culprits=names,
        times=times,
        confidence=UNSURE,
        evidence=lines,
        is_recurring=recurring,
        missing_input=_missing(history, names),
        alternatives=unique(cause for explained in own for cause in _could_be(history, explained)),
    )


def _what(reason: DepartureReason) -> str:
    if reason is DepartureReason.EXPIRED_UNKNOWN_REASON:
        return "was removed: no heartbeat within its session timeout; why it sent none is not logged"
    return "left; the reason is not logged"


def _poll_limit(history: GroupHistory, own: Sequence[ExplainedDeparture]) -> int | None:
    """Return the poll interval if every membership lasted exactly that long."""
    if any(explained.reason is not _LEFT for explained in own):
        return None
    formed = sorted(generation.time_ms for generation in history.generations)
    stays = [stay for explained in own if (stay := _stay(formed, explained)) is not None]
    limit = next((limit for explained in own if (limit := explained.timeline.limit_ms)), None)
    return limit if at_the_limit(stays, limit) else None


def _could_be(history: GroupHistory, explained: ExplainedDeparture) -> tuple[str, ...]:
    if explained.departure.back is None and not explained.timeline.anonymous:
        return ("scale_in", "crash")
    causes = POSSIBLE_CAUSES[explained.reason]
    if not history.has_broker:
        causes = (*causes, "coordinator_restart")
    if not history.is_consumer_protocol:
        return causes
    return tuple(_KIP848.get(cause, cause) for cause in causes)


def _stay(formed: Sequence[int], explained: ExplainedDeparture) -> int | None:
    index = bisect_left(formed, explained.left_ms)
    last = formed[index - 1] if index else 0
    return explained.left_ms - last if last >= explained.departure.interval.joined_ms else None


def _missing(history: GroupHistory, names: Sequence[str]) -> tuple[str, ...]:
    return (f"the reason is not in {history.best_source}; add the client log of {', '.join(names[:3])}",)
