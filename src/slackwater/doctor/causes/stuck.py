"""Rounds that do not end, or that end and begin again for nothing.

Rules kept here
- A round waits for its members for as long as the longest rebalance timeout among them; one that has not ended by then
  at the end of the history, or that Kafka gave up ("no members rejoined"), is stuck.
- A cooperative assignor takes one follow-up round to move what was revoked. One that wants another, and another, while
  nobody comes or goes, never converges.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor import signals
from slackwater.doctor.causes.absences import Reading
from slackwater.doctor.causes.finding import LIKELY, SURE, Finding, evidence, shown
from slackwater.doctor.defaults import MAX_POLL_INTERVAL_MS
from slackwater.doctor.history import GroupHistory
from slackwater.doctor.rows import Row
from slackwater.group.events import Kind, Trigger

FOLLOW_UPS: Final = 4
"""One follow-up is the protocol's, a second may come from a member that was late; more in a row are not converging."""


def stuck_rebalance(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """A round that was given up, or that is still open when it should long be over."""
    failed = [row for row in history.rows if row.kind == Kind.REBALANCE_FAILED and row.of_broker]
    waiting = [row for row in history.rows if row.kind == Kind.REBALANCE_WAITING]
    open_since = _open_since(history)
    timeout = max((story.limit_ms() or 0 for story in history.stories.values()), default=0) or MAX_POLL_INTERVAL_MS
    hangs = open_since is not None and history.ended_ms - open_since.time_ms > timeout
    if not failed and not hangs:
        return None
    told = [*failed, *([open_since] if hangs and open_since is not None else [])]
    awaited = waiting[-1].names("waiting_for") if waiting and hangs else ()
    names = tuple(next((t.name for t in history.terms if t.member == member), member) for member in awaited)
    return Finding(
        cause="stuck_rebalance",
        culprits=names,
        times=tuple(row.time_ms for row in told),
        confidence=SURE if hangs else LIKELY,
        evidence=shown(evidence(row, "the round does not end") for row in told),
        recurring=len(failed) > 1,
        figures={"timeout_ms": timeout},
        missing=() if names else ("for whom the round waits: ask DescribeGroups, or the members' logs",),
    )


def _open_since(history: GroupHistory) -> Row | None:
    began: Row | None = None
    for row in history.rows:
        if not row.of_broker:
            continue
        if row.kind == Kind.REBALANCE_STARTED and began is None:
            began = row
        elif signals.is_formed(row) or row.kind in (Kind.GROUP_EMPTIED, Kind.GROUP_UNLOADED, Kind.GROUP_LOADED):
            began = None
    return began


def never_converges(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Follow-up after follow-up while the members stay the same."""
    run: list[Row] = []
    longest: list[Row] = []
    for row in history.rows:
        if row.kind == Kind.REBALANCE_STARTED and row.of_broker:
            if row.trigger != Trigger.COOPERATIVE_FOLLOWUP:
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
