"""Alert rules for consumer groups, and the same rules as a Prometheus rules file.

Invariants:
- A rule has a measure, a limit, a duration and a first action. It fires when the measure has been above its limit for
  that duration. `monitor` measures a live cluster, `measure` a history, Prometheus an exporter.
- MEMBER_ID_REQUIRED is not a failed rebalance: every dynamic member gets it once (KIP-394).
- There are expressions for Slackwater's metrics page and for Kafka's JMX metrics, under the default names of the
  Prometheus JMX exporter and under those of its rules for Kafka. An exporter without the
  metric has no rule.
- No rule fires on an idle group: missing commits are no problem without lag.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Final

from slackwater.doctor.timeline.rebalances import RecordedRebalance
from slackwater.group.errors import UsageError
from slackwater.group.rebalance_counter import NO_FAILURE

HOUR_MS: Final = 3_600_000
REBALANCES_TOO_OFTEN: Final = "RebalancesTooOften"
SLACKWATER: Final = "slackwater"
KAFKA: Final = "kafka"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert rule."""

    name: str
    summary: str
    measure: str
    limit: float
    for_s: int
    expressions: Mapping[str, str]
    severity: str
    first_action: str
    cites: tuple[str, ...] = ()
    prometheus_for_s: Mapping[str, int] = field(default_factory=dict)
    """The duration in Prometheus per exporter, if it is not `for_s`."""


_JAVA: Final = "kafka_consumer_consumer_coordinator_metrics_"


def _counter(name: str) -> str:
    """Return a selector of a client's counter; release 1 of the JMX exporter drops the suffix `_total`."""
    return f'{{__name__=~"{_JAVA}{name}(_total)?"}}'


_REBALANCES: Final = _counter("rebalance")
_FAILED_REBALANCES: Final = _counter("failed_rebalance")
_COMMITS: Final = _counter("commit")

ALERTS: Final = (
    Alert(
        name=REBALANCES_TOO_OFTEN,
        summary="more than one rebalance per hour",
        measure="rebalances_per_hour",
        limit=1,
        for_s=0,
        expressions={
            # Prometheus extrapolates an increase to the whole hour: one rebalance can be 1.01, never 1.5.
            SLACKWATER: 'increase(slackwater_group_rebalances_total{kind="change"}[1h]) > 1.5',
            # A client counts its first join and every follow-up. So count the intervals of five minutes in which a
            # client that had joined before rebalanced, and rebalances that follow each other within one interval.
            KAFKA: f"count_over_time((increase({_REBALANCES}[5m]) > 0.5 "
            f"and {_REBALANCES} offset 5m > 0)[1h:5m]) > 1 "
            f"or max_over_time((increase({_REBALANCES}[5m]) "
            f"and {_REBALANCES} offset 5m > 0)[1h:1m]) > 2.5",
        },
        severity="warning",
        first_action="run slackwater doctor to find which member starts them, and why",
        cites=("Kafka documentation, Consumer Group Metrics: rebalance-total",),
    ),
    Alert(
        name="RebalancesFail",
        summary="failed rebalances",
        measure="failed_rebalances",
        limit=0,
        for_s=0,
        expressions={
            SLACKWATER: "increase(slackwater_group_rebalances_failed_total[10m]) > 0",
            # A client counts MEMBER_ID_REQUIRED, which every dynamic member gets when it joins with no member id. A
            # successful rebalance follows it, within the default rebalance timeout of five minutes.
            KAFKA: f"increase({_FAILED_REBALANCES}[10m]) - increase({_REBALANCES}[10m]) > 0.5",
        },
        prometheus_for_s={KAFKA: 300},
        severity="warning",
        first_action="find the error in the members' logs",
        cites=("Kafka documentation, Consumer Group Metrics: failed-rebalance-total",),
    ),
    Alert(
        name="RebalanceTooLong",
        summary="a rebalance took longer than 60 s",
        measure="longest_rebalance_s",
        limit=60,
        for_s=0,
        expressions={
            SLACKWATER: "slackwater_group_longest_rebalance_seconds > 60",
            KAFKA: f"max_over_time({_JAVA}rebalance_latency_max[10m]) > 60000",
        },
        severity="warning",
        first_action="find the member that rejoins last; its poll loop is blocked",
        cites=("Kafka documentation, Consumer Group Metrics: rebalance-latency-max",),
    ),
    Alert(
        name="RebalanceStuck",
        summary="the group stays in PreparingRebalance",
        measure="preparing",
        limit=0,
        for_s=60,
        expressions={
            SLACKWATER: 'slackwater_group_state{state="PreparingRebalance"} > 0',
            KAFKA: 'kafka_coordinator_group_GroupMetadataManager_Value{name="NumGroupsPreparingRebalance"} > 0 '
            "or kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance > 0",
        },
        severity="critical",
        first_action="find the member that does not rejoin, or remove it",
        cites=("Kafka documentation, Broker Metrics: NumGroupsPreparingRebalance",),
    ),
    Alert(
        name="NoProgress",
        summary="no offsets are committed although there is lag",
        measure="stalled",
        limit=0,
        for_s=300,
        expressions={
            SLACKWATER: "changes(slackwater_group_committed_offsets[1m]) == 0 "
            "and slackwater_group_lag > 0 and slackwater_group_members > 0",
            KAFKA: f"increase({_COMMITS}[1m]) == 0 "
            "and on (instance, client_id) kafka_consumer_consumer_fetch_manager_metrics_records_lag_max > 0",
        },
        severity="critical",
        first_action="if the group is Stable, its handler hangs; otherwise find out why it rebalances",
        cites=("Kafka documentation, Consumer Group Metrics: commit-total",),
    ),
    Alert(
        name="IdleMembers",
        summary="members without partitions",
        measure="idle_members",
        limit=0,
        for_s=600,
        expressions={
            SLACKWATER: "slackwater_group_idle_members > 0",
            KAFKA: f"{_JAVA}assigned_partitions == 0",
        },
        severity="info",
        first_action="add partitions or remove members: there are more members than partitions",
        cites=("Kafka documentation, Consumer Group Metrics: assigned-partitions",),
    ),
)


def adapt_rules(changes: Mapping[str, object], where: str) -> tuple[Alert, ...]:
    """Return the rules with changes applied: per name `limit`, `for_s`, or `off = true`."""
    known = {alert.name: alert for alert in ALERTS}
    for name, changed in changes.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the rules are {', '.join(known)}."
            raise UsageError(f"{where} has a rule {name}, which does not exist; {hint}")
        if not isinstance(changed, Mapping):
            raise UsageError(f"{where} has {name} = {changed}; write a table [{name}] with limit, for_s or off.")
        known[name] = _adapted(known[name], changed, where)
        if changed.get("off", False):
            del known[name]
    return tuple(known.values())


def _adapted(alert: Alert, changed: Mapping[str, object], where: str) -> Alert:
    limit, for_s, off = changed.get("limit", alert.limit), changed.get("for_s", alert.for_s), changed.get("off", False)
    if unknown := sorted(set(changed) - {"limit", "for_s", "off"}):
        raise UsageError(f"{where} sets {unknown[0]} of {alert.name}; a rule has limit, for_s and off.")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 0:
        raise UsageError(f"{where} sets limit = {limit} of {alert.name}; use a number of 0 or more.")
    if isinstance(for_s, bool) or not isinstance(for_s, int) or for_s < 0:
        raise UsageError(f"{where} sets for_s = {for_s} of {alert.name}; use whole seconds, 0 or more.")
    if not isinstance(off, bool):
        raise UsageError(f"{where} sets off = {off} of {alert.name}; use true or false.")
    return replace(alert, limit=limit, for_s=for_s)


def firing(measured: Mapping[str, float]) -> list[Alert]:
    """Return the rules whose measure is above the limit; a rule without a measurement does not fire."""
    return [alert for alert in ALERTS if measured.get(alert.measure, alert.limit) > alert.limit]


def measure(
    rebalances: Sequence[RecordedRebalance], began_ms: int, ended_ms: int, errors: Sequence[str] = ()
) -> dict[str, float]:
    """Measure a history; rates are computed over its length, at least an hour."""
    hours = max(ended_ms - began_ms, HOUR_MS) / HOUR_MS
    changes = sum(1 for rebalance in rebalances if not rebalance.follow_up)
    return {
        "rebalances_per_hour": changes / hours,
        "failed_rebalances": float(sum(1 for error in errors if error not in NO_FAILURE)),
        "longest_rebalance_s": max((rebalance.duration_ms for rebalance in rebalances), default=0) / 1000,
    }


def prometheus_rules() -> str:
    """Return all rules as a Prometheus rules file, with a group of rules per exporter."""
    lines = ["groups:"]
    for exporter in (SLACKWATER, KAFKA):
        lines += [f"  - name: {exporter}-consumer-groups", "    rules:"]
        for alert in ALERTS:
            if exporter in alert.expressions:
                lines += _rule(alert, exporter)
    return "\n".join(lines) + "\n"


def _rule(alert: Alert, exporter: str) -> list[str]:
    return [
        f"      - alert: {alert.name}",
        f"        expr: {alert.expressions[exporter]}",
        f"        for: {alert.prometheus_for_s.get(exporter, alert.for_s)}s",
        "        labels:",
        f"          severity: {alert.severity}",
        f"          exporter: {exporter}",
        "        annotations:",
        f'          summary: "{alert.summary}"',
        f'          description: "{alert.first_action}"',
    ]
