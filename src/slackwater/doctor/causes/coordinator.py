"""A coordinator that went away: its broker was restarted, or its partition moved.

Rules kept here
- A group whose coordinator restarts loses its round under way and nothing else; its members rejoin, or go on as if
  nothing was. Ids that expire a session later are those of members that gave up meanwhile.
- All members lose the coordinator at once. One that loses it alone was silent itself.
"""

from collections.abc import Sequence

from slackwater.doctor.causes.absences import FAILOVER_ROUNDS, Reading
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, Finding, evidence, shown, unique
from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import Row
from slackwater.doctor.timeline.cluster_history import Outage
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind

BROKER_LOG = "whether the broker restarted or could not be reached: ask for the broker's log"


def coordinator_restart(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Outages of the coordinator while the group had members."""
    outages = [outage for outage in history.outages if _was_there(history, outage)]
    if not outages:
        return None
    told = all(not row.of_client for outage in outages for row in outage.rows)
    return Finding(
        cause="coordinator_restart",
        culprits=unique(f"broker {outage.node}" for outage in outages if outage.node),
        times=tuple(outage.ended_ms for outage in outages),
        confidence=CERTAIN if told else LIKELY,
        evidence=shown(evidence(row, _what(row, outage)) for outage in outages for row in outage.rows),
        figures={"down_ms": max(outage.ended_ms - (outage.began_ms or outage.ended_ms) for outage in outages)},
        missing=() if told else (BROKER_LOG,),
    )


def _what(row: Row, outage: Outage) -> str:
    if row.of_client:
        return f"{row.client} loses the coordinator"
    return f"broker {outage.node} {'stops' if signals.is_broker_stop(row) else 'is up again'}"


def _was_there(history: GroupHistory, outage: Outage) -> bool:
    began = _loaded_ms(history, outage) if outage.began_ms is None else outage.began_ms
    return any(term.joined_ms < began and (term.ended_ms is None or term.ended_ms > began) for term in history.terms)


def _loaded_ms(history: GroupHistory, outage: Outage) -> int:
    """When the coordinator that was killed had the group again; a slow start lets members expire before it is over."""
    since = outage.ended_ms - FAILOVER_ROUNDS * SESSION_TIMEOUT_MS
    loads = (row.time_ms for row in history.of(EventKind.GROUP_LOADED) if row.of_broker)
    return min((time_ms for time_ms in loads if since < time_ms < outage.ended_ms), default=outage.ended_ms)
