"""The verdict on a group: one cause, its culprits, a confidence, and what would raise it.

Invariants:
- Wrong setups come first, then faults, then expected changes. Among causes of one rank, the one that explains most
  comes first; the others are listed in `other_findings`.
- A failure that was read is never healthy: if no rule explains it, it is reported as unsure (`is_partial`).
- A group without findings is healthy only if its rows show that it worked, and only as far as the sources can show: a
  rejected join, for example, leaves no line in a broker's log. Without such rows its cause is unknown.
- A verdict is plain data; `to_json` contains all of it except the values for drawing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from slackwater.doctor.alerts.rules import REBALANCES_TOO_OFTEN, firing, measure
from slackwater.doctor.causes.departures import explain_departures
from slackwater.doctor.causes.eager import STOP_THE_WORLD, stop_the_world
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, UNSURE, EvidenceLine, Finding, evidence, shown
from slackwater.doctor.causes.known_bugs import bugs_like, known_bug
from slackwater.doctor.causes.rules import BROKER, CAUSES, CLIENTS, RECORDS, RULES
from slackwater.doctor.causes.single_failures import (
    has_evidence_of_health,
    is_asked_to_rejoin,
    leader_without_reason,
    rebalance_without_reason,
    single_failure,
)
from slackwater.doctor.events.serialization import pickle_by_fields
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.headlines import headline, no_action
from slackwater.doctor.prescriptions.choice import check_version, choose_remedies
from slackwater.doctor.prescriptions.libraries import OWN, SPARK, UNKNOWN_LIBRARY, library_of, library_of_software
from slackwater.doctor.prescriptions.prescription import Prescription
from slackwater.doctor.prescriptions.remedy import ChosenRemedy
from slackwater.doctor.prescriptions.rendering import render
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.member_timelines import MemberTimeline, member_timelines
from slackwater.doctor.timeline.pauses import LagEstimate, MinuteStats, lag_of, minutes
from slackwater.doctor.timeline.rebalances import (
    Episode,
    RebalanceMode,
    RecordedRebalance,
    episodes,
    find_rebalances,
    rebalance_mode,
)
from slackwater.group.events import EventKind, EventSource

HEALTHY: Final = "healthy"
UNKNOWN: Final = "unknown"
_MAX_ENTRIES: Final = 2_000
"""Maximum number of rebalances and minutes in a verdict: the last ones."""
_MAX_CLIENT_LOGS: Final = 8
"""Number of clients' logs in which the library is looked up."""
_NOT_IN_JSON: Final = (
    "cluster",
    "group",
    "remedies",
    "client_lines",
    "recorded_rebalances",
    "minutes",
    "member_timelines",
    "library_of_joins",
)
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
_JSON_KEYS: Final = {
    "is_storm": "storm",
    "is_recurring": "recurring",
    "is_partial": "partial",
    "secondary_members": "secondary",
    "other_findings": "also",
    "missing_input": "missing",
}
"""The keys of fields whose key differs from their name."""
_NOT_VISIBLE: Final = (
    (
        "has_clients",
        "no log of the group's clients was read; a join that the broker rejected would be visible only there",
    ),
    ("has_broker", "only the broker's log shows for certain which members were removed and why; add it"),
)
_WHO_LEFT: Final = "which member left and why; lines are missing, add the complete broker's log or the clients' logs"
_WHY_REBALANCED: Final = "which member came or left; add the broker's log or the logs of the other clients"
_WHY_LEADER: Final = "why the leader joined again; add its log and more of the broker's log"
_NO_EVIDENCE: Final = (
    "the input shows neither a failure nor a completed join, a generation or commits; add more of the logs"
)


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one group."""

    cluster: str
    group: str
    cause: str
    action_needed: bool
    is_storm: bool
    culprits: tuple[str, ...]
    rebalances: int
    changes: int
    confidence: float
    headline: str = ""
    """One line with the figures that decide: `a: 9.5 s between polls, max.poll.interval.ms is 6 s (7 times)`."""
    evidence: tuple[EvidenceLine, ...] = ()
    secondary_members: tuple[str, ...] = ()
    """Members that were overloaded by the partitions they took over."""
    other_findings: tuple[Finding, ...] = ()
    missing_input: tuple[str, ...] = ()
    """What is unknown, and which source contains it."""
    alternatives: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    began_ms: int = 0
    ended_ms: int = 0
    incident_began_ms: int = 0
    incident_ended_ms: int = 0
    """The last event of the cause, or the end of the last rebalance that followed without a gap; 0 if unknown."""
    complete_since_ms: int = 0
    """Every generation from here on is accounted for; `__consumer_offsets` is compacted."""
    figures: dict[str, int] = field(default_factory=dict)
    remedies: tuple[ChosenRemedy, ...] = ()
    prescriptions: tuple[Prescription, ...] = ()
    """The remedies as text, with the names of the clients' library."""
    no_action: str = ""
    """Why nothing is to be done; empty if action is needed or it is unknown whether it is."""
    episodes: tuple[Episode, ...] = ()
    recorded_rebalances: tuple[RecordedRebalance, ...] = ()
    minutes: tuple[MinuteStats, ...] = ()
    member_timelines: tuple[MemberTimeline, ...] = ()
    alerts: tuple[str, ...] = ()
    lag: LagEstimate | None = None
    """The largest lag and the part caused by rebalances; None if unknown."""
    is_partial: bool = False
    """The context of the failure is missing in the input: whether action is needed is unknown."""
    client_lines: tuple[EvidenceLine, ...] = ()
    """One line of each of a few clients' logs: they show which library wrote them."""
    library: str | None = None
    """The clients' library; None if unknown or mixed."""
    library_of_joins: str | None = None
    """The library that all members named to a Slackwater broker."""

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain values without single rebalances, minutes and member timelines."""
        values = asdict(self, dict_factory=_with_json_keys)
        for name in _NOT_IN_JSON:
            del values[name]
        return {name: values[name] for name in _FIRST_KEYS} | values


def _with_json_keys(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {_JSON_KEYS.get(name, name): value for name, value in fields}


def diagnose_group(history: GroupHistory, cluster: str = "", *, with_timeline: bool = True) -> Verdict:
    """Find the cause. Without `with_timeline` the verdict has no single rebalances, minutes and member timelines."""
    departures = explain_departures(history)
    findings = [finding for rule in RULES if (finding := rule.check(history, departures)) is not None]
    findings = _drop_explained(findings)
    if not findings and (failure := single_failure(history)) is not None:
        findings = [failure]
    if (bug := known_bug(history, findings)) is not None:
        findings.append(bug)
    chosen = min(findings, key=_order, default=None) or _healthy(history)
    recorded = find_rebalances(history)
    # Without progress rows there is no lag, and the minutes are only for drawing.
    by_minute = minutes(history, recorded) if with_timeline or history.rows_of(EventKind.PROGRESS) else []
    remark = stop_the_world(history, recorded)
    findings += [remark] if remark is not None else []
    other_findings = tuple(
        finding for finding in findings if finding is not chosen and not _is_covered_by(finding, chosen)
    )
    alerts = tuple(alert.name for alert in firing(_measured(history, recorded)))
    definition = CAUSES[chosen.cause]
    is_avoidable = definition.avoidable and REBALANCES_TOO_OFTEN in alerts
    action_needed = not chosen.is_partial and (definition.action_needed or is_avoidable)
    found_episodes = tuple(episodes(recorded, chosen.cause, chosen.is_recurring, history.start_ended_ms))
    began_ms, ended_ms = _incident(chosen, found_episodes)
    is_stable = bool(recorded) and recorded[-1].completed and recorded[-1].ended_ms >= began_ms
    verdict = Verdict(
        cluster=cluster,
        group=history.group,
        cause=chosen.cause,
        action_needed=action_needed,
        is_partial=chosen.is_partial,
        is_storm=chosen.is_recurring,
        culprits=chosen.culprits,
        rebalances=history.rebalance_count,
        changes=history.rebalance_count - sum(rebalance.follow_up for rebalance in recorded),
        confidence=round(chosen.confidence, 2),
        headline=headline(chosen, history.rebalance_count),
        evidence=tuple(sorted(chosen.evidence, key=lambda line: line.time_ms)),
        secondary_members=chosen.secondary_members,
        other_findings=other_findings,
        missing_input=(*_missing(history, chosen), *history.clocks),
        alternatives=chosen.alternatives,
        sources=tuple(sorted(history.sources)),
        began_ms=history.began_ms,
        ended_ms=history.ended_ms,
        incident_began_ms=began_ms,
        incident_ended_ms=ended_ms,
        complete_since_ms=history.complete_since_ms,
        figures=dict(chosen.figures),
        remedies=_remedies(history, chosen, other_findings, recorded) if action_needed or chosen.is_partial else (),
        no_action="" if action_needed or chosen.is_partial else no_action(chosen, is_stable=is_stable),
        episodes=found_episodes,
        recorded_rebalances=tuple(recorded[-_MAX_ENTRIES:]) if with_timeline else (),
        minutes=tuple(by_minute[-_MAX_ENTRIES:]) if with_timeline else (),
        member_timelines=member_timelines(history, chosen.culprits) if with_timeline else (),
        alerts=alerts,
        lag=lag_of(by_minute),
        library_of_joins=library_of_software(_client_software(history)),
    )
    return with_library(replace(verdict, client_lines=_client_lines(history)) if verdict.remedies else verdict)


def _is_covered_by(finding: Finding, chosen: Finding) -> bool:
    """Return whether the chosen finding has the same cause, or names it as another possible one of its culprits."""
    is_alternative = finding.cause in chosen.alternatives and set(finding.culprits) <= set(chosen.culprits)
    return finding.cause == chosen.cause or is_alternative


def with_library(verdict: Verdict) -> Verdict:
    """Find the clients' library in the evidence, in other lines of the clients' logs, or in the kind of source.

    The prescriptions get its names.
    """
    cited = [line for line in verdict.evidence if line.source == EventSource.CLIENT_LOG]
    library = library_of(_texts(cited), heartbeats_between_messages="handler_blocks" in verdict.figures) or library_of(
        _texts(verdict.client_lines)
    )
    files = {_file(line) for line in cited}
    if library in (UNKNOWN_LIBRARY, OWN):  # our consumer has Java's lines, and our source for Spark the consumer's
        of_files = library_of(_texts(line for line in verdict.client_lines if _file(line) in files))
        library = of_files if of_files in (OWN, SPARK) else library
    if library is None and EventSource.MEMBER in verdict.sources and EventSource.CLIENT_LOG not in verdict.sources:
        library = OWN  # no other client writes events
    library = library or verdict.library_of_joins
    return replace(verdict, library=library, prescriptions=render(verdict.remedies, library, verdict.figures))


def _incident(chosen: Finding, found: Sequence[Episode]) -> tuple[int, int]:
    """Return when the cause was first seen, and the last event or the end of the rebalances that followed it."""
    times = [time_ms for time_ms in chosen.times if time_ms]
    if not times:
        return 0, 0
    if chosen.figures.get("down_ms"):  # the times are the ends of the outages
        times += [line.time_ms for line in chosen.evidence]
    first, last = min(times), max(times)
    return first, max([last, *(run.ended_ms for run in found if run.began_ms <= last and run.ended_ms >= first)])


def _file(line: EvidenceLine) -> str:
    return (line.where or "").rpartition(":")[0]


def _texts(lines: Iterable[EvidenceLine]) -> list[str]:
    return [line.line for line in lines if line.line]


def _client_lines(history: GroupHistory) -> tuple[EvidenceLine, ...]:
    first: dict[str | None, EvidenceLine] = {}
    for row in history.rows:
        is_client_line = row.source == EventSource.CLIENT_LOG and row.kind != OtherEventKind.CLIENT_SETTING
        if is_client_line and row.file not in first and (line := evidence(row, row.kind)) is not None:
            first[row.file] = line
            if len(first) == _MAX_CLIENT_LOGS:
                break
    return tuple(first.values())


def _client_software(history: GroupHistory) -> set[str]:
    """Return the names of the members' software; a join without one counts as a name of its own."""
    joins = [row for row in history.rows_of(EventKind.MEMBER_JOINED) if row.source == EventSource.COORDINATOR]
    return {row.detail_text("client_software") for row in joins}


def _remedies(
    history: GroupHistory, chosen: Finding, other_findings: Sequence[Finding], recorded: Sequence[RecordedRebalance]
) -> tuple[ChosenRemedy, ...]:
    """Choose the remedies for the cause, with the numbers of all findings."""
    figures = dict(chosen.figures)
    for finding in other_findings:
        figures = {**finding.figures, **figures}
    mode = rebalance_mode(history)
    # Without the assignor's name: some rebalances look like the second step of a cooperative change.
    looks_cooperative = mode is None and any(rebalance.follow_up for rebalance in recorded)
    is_cooperative = looks_cooperative or mode in (RebalanceMode.COOPERATIVE, RebalanceMode.INCREMENTAL)
    remedies = choose_remedies(chosen.cause, figures, is_cooperative=is_cooperative)
    for finding in other_findings:
        is_late = chosen.cause == "shared_group_id" and finding.cause.endswith("poll_delay")
        if is_late or (finding.cause == STOP_THE_WORLD and CAUSES[chosen.cause].action_needed):
            more = choose_remedies(finding.cause, figures, is_cooperative=is_cooperative)
            remedies += tuple(item for item in more if item not in remedies)
    return (*remedies, *(check_version(bug.advice(), bug.name) for bug in bugs_like(chosen.cause, history)))


def _measured(history: GroupHistory, rebalances: Sequence[RecordedRebalance]) -> dict[str, float]:
    errors = [row.detail_text("error") for row in history.rows_of(EventKind.REBALANCE_FAILED) if row.is_from_broker]
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
    """Return what would decide an unsure finding: its own input, or the unread sources that show its cause."""
    if chosen.missing_input or chosen.confidence >= SURE:
        return chosen.missing_input
    read = history.has_broker, history.has_clients, history.has_records
    unread = [source for source, known in zip((BROKER, CLIENTS, RECORDS), read, strict=True) if not known]
    deciding = [source for source in CAUSES[chosen.cause].sources if source in unread]
    return (f"{history.best_source} alone cannot decide it; add {' or '.join(deciding)}",) if deciding else ()


def _healthy(history: GroupHistory) -> Finding:
    if (row := rebalance_without_reason(history)) is not None:
        what = "was asked to rejoin" if is_asked_to_rejoin(row) else "gave up its partitions and joined again"
        return Finding(
            UNKNOWN,
            (),
            (row.time_ms,),
            UNSURE,
            evidence=shown([evidence(row, f"the client {what}")]),
            missing_input=(_WHY_REBALANCED,),
            alternatives=("scale_out", "scale_in", "rolling_restart", "shared_group_id"),
            headline="the group rebalanced; the lines of this client do not show why",
        )
    if (row := leader_without_reason(history)) is not None:
        return Finding(
            UNKNOWN,
            (),
            (row.time_ms,),
            UNSURE,
            evidence=shown([evidence(row, "the leader joined again and started a rebalance")]),
            missing_input=(_WHY_LEADER,),
            alternatives=("leader_rejoins", "partitions_added", "subscription_change"),
            headline="the leader started a rebalance; the lines do not show why",
        )
    if not has_evidence_of_health(history):
        return Finding(UNKNOWN, (), (), UNSURE, missing_input=(_NO_EVIDENCE,))
    if (shrunk := history.shrunk) is not None:
        before, after = shrunk
        return Finding(
            UNKNOWN,
            (),
            (after.time_ms,),
            UNSURE,
            evidence=shown([evidence(after.row, f"{after.members} members are left of {before.members}")]),
            missing_input=(_WHO_LEFT,),
            alternatives=("scale_in", "crash"),
            headline=f"generation {after.number} has {after.members} members, the one before had {before.members}; "
            "no line says who left",
        )
    missing = tuple(text for source, text in _NOT_VISIBLE if not getattr(history, source))
    return Finding(HEALTHY, (), (), LIKELY if missing else CERTAIN, missing_input=missing)
