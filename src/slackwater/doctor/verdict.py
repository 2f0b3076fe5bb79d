"""The verdict on a group: one cause, its culprits, a confidence, and what would raise it.

Invariants:
- Wrong setups come first, then faults, then expected changes. Among causes of one rank, the one that explains most
  comes first; the others are listed in `also`.
- A group without findings is healthy only as far as the sources can show: a rejected join, for example, leaves no line
  in a broker's log.
- A verdict is plain data; `to_json` contains all of it except the values for drawing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from slackwater.doctor.alerts.rules import REBALANCES_TOO_OFTEN, firing, measure
from slackwater.doctor.causes.absences import read_absences
from slackwater.doctor.causes.eager import STOP_THE_WORLD, stop_the_world
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, EvidenceLine, Finding
from slackwater.doctor.causes.rules import BROKER, CAUSES, CLIENTS, RECORDS, RULES
from slackwater.doctor.events.serialization import pickle_by_fields
from slackwater.doctor.prescriptions import Prescription, prescribe
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.member_timelines import MemberTimeline, member_timelines
from slackwater.doctor.timeline.pauses import LagEstimate, MinuteStats, lag_of, minutes
from slackwater.doctor.timeline.rebalances import Episode, RecordedRebalance, episodes, find_rebalances
from slackwater.group.events import EventKind

HEALTHY: Final = "healthy"
UNKNOWN: Final = "unknown"
_MAX_ENTRIES: Final = 2_000
"""Maximum number of rebalances and minutes in a verdict: the last ones."""
_NOT_IN_JSON: Final = ("cluster", "group", "recorded_rebalances", "minutes", "member_timelines")
_FIRST_KEYS: Final = (
    "cause",
    "action_needed",
    "storm",
    "culprits",
    "rebalances",
    "changes",
    "confidence",
    "evidence",
    "prescriptions",
    "episodes",
)
_NOT_VISIBLE: Final = (
    (
        "has_clients",
        "brokers do not log joins rejected for lack of a common assignor; add the clients' logs",
    ),
    ("has_broker", "only the broker's log shows for certain which members were removed and why; add it"),
)


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one group."""

    cluster: str
    group: str
    cause: str
    action_needed: bool
    storm: bool
    culprits: tuple[str, ...]
    rebalances: int
    changes: int
    confidence: float
    evidence: tuple[EvidenceLine, ...] = ()
    secondary: tuple[str, ...] = ()
    also: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    began_ms: int = 0
    ended_ms: int = 0
    complete_since_ms: int = 0
    """Every generation from here on is accounted for; `__consumer_offsets` is compacted."""
    figures: dict[str, int] = field(default_factory=dict)
    prescriptions: tuple[Prescription, ...] = ()
    episodes: tuple[Episode, ...] = ()
    recorded_rebalances: tuple[RecordedRebalance, ...] = ()
    minutes: tuple[MinuteStats, ...] = ()
    member_timelines: tuple[MemberTimeline, ...] = ()
    alerts: tuple[str, ...] = ()
    lag: LagEstimate | None = None
    """The largest lag and the part caused by rebalances; None if unknown."""

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain values without single rebalances, minutes and member timelines."""
        values = asdict(self)
        for name in _NOT_IN_JSON:
            del values[name]
        return {name: values[name] for name in _FIRST_KEYS} | values


def diagnose_group(history: GroupHistory, cluster: str = "", *, with_timeline: bool = True) -> Verdict:
    """Find the cause. Without `with_timeline` the verdict has no single rebalances, minutes and member timelines."""
    absences = read_absences(history)
    findings = [finding for rule in RULES if (finding := rule.check(history, absences)) is not None]
    findings = _drop_explained(findings)
    chosen = min(findings, key=_order, default=None) or _healthy(history)
    recorded = find_rebalances(history)
    # Without progress rows there is no lag, and the minutes are only for drawing.
    by_minute = minutes(history, recorded) if with_timeline or history.of(EventKind.PROGRESS) else []
    remark = stop_the_world(history, recorded)
    findings += [remark] if remark is not None else []
    also = tuple(finding for finding in findings if finding is not chosen and finding.cause != chosen.cause)
    alerts = tuple(alert.name for alert in firing(_measured(history, recorded)))
    definition = CAUSES[chosen.cause]
    return Verdict(
        cluster=cluster,
        group=history.group,
        cause=chosen.cause,
        action_needed=definition.action_needed or (definition.avoidable and REBALANCES_TOO_OFTEN in alerts),
        storm=chosen.recurring,
        culprits=chosen.culprits,
        rebalances=history.rebalance_count,
        changes=history.rebalance_count - sum(rebalance.follow_up for rebalance in recorded),
        confidence=round(chosen.confidence, 2),
        evidence=chosen.evidence,
        secondary=chosen.secondary,
        also=also,
        missing=(*_missing(history, chosen), *history.clocks),
        alternatives=chosen.alternatives,
        sources=tuple(sorted(history.sources)),
        began_ms=history.began_ms,
        ended_ms=history.ended_ms,
        complete_since_ms=history.complete_since_ms,
        figures=dict(chosen.figures),
        prescriptions=_prescriptions(chosen, also),
        episodes=tuple(episodes(recorded, chosen.cause, chosen.recurring, history.start_ended_ms)),
        recorded_rebalances=tuple(recorded[-_MAX_ENTRIES:]) if with_timeline else (),
        minutes=tuple(by_minute[-_MAX_ENTRIES:]) if with_timeline else (),
        member_timelines=member_timelines(history, chosen.culprits) if with_timeline else (),
        alerts=alerts,
        lag=lag_of(by_minute),
    )


def _prescriptions(chosen: Finding, also: Sequence[Finding]) -> tuple[Prescription, ...]:
    """Prescribe for the cause, with the numbers of all findings."""
    figures = dict(chosen.figures)
    for finding in also:
        figures = {**finding.figures, **figures}
    prescriptions = prescribe(chosen.cause, figures)
    if CAUSES[chosen.cause].action_needed and any(finding.cause == STOP_THE_WORLD for finding in also):
        known = {item.what for item in prescriptions}
        extra = [item for item in prescribe(STOP_THE_WORLD, figures) if item.what not in known]
        last = len(prescriptions)
        prescriptions += tuple(replace(item, order=last + at) for at, item in enumerate(extra, start=1))
    return prescriptions


def _measured(history: GroupHistory, rebalances: Sequence[RecordedRebalance]) -> dict[str, float]:
    errors = [row.detail_text("error") for row in history.of(EventKind.REBALANCE_FAILED) if row.is_from_broker]
    after_start = [rebalance for rebalance in rebalances if rebalance.began_ms > history.start_ended_ms]
    return measure(after_start, history.began_ms, history.ended_ms, errors)


def _order(finding: Finding) -> tuple[int, int, float]:
    return CAUSES[finding.cause].rank, -len(finding.times), -finding.confidence


def _drop_explained(findings: Sequence[Finding]) -> list[Finding]:
    """Drop findings of unknown cause whose times another finding explains well enough."""
    explained = {
        time
        for finding in findings
        if finding.cause != UNKNOWN and finding.confidence >= LIKELY
        for time in finding.times
    }
    return [finding for finding in findings if finding.cause != UNKNOWN or not explained.issuperset(finding.times)]


def _missing(history: GroupHistory, chosen: Finding) -> tuple[str, ...]:
    """Return what would decide an unsure finding: its own `missing`, or the unread sources that show its cause."""
    if chosen.missing or chosen.confidence >= SURE:
        return chosen.missing
    read = history.has_broker, history.has_clients, history.has_records
    unread = [source for source, known in zip((BROKER, CLIENTS, RECORDS), read, strict=True) if not known]
    deciding = [source for source in CAUSES[chosen.cause].sources if source in unread]
    return (f"{history.best_source} is not enough to be certain; add {' or '.join(deciding)}",) if deciding else ()


def _healthy(history: GroupHistory) -> Finding:
    missing = tuple(text for source, text in _NOT_VISIBLE if not getattr(history, source))
    return Finding(HEALTHY, (), (), LIKELY if missing else CERTAIN, missing=missing)
