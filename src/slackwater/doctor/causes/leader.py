"""A leader that rejoins at an interval, and Connect workers that do not agree on their configuration.

Invariants:
- A rebalance has a reason: a member comes or goes, or topics change. A leader that starts one rebalance after another
  at equal intervals, while the members stay the same, has none: its view of the topics changes back and forth.
- A Connect worker that has not read the offset of the configuration topic that the leader assigned rejoins at once.
  Workers that never agree use different configuration topics under one group.id, or cannot read the topic to its end.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from slackwater.doctor.causes.departures import ExplainedDeparture, outage_of
from slackwater.doctor.causes.finding import LIKELY, POSSIBLE, SURE, Finding, evidence, shown, unique
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import Row
from slackwater.doctor.phrases import plural, shown_names
from slackwater.doctor.prescriptions.numbers import measured
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind, Trigger

MIN_REJOINS: Final = 4
_MAX_UNEVEN: Final = 1.5
"""The longest interval between two rejoins, in shortest ones."""
_LEADER: Final = (Trigger.LEADER_REJOIN, Trigger.UNKNOWN)
_CONFIGURATION: Final = ("configuration offset", "configuration topic")
WHY: Final = "what the leader saw change; add its log (with debug=cgrp,metadata for librdkafka)"
WORKERS: Final = "whether all workers read the same configuration topic; compare config.storage.topic of all workers"


def leader_rejoins(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find a leader that starts rebalances at equal intervals while the members stay the same."""
    rows = [row for row in history.rows_of(EventKind.REBALANCE_STARTED) if row.is_from_broker]
    moved = sorted(time for i in history.intervals for time in (i.joined_ms, i.ended_ms) if time is not None)
    run: list[Row] = []
    longest: list[Row] = []
    for row in rows:
        is_rejoin = row.trigger in _LEADER and outage_of(history, row.time_ms, None) is None
        if not is_rejoin or (run and any(run[-1].time_ms < time <= row.time_ms for time in moved)):
            run = []
        if is_rejoin:
            run.append(row)
            longest = run if len(run) > len(longest) else longest
    gaps = [after.time_ms - before.time_ms for before, after in pairwise(longest)]
    if len(longest) < MIN_REJOINS or max(gaps) > _MAX_UNEVEN * min(gaps):
        return None
    members = {member for row in longest for member in row_predicates.members_named(row)}
    names = unique(interval.name for interval in history.intervals if interval.member in members)
    names = names or unique(filter(None, map(row_predicates.member_id_prefix, sorted(members))))
    every = sum(gaps) // len(gaps)
    sizes = {row.members for row in history.rows_of(EventKind.GENERATION_FORMED) if row.members is not None}
    is_alone = sizes == {1} or (not sizes and len([i for i in history.intervals if i.ended_ms is None]) == 1)
    return Finding(
        cause="leader_rejoins",
        culprits=names,
        times=tuple(row.time_ms for row in longest),
        confidence=LIKELY,
        evidence=shown(evidence(row, "the leader started a rebalance; no member came or left") for row in longest),
        is_recurring=True,
        figures={"rejoins": len(longest), "period_ms": every},
        missing_input=(WHY,),
        alternatives=("subscription_change",),
        headline=f"{shown_names(names, 'the leader')}: rejoined {len(longest)} times, every {measured(every)}"
        + (", as the only member" if is_alone else ", while the members stayed the same"),
    )


def connect_config_loop(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find Connect workers that rejoin because their configuration offset is not that of the assignment."""
    rows = [
        row
        for row in history.rows_of(EventKind.JOIN_REQUESTED, EventKind.REBALANCE_FAILED)
        if row.is_from_client and any(words in _text(row) for words in _CONFIGURATION)
    ]
    if not rows:
        return None
    names = unique(name for row in rows if (name := row.client or row.label))
    is_loop = len(rows) > 2
    return Finding(
        cause="connect_config_loop",
        culprits=names,
        times=tuple(row.time_ms for row in rows),
        confidence=SURE if is_loop else POSSIBLE,
        evidence=shown(
            evidence(row, f"{row.client or 'a worker'}: its configuration is not that of the assignment")
            for row in rows
        ),
        is_recurring=is_loop,
        figures={"rejoins": len(rows)},
        missing_input=() if is_loop else (WORKERS,),
        is_partial=not is_loop,
        headline=f"{shown_names(names, 'a worker')}: rejoined {plural(len(rows), 'time')} because its configuration "
        "offset is not that of the assignment",
    )


def _text(row: Row) -> str:
    return f"{row.detail_text('reason')} {row.detail_text('error')} {row.detail_text('why')}"
