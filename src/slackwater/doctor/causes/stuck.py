"""Rounds that do not end, or that end and begin again for nothing.

Rules kept here
- A round waits for its members for as long as the longest rebalance timeout among them; one that has not ended by then
  at the end of the history, or that Kafka gave up ("no members rejoined"), is stuck. So is most likely one that has
  been open for longer than a rebalance may take before somebody is woken.
- It waits for those who have not asked to rejoin. Where logs tell that others have, those that say nothing are meant.
- A cooperative assignor takes one follow-up round to move what was revoked. One that wants another, and another, while
  nobody comes or goes, never converges.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.absences import Reading
from slackwater.doctor.causes.finding import LIKELY, SURE, Finding, evidence, shown
from slackwater.doctor.defaults import MAX_POLL_INTERVAL_MS
from slackwater.doctor.events.rows import Row
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.rebalances import ROUNDS
from slackwater.group.events import EventKind, Trigger

LONG_MS: Final = 60_000
_FOLLOW_UP: Final = Trigger.COOPERATIVE_FOLLOWUP
_STARTED: Final = EventKind.REBALANCE_STARTED
FOLLOW_UPS: Final = 4
"""One follow-up is the protocol's, a second may come from a member that was late; more in a row are not converging."""


def stuck_rebalance(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """A round that was given up, or that is still open when it should long be over."""
    failed = [row for row in history.of(EventKind.REBALANCE_FAILED) if row.of_broker]
    waiting = history.of(EventKind.REBALANCE_WAITING)
    open_since = _open_since(history)
    if not failed and open_since is None:
        return None
    timeout = max((story.limit_ms or 0 for story in history.stories.values()), default=0) or MAX_POLL_INTERVAL_MS
    open_ms = max(history.ended_ms, history.cluster.ended_ms) - open_since.time_ms if open_since is not None else 0
    hangs = open_ms > min(timeout, LONG_MS)
    if not failed and not hangs:
        return None
    told = [*failed, *([open_since] if hangs and open_since is not None else [])]
    awaited = waiting[-1].names("waiting_for") if waiting and hangs else ()
    names = tuple(next((t.name for t in history.terms if t.member == member), member) for member in awaited)
    if hangs and open_since is not None and not names:
        names = _not_heard_of(history, open_since.time_ms)
    return Finding(
        cause="stuck_rebalance",
        culprits=names,
        times=tuple(row.time_ms for row in told),
        confidence=SURE if open_ms > timeout else LIKELY,
        evidence=shown(evidence(row, "the round does not end") for row in told),
        recurring=len(failed) > 1,
        figures={"timeout_ms": timeout},
        missing=() if names else ("for whom the round waits: ask DescribeGroups, or the members' logs",),
    )


def _not_heard_of(history: GroupHistory, since_ms: int) -> tuple[str, ...]:
    """Members that were there and did not ask to rejoin, if the logs of others show that they did."""
    there = [story for story in history.stories.values() if story.logged and story.terms[-1:]]
    there = [story for story in there if story.terms[-1].ended_ms is None and story.terms[-1].joined_ms < since_ms]
    asked = [story for story in there if story.rejoins and story.rejoins[-1].time_ms >= since_ms]
    return tuple(story.name for story in there if story not in asked) if asked else ()


def _open_since(history: GroupHistory) -> Row | None:
    began: Row | None = None
    for row in reversed(history.of(*ROUNDS)):
        if row.of_broker:
            if row.kind != _STARTED:
                break
            began = row
    return began


def never_converges(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Follow-up after follow-up while the members stay the same."""
    run: list[Row] = []
    longest: list[Row] = []
    if _FOLLOW_UP not in history.triggers:
        return None
    for row in history.of(_STARTED):
        if row.of_broker:
            if row.trigger != _FOLLOW_UP:
                run = []
                continue
            run.append(row)
            longest = run if len(run) > len(longest) else longest
    if len(longest) < FOLLOW_UPS:
        return None
    return Finding(
        cause="assignor_never_converges",
        culprits=(),
        times=tuple(row.time_ms for row in longest),
        confidence=SURE,
        evidence=shown(evidence(row, "another follow-up round, and nobody came or went") for row in longest),
        recurring=True,
        figures={"rounds": len(longest)},
    )
