"""Rebalances that do not end, or that repeat without a change of members.

Invariants:
- A rebalance waits for its members up to their longest rebalance timeout. One that is still open after that at the end
  of the history, or that Kafka gave up ("no members rejoined"), is stuck; one open longer than the alert limit most
  likely is. One that ends with REBALANCE_IN_PROGRESS is not: the next one takes its place.
- It waits for members that have not sent JoinGroup. If the logs show that others have, the silent ones are named.
- A cooperative assignor takes one follow-up rebalance to assign revoked partitions. One that keeps requesting more
  without a change of members never converges.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.departures import ExplainedDeparture
from slackwater.doctor.causes.finding import LIKELY, SURE, Finding, evidence, shown
from slackwater.doctor.defaults import MAX_POLL_INTERVAL_MS
from slackwater.doctor.events.rows import Row
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.rebalances import START_AND_END_KINDS
from slackwater.group.events import EventKind, Trigger
from slackwater.group.rebalance_counter import NO_FAILURE

ALERT_MS: Final = 60_000
_FOLLOW_UP: Final = Trigger.COOPERATIVE_FOLLOWUP
_STARTED: Final = EventKind.REBALANCE_STARTED
MIN_FOLLOW_UPS: Final = 4
"""One follow-up is normal and a late member can cause a second; this many in a row do not converge."""


def stuck_rebalance(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find a rebalance that was given up or is still open after its timeout."""
    rows = [row for row in history.rows_of(EventKind.REBALANCE_FAILED) if row.is_from_broker]
    failed = [row for row in rows if row.detail_text("error") not in NO_FAILURE]
    waiting = history.rows_of(EventKind.REBALANCE_WAITING)
    open_since = _open_since(history)
    if not failed and open_since is None:
        return None
    known = max((timeline.limit_ms or 0 for timeline in history.timelines.values()), default=0)
    timeout = known or MAX_POLL_INTERVAL_MS
    open_ms = max(history.ended_ms, history.cluster.ended_ms) - open_since.time_ms if open_since is not None else 0
    hangs = open_ms > min(timeout, ALERT_MS)
    if not failed and not hangs:
        return None
    rows = [*failed, *([open_since] if hangs and open_since is not None else [])]
    awaited = waiting[-1].detail_names("waiting_for") if waiting and hangs else ()
    names = tuple(next((t.name for t in history.intervals if t.member == member), member) for member in awaited)
    if hangs and open_since is not None and not names:
        names = _without_join(history, open_since.time_ms)
    return Finding(
        cause="stuck_rebalance",
        culprits=names,
        times=tuple(row.time_ms for row in rows),
        confidence=SURE if open_ms > timeout else LIKELY,
        evidence=shown(evidence(row, "the rebalance does not end") for row in rows),
        is_recurring=len(failed) > 1,
        figures=({"timeout_ms": known} if known else {}) | ({"open_ms": open_ms} if hangs else {}),
        missing_input=()
        if names
        else ("which member it waits for; add the members' logs or look at `slackwater groups describe`",),
    )


def _without_join(history: GroupHistory, since_ms: int) -> tuple[str, ...]:
    """Return the members that did not send JoinGroup, if the logs of others show that they did."""
    members = [timeline for timeline in history.timelines.values() if timeline.has_log and timeline.intervals[-1:]]
    members = [
        timeline
        for timeline in members
        if timeline.intervals[-1].ended_ms is None and timeline.intervals[-1].joined_ms < since_ms
    ]
    rejoined = [
        timeline for timeline in members if timeline.log.rejoins and timeline.log.rejoins[-1].time_ms >= since_ms
    ]
    return tuple(timeline.name for timeline in members if timeline not in rejoined) if rejoined else ()


def _open_since(history: GroupHistory) -> Row | None:
    began: Row | None = None
    for row in reversed(history.rows_of(*START_AND_END_KINDS)):
        if row.is_from_broker:
            if row.kind != _STARTED:
                break
            began = row
    return began


def never_converges(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find follow-up rebalances that repeat while the members stay the same."""
    run: list[Row] = []
    longest: list[Row] = []
    if _FOLLOW_UP not in history.triggers:
        return None
    for row in history.rows_of(_STARTED):
        if row.is_from_broker:
            if row.trigger != _FOLLOW_UP:
                run = []
                continue
            run.append(row)
            longest = run if len(run) > len(longest) else longest
    if len(longest) < MIN_FOLLOW_UPS:
        return None
    return Finding(
        cause="assignor_never_converges",
        culprits=(),
        times=tuple(row.time_ms for row in longest),
        confidence=SURE,
        evidence=shown(evidence(row, "another follow-up rebalance without a change of members") for row in longest),
        is_recurring=True,
        figures={"rounds": len(longest)},
    )
