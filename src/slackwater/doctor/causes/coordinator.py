"""Coordinator outages: the coordinator's broker restarted, or its partition moved.

Invariants:
- A group whose coordinator restarts loses only the rebalance in progress; its members rejoin or continue. Member ids
  that expire one session later belong to members that gave up meanwhile.
- All members lose the coordinator together. A member that loses it alone was silent itself.
"""

from collections.abc import Sequence

from slackwater.doctor.causes.absences import FAILOVER_SESSIONS, ExplainedAbsence
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, Finding, evidence, shown, unique
from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import Row
from slackwater.doctor.timeline.cluster_history import Outage
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind

BROKER_LOG = "whether the broker restarted or was unreachable; add the broker's log"


def coordinator_restart(history: GroupHistory, absences: Sequence[ExplainedAbsence]) -> Finding | None:
    """Find outages of the coordinator while the group had members."""
    outages = [outage for outage in history.outages if _had_members(history, outage)]
    if not outages:
        return None
    logged_by_broker = all(not row.is_from_client for outage in outages for row in outage.rows)
    return Finding(
        cause="coordinator_restart",
        culprits=unique(f"broker {outage.node}" for outage in outages if outage.node),
        times=tuple(outage.ended_ms for outage in outages),
        confidence=CERTAIN if logged_by_broker else LIKELY,
        evidence=shown(evidence(row, _what(row, outage)) for outage in outages for row in outage.rows),
        figures={"down_ms": max(outage.ended_ms - (outage.began_ms or outage.ended_ms) for outage in outages)},
        missing=() if logged_by_broker else (BROKER_LOG,),
    )


def _what(row: Row, outage: Outage) -> str:
    if row.is_from_client:
        return f"{row.client} lost the coordinator"
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
    loads = (row.time_ms for row in history.of(EventKind.GROUP_LOADED) if row.is_from_broker)
    return min((time_ms for time_ms in loads if since < time_ms < outage.ended_ms), default=outage.ended_ms)
