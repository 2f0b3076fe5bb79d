"""Comings and goings that could be several things, where the one source that would tell was not read.

Rules kept here
- A guess is never made of what two causes leave alike: the finding is `unknown`, names the causes that it could be, and
  says whose log would decide it.
- What can be excluded is: a member that leaves exactly one poll limit after each rejoin is most likely put out by its
  timer.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.absences import Reading, Why, recurs
from slackwater.doctor.causes.finding import LIKELY, UNSURE, Finding, evidence, shown, unique
from slackwater.doctor.causes.poll import at_the_limit
from slackwater.doctor.timeline.group_history import GroupHistory

UNTOLD: Final[dict[Why, tuple[str, ...]]] = {
    Why.LEFT_UNTOLD: ("poll_delay", "crash_loop", "rolling_restart"),
    Why.EXPIRED_UNTOLD: ("session_expiry", "crash_loop", "poll_delay"),
    Why.GONE_UNTOLD: ("poll_delay", "session_expiry", "crash_loop", "rolling_restart"),
}
_LEFT: Final = Why.LEFT_UNTOLD
_KIP848: Final = {name: f"kip848_{name}" for name in ("poll_delay", "session_expiry", "rolling_restart")}


def untold(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Members that went and came back, and nobody says why."""
    own = [reading for reading in readings if reading.why in UNTOLD]
    if not own:
        return None
    names = unique(reading.story.name for reading in own)
    times = tuple(reading.left_ms for reading in own)
    lines = shown(evidence(r.absence.evidence, f"{r.story.name} goes, and nothing says why") for r in own)
    recurring = recurs(own)
    limit = _poll_limit(history, own) if recurring else None
    if limit is not None:
        return Finding(
            cause="kip848_poll_delay" if history.is_consumer_protocol else "poll_delay",
            culprits=names,
            times=times,
            confidence=LIKELY,
            evidence=lines,
            recurring=True,
            figures={"limit_ms": limit},
            missing=_ask(history, names),
            alternatives=("crash_loop",),
        )
    return Finding(
        cause="unknown",
        culprits=names,
        times=times,
        confidence=UNSURE,
        evidence=lines,
        recurring=recurring,
        missing=_ask(history, names),
        alternatives=unique(cause for r in own for cause in _could_be(history, r)),
    )


def _poll_limit(history: GroupHistory, own: Sequence[Reading]) -> int | None:
    """The poll limit that every one of them stayed for, if that is what they have in common."""
    if any(r.why is not _LEFT for r in own):
        return None
    formed = sorted(one.time_ms for one in history.generations)
    stays = [stay for r in own if (stay := _stay(formed, r)) is not None]
    limit = next((limit for r in own if (limit := r.story.limit_ms)), None)
    return limit if at_the_limit(stays, limit) else None


def _could_be(history: GroupHistory, reading: Reading) -> tuple[str, ...]:
    if reading.absence.back is None and not reading.story.anonymous:
        return ("scale_in", "crash")
    causes = UNTOLD[reading.why]
    if not history.has_broker:
        causes = (*causes, "coordinator_restart")
    if not history.is_consumer_protocol:
        return causes
    return tuple(_KIP848.get(cause, cause) for cause in causes)


def _stay(formed: Sequence[int], reading: Reading) -> int | None:
    at = bisect_left(formed, reading.left_ms)
    last = formed[at - 1] if at else 0
    return reading.left_ms - last if last >= reading.absence.term.joined_ms else None


def _ask(history: GroupHistory, names: Sequence[str]) -> tuple[str, ...]:
    return (f"could not tell from {history.told_from}: ask for the client's log of {', '.join(names[:3])}",)
