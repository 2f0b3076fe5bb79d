"""Coordinator outages: the coordinator's broker restarted, its partition moved, or one client cannot reach it.

Invariants:
- A group whose coordinator restarts loses only the rebalance in progress; its members rejoin or continue. Member ids
  that expire one session later belong to members that gave up meanwhile.
- All members lose the coordinator together. A member that loses it alone was silent itself.
- A client that finds its coordinator and loses it again, repeatedly and without a completed join, cannot reach it: the
  address that the broker advertises does not work from there, or the network drops the connection.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.departures import FAILOVER_SESSIONS, ExplainedDeparture, outage_of
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, Finding, evidence, shown, unique
from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import Row
from slackwater.doctor.phrases import shown_names
from slackwater.doctor.prescriptions.numbers import measured
from slackwater.doctor.timeline.cluster_history import Outage
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind

BROKER_LOG = "whether the broker restarted or was unreachable; add the broker's log"


OTHERS = "whether other clients reach the coordinator; add their logs or the broker's log"
MIN_CYCLES: Final = 3
_COORDINATOR_KINDS: Final = (
    EventKind.COORDINATOR_FOUND,
    EventKind.COORDINATOR_LOST,
    EventKind.MEMBER_JOINED,
    EventKind.REBALANCE_COMPLETED,
    EventKind.PARTITIONS_ASSIGNED,
)
STILL_THERE = "whether the group still had members: it has no line after the outage; add the clients' logs"


def coordinator_restart(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find outages of the coordinator while the group had members."""
    outages = [outage for outage in history.outages if _had_members(history, outage)]
    if not outages:
        return None
    logged_by_broker = all(not row.is_from_client for outage in outages for row in outage.rows)
    continues = any(history.continues_after(outage) for outage in outages)
    return Finding(
        cause="coordinator_restart",
        culprits=unique(f"broker {outage.node}" for outage in outages if outage.node),
        times=tuple(outage.ended_ms for outage in outages),
        confidence=CERTAIN if logged_by_broker and continues else LIKELY,
        evidence=shown(evidence(row, _what(row, outage)) for outage in outages for row in outage.rows),
        figures={"down_ms": max(outage.ended_ms - (outage.began_ms or outage.ended_ms) for outage in outages)},
        missing_input=(
            *(() if logged_by_broker else (BROKER_LOG,)),
            *(() if continues else (STILL_THERE,)),
        ),
    )


def _what(row: Row, outage: Outage) -> str:
    if row.is_from_client:
        return f"{row.client} lost the coordinator"
    if row.kind in (EventKind.GROUP_LOADED, EventKind.GROUP_UNLOADED):
        return f"the coordinator {'loaded' if row.kind == EventKind.GROUP_LOADED else 'unloaded'} the group"
    return f"broker {outage.node} {'stopped' if row_predicates.is_broker_stop(row) else 'started again'}"


def _had_members(history: GroupHistory, outage: Outage) -> bool:
    began = _loaded_ms(history, outage) if outage.began_ms is None else outage.began_ms
    return any(
        interval.joined_ms < began and (interval.ended_ms is None or interval.ended_ms > began)
        for interval in history.intervals
    )


def _loaded_ms(history: GroupHistory, outage: Outage) -> int:
    """Return when a killed coordinator had loaded the group again; members can expire before its start is complete."""
    since = outage.ended_ms - FAILOVER_SESSIONS * SESSION_TIMEOUT_MS
    loads = (row.time_ms for row in history.rows_of(EventKind.GROUP_LOADED) if row.is_from_broker)
    return min((time_ms for time_ms in loads if since < time_ms < outage.ended_ms), default=outage.ended_ms)


def coordinator_unreachable(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find clients that find their coordinator and lose it again repeatedly."""
    cycles = {name: rows for name, rows in _cycles(history).items() if len(rows) >= MIN_CYCLES}
    cycles = {name: rows for name, rows in cycles.items() if outage_of(history, rows[0].time_ms, None) is None}
    others = [timeline for timeline in history.timelines.values() if timeline.has_log and timeline.name not in cycles]
    if not cycles or any(timeline.without_coordinator() for timeline in others):
        return None  # other clients lose it, too: the coordinator was down
    rows = [row for own in cycles.values() for row in own]
    is_alone = bool(others) or (history.has_broker and not history.outages)
    lasted_ms = max(own[-1].time_ms - own[0].time_ms for own in cycles.values())
    return Finding(
        cause="coordinator_unreachable",
        culprits=tuple(name for name in cycles if name),
        times=tuple(row.time_ms for row in rows),
        confidence=SURE if is_alone else LIKELY,
        evidence=shown(
            evidence(row, f"{name or 'a client'} lost it again") for name, own in cycles.items() for row in own
        ),
        is_recurring=True,
        figures={"losses": len(rows)} | ({"lasted_ms": lasted_ms} if lasted_ms else {}),
        missing_input=() if is_alone else (OTHERS,),
        alternatives=() if is_alone else ("coordinator_restart",),
        headline=f"{shown_names(tuple(filter(None, cycles)), 'a client')}: found its coordinator and lost it again "
        f"{len(rows)} times" + (f" in {measured(lasted_ms)}" if lasted_ms else ""),
    )


def _cycles(history: GroupHistory) -> dict[str, list[Row]]:
    """Return per client its longest run of losses, with a discovery and without a completed join between them."""
    longest: dict[str, list[Row]] = {}
    runs: dict[str, list[Row]] = {}
    found: set[str] = set()
    for row in history.rows_of(*_COORDINATOR_KINDS):
        if not row.is_from_client:
            continue
        name = row.instance or row.client or row.label or ""
        if row.kind == EventKind.COORDINATOR_FOUND:
            found.add(name)
        elif row.kind != EventKind.COORDINATOR_LOST:
            runs[name] = []
        elif name in found or not runs.get(name):
            found.discard(name)
            own = runs.setdefault(name, [])
            own.append(row)
            longest[name] = own if len(own) > len(longest.get(name, ())) else longest[name]
    return longest
