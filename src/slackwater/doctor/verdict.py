"""The verdict on a group: one cause, who brought it about, how sure that is, and what would make it surer.

Rules kept here
- What is set up wrong comes first, then faults, then changes that a group is expected to make. Of several of one rank
  the one that explains most comes first; the others are told as `also`.
- A calm group is called healthy only as far as what was read can show: a refused join, say, leaves no line on a broker.
- A verdict is plain data, and `to_json` is all of it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from slackwater.doctor.alerts.rules import firing, measure
from slackwater.doctor.causes.absences import read_absences
from slackwater.doctor.causes.eager import STOP_THE_WORLD, stop_the_world
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, Evidence, Finding
from slackwater.doctor.causes.rules import BROKER, CAUSES, CLIENTS, RECORDS, RULES
from slackwater.doctor.events.serialization import travelling
from slackwater.doctor.prescriptions import Prescription, prescribe
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.member_timelines import Lane, lanes
from slackwater.doctor.timeline.pauses import Lag, Minute, lag_of, minutes
from slackwater.doctor.timeline.rebalances import Episode, Rebalance, episodes, rebalances
from slackwater.group.events import EventKind

HEALTHY: Final = "healthy"
UNKNOWN: Final = "unknown"
_KEPT: Final = 2_000
"""How many rounds and minutes a verdict carries at most: the last ones."""
_NOT_TOLD: Final = ("cluster", "group", "rounds", "minutes", "lanes")
_FIRST: Final = (
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
_BLIND: Final = (
    (
        "has_clients",
        "a join refused for want of a common assignor leaves no line on the broker: ask for the clients' logs",
    ),
    ("has_broker", "who was put out, and why, only the broker's log tells for certain: ask for it"),
)


@travelling
@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say about one group."""

    cluster: str
    group: str
    cause: str
    action_needed: bool
    storm: bool
    culprits: tuple[str, ...]
    rebalances: int
    changes: int
    confidence: float
    evidence: tuple[Evidence, ...] = ()
    secondary: tuple[str, ...] = ()
    also: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    began_ms: int = 0
    ended_ms: int = 0
    complete_since_ms: int = 0
    """From here on every generation is accounted for: `__consumer_offsets` is compacted, and forgets."""
    figures: dict[str, int] = field(default_factory=dict)
    prescriptions: tuple[Prescription, ...] = ()
    episodes: tuple[Episode, ...] = ()
    rounds: tuple[Rebalance, ...] = ()
    minutes: tuple[Minute, ...] = ()
    lanes: tuple[Lane, ...] = ()
    alerts: tuple[str, ...] = ()
    lag: Lag | None = None
    """How far behind the group fell, and how much of that was rebalancing; None where nothing tells."""

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain values; the single rounds, minutes and lanes are for drawing, and left out."""
        values = asdict(self)
        for name in _NOT_TOLD:
            del values[name]
        return {name: values[name] for name in _FIRST} | values


def judge(history: GroupHistory, cluster: str = "", *, drawn: bool = True) -> Verdict:
    """Find the cause. A verdict that is not drawn goes without its single rounds, minutes and lanes."""
    readings = read_absences(history)
    findings = [found for rule in RULES if (found := rule.check(history, readings)) is not None]
    findings = _without_doubles(findings)
    chosen = min(findings, key=_order, default=None) or _healthy(history)
    rounds = rebalances(history)
    # Without a word of progress nobody was behind, and the minutes are for drawing alone.
    by_minute = minutes(history, rounds) if drawn or history.of(EventKind.PROGRESS) else []
    remark = stop_the_world(history, rounds)
    findings += [remark] if remark is not None else []
    also = tuple(one for one in findings if one is not chosen and one.cause != chosen.cause)
    return Verdict(
        cluster=cluster,
        group=history.group,
        cause=chosen.cause,
        action_needed=CAUSES[chosen.cause].action_needed,
        storm=chosen.recurring,
        culprits=chosen.culprits,
        rebalances=history.rebalances,
        changes=history.rebalances - sum(one.follow_up for one in rounds),
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
        episodes=tuple(episodes(rounds, chosen.cause, chosen.recurring, history.settled_ms)),
        rounds=tuple(rounds[-_KEPT:]) if drawn else (),
        minutes=tuple(by_minute[-_KEPT:]) if drawn else (),
        lanes=lanes(history, chosen.culprits) if drawn else (),
        alerts=tuple(alert.name for alert in firing(_measured(history, rounds))),
        lag=lag_of(by_minute),
    )


def _prescriptions(chosen: Finding, also: Sequence[Finding]) -> tuple[Prescription, ...]:
    """For the cause; a setup that is wrong brings the numbers of the fault that it made worse."""
    figures = dict(chosen.figures)
    for one in also:
        figures = {**one.figures, **figures}
    found = prescribe(chosen.cause, figures)
    if CAUSES[chosen.cause].action_needed and any(one.cause == STOP_THE_WORLD for one in also):
        known = {one.what for one in found}
        extra = [one for one in prescribe(STOP_THE_WORLD, figures) if one.what not in known]
        found += tuple(replace(one, order=len(found) + at) for at, one in enumerate(extra, start=1))
    return found


def _measured(history: GroupHistory, rounds: Sequence[Rebalance]) -> dict[str, float]:
    errors = [row.text("error") for row in history.of(EventKind.REBALANCE_FAILED) if row.of_broker]
    settled = [one for one in rounds if one.began_ms > history.settled_ms]
    return measure(settled, history.began_ms, history.ended_ms, errors)


def _order(finding: Finding) -> tuple[int, int, float]:
    return CAUSES[finding.cause].rank, -len(finding.times), -finding.confidence


def _without_doubles(findings: Sequence[Finding]) -> list[Finding]:
    """What nobody tells is not asked again where another finding explains it well enough."""
    explained = {time for one in findings if one.cause != UNKNOWN and one.confidence >= LIKELY for time in one.times}
    return [one for one in findings if one.cause != UNKNOWN or not explained.issuperset(one.times)]


def _missing(history: GroupHistory, chosen: Finding) -> tuple[str, ...]:
    """What the finding itself says would decide it; else, of an unsure one, the sources that show such a cause."""
    if chosen.missing or chosen.confidence >= SURE:
        return chosen.missing
    read = history.has_broker, history.has_clients, history.has_records
    unread = [source for source, known in zip((BROKER, CLIENTS, RECORDS), read, strict=True) if not known]
    wanted = [source for source in CAUSES[chosen.cause].told_by if source in unread]
    return (f"could not tell for certain from {history.told_from}: ask for {' or '.join(wanted)}",) if wanted else ()


def _healthy(history: GroupHistory) -> Finding:
    missing = tuple(text for source, text in _BLIND if not getattr(history, source))
    return Finding(HEALTHY, (), (), LIKELY if missing else CERTAIN, missing=missing)
