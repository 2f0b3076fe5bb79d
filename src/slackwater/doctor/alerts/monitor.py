"""Alerts on a live cluster: takes snapshots of its groups and returns the alerts that begin and end.

Invariants:
- There is no I/O and no clock: a snapshot has its own time, and the same snapshots give the same alerts.
- Rebalances are counted by generation: from `__group_events`, from `__consumer_offsets`, or from the epoch of a KIP-848
  group. If none of these is readable, a change of members or partitions between two snapshots counts as one rebalance,
  which can be too few.
- As in a history, a group's start and the follow-up of a cooperative rebalance are not counted.
- A rule fires when its measure has been above its limit for the rule's duration. The start is taken from the records if
  they contain it, else from the snapshots; nothing is assumed about the time before the first snapshot.
- Rules that cannot be measured are listed (`not_measured`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from slackwater.doctor.alerts.rules import ALERTS, HOUR_MS, Alert
from slackwater.group.events import (
    EventKind,
    EventSource,
    GroupEvent,
    JoinRefused,
    RebalanceCompleted,
    RebalanceFailed,
)
from slackwater.group.rebalance_counter import (
    RECENT_MS,
    ObservedGeneration,
    RebalanceCounter,
    RebalanceKind,
    is_failure,
)
from slackwater.group.topic_partition import TopicPartition

STABLE: Final = "Stable"
PREPARING: Final = "PreparingRebalance"
REBALANCING: Final = frozenset({PREPARING, "CompletingRebalance", "Assigning", "Reconciling"})
WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
_MAX_NAMES: Final = 3


class RebalanceSource(StrEnum):
    """From what rebalances are counted."""

    EVENTS = "__group_events"
    OFFSETS = "__consumer_offsets"
    EPOCH = "the group's epoch"
    SNAPSHOTS = "members and partitions at each check"


@dataclass(frozen=True, slots=True)
class ObservedMember:
    """A member; partitions are None if unknown."""

    member_id: str
    name: str
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """A group at one time."""

    group: str
    state: str
    members: tuple[ObservedMember, ...] = ()
    epoch: int | None = None
    """The epoch of a KIP-848 group."""
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    lag: int | None = None
    waiting_for: tuple[str, ...] = ()
    """Names of the members that a rebalance waits for, if known."""

    @property
    def idle(self) -> tuple[ObservedMember, ...]:
        """Members without partitions; none while partitions move."""
        return tuple(member for member in self.members if member.partitions == ()) if self.state == STABLE else ()


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The groups of a cluster at one time, and what it recorded since the previous snapshot."""

    time_ms: int
    groups: Mapping[str, ObservedGroup]
    generations: Sequence[ObservedGeneration] = ()
    events: Sequence[GroupEvent] = ()
    has_events: bool = False
    """`__group_events` exists and is readable; `has_offsets`: the same for `__consumer_offsets`."""
    has_offsets: bool = False
    known_since_ms: int | None = None
    """Time since which all records are known."""


class AlertState(StrEnum):
    """The state of an alert in a notice."""

    BEGAN = "began"
    ENDED = "ended"
    PENDING = "pending"
    """Above the limit, but not yet for long enough."""


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """An alert of a group that began, ended, or is pending."""

    state: AlertState
    time_ms: int
    group: str
    alert: Alert
    value: float
    since_ms: int
    description: str


@dataclass(frozen=True, slots=True)
class _Measurement:
    value: float
    description: str
    since_ms: int | None = None
    """Time since which the value has been above the limit, if recorded."""


@dataclass(slots=True)
class _ObservedRebalance:
    time_ms: int
    is_counted: bool


@dataclass(slots=True)
class _ExceededRule:
    since_ms: int
    fires: bool
    measurement: _Measurement


@dataclass(slots=True)
class _GroupMonitor:
    """The state of one group between snapshots."""

    counter: RebalanceCounter = field(default_factory=RebalanceCounter)
    rebalances: list[_ObservedRebalance] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    durations: list[tuple[int, int]] = field(default_factory=list)
    """End and duration of rebalances."""
    last_observed: ObservedGroup | None = None
    stable_assignment: frozenset[tuple[str, tuple[TopicPartition, ...] | None]] | None = None
    """The assignment when the group was last Stable; None before that and after it was empty."""
    rebalanced_since_stable: bool = False
    rebalancing_since_ms: int | None = None
    preparing_since_ms: int | None = None
    last_progress_ms: int | None = None
    alerts: dict[str, _ExceededRule] = field(default_factory=dict)

    # ---- rebalances

    def add_generation(self, generation: ObservedGeneration) -> None:
        """Count a generation, once."""
        self._add_rebalance(self.counter.add(generation), generation.time_ms)

    def _add_rebalance(self, kind: RebalanceKind | None, time_ms: int) -> None:
        if kind is not None:
            self.rebalances.append(_ObservedRebalance(time_ms, kind is RebalanceKind.CHANGE))

    def add_recorded_generation(self, generation: ObservedGeneration) -> None:
        """Count a generation from `__consumer_offsets`: its rebalance is complete."""
        self.add_generation(generation)
        self._end_rebalance(generation.time_ms)

    def _end_rebalance(self, time_ms: int, *, is_timed: bool = True) -> None:
        """End the rebalance in progress; `is_timed` is false if its duration is not known from this time."""
        if is_timed and self.rebalancing_since_ms is not None and self.rebalancing_since_ms <= time_ms:
            self.durations.append((time_ms, time_ms - self.rebalancing_since_ms))
        self.rebalancing_since_ms = self.preparing_since_ms = None

    def apply_event(self, event: GroupEvent) -> None:
        """Apply an event of the coordinator."""
        self._add_rebalance(self.counter.apply_event(event), event.time_ms)
        match event.kind:
            case EventKind.GROUP_CREATED | EventKind.GROUP_EMPTIED | EventKind.GROUP_DELETED:
                self._end_rebalance(event.time_ms, is_timed=False)
            case EventKind.REBALANCE_STARTED:
                self.rebalancing_since_ms = self.preparing_since_ms = event.time_ms
            case EventKind.GENERATION_FORMED:
                self.preparing_since_ms = None
            case EventKind.REBALANCE_COMPLETED:
                self._end_rebalance(event.time_ms, is_timed=False)
                if isinstance(event.detail, RebalanceCompleted):
                    self.durations.append((event.time_ms, event.detail.duration_ms))
            case EventKind.REBALANCE_FAILED | EventKind.JOIN_REFUSED if isinstance(
                event.detail, RebalanceFailed | JoinRefused
            ):
                if is_failure(event):
                    self.failures.append((event.time_ms, event.detail.error))

    # ---- snapshots

    def update(self, now: ObservedGroup, time_ms: int, source: RebalanceSource) -> None:
        """Apply the current state of the group, after the records."""
        before, self.last_observed = self.last_observed, now
        if now.epoch is not None:
            self._apply_epoch(now, now.epoch, time_ms)
        elif source is RebalanceSource.SNAPSHOTS:
            self._compare_stable_assignment(now, time_ms)
        if now.state in WITHOUT_MEMBERS:
            self.counter.group_emptied()
        self._apply_state(now.state, time_ms, is_timed=source is not RebalanceSource.EVENTS)
        has_progress = before is None or before.committed != now.committed
        if has_progress or not now.members or not now.lag:
            self.last_progress_ms = time_ms

    def _apply_epoch(self, now: ObservedGroup, epoch: int, time_ms: int) -> None:
        last_number = self.counter.last_number
        if last_number is None:  # nothing is known before the first snapshot
            self.counter.set_baseline(ObservedGeneration(now.group, time_ms, epoch, is_epoch=True))
            return
        for number in range(last_number + 1, epoch + 1):
            self.add_generation(ObservedGeneration(now.group, time_ms, number, is_epoch=True))
        if (
            now.state in WITHOUT_MEMBERS
            and self.rebalances
            and self.counter.last is not None
            and self.counter.last.number == epoch
        ):
            self.rebalances[-1].is_counted = False  # the last member left: there is nothing to rebalance

    def _compare_stable_assignment(self, now: ObservedGroup, time_ms: int) -> None:
        """Compare Stable snapshots only: during a rebalance the partitions are unknown."""
        if now.state in WITHOUT_MEMBERS:
            self.stable_assignment = None
        self.rebalanced_since_stable = self.rebalanced_since_stable or now.state in REBALANCING
        if now.state != STABLE:
            return
        assignment = frozenset((member.member_id, member.partitions) for member in now.members)
        started = self.stable_assignment is None and self.counter.is_empty
        if started or (
            self.stable_assignment is not None
            and (self.rebalanced_since_stable or assignment != self.stable_assignment)
        ):
            self.add_generation(ObservedGeneration(now.group, time_ms, (self.counter.last_number or 1) + 1))
        self.stable_assignment, self.rebalanced_since_stable = assignment, False

    def _apply_state(self, state: str, time_ms: int, *, is_timed: bool) -> None:
        if state not in REBALANCING:
            self._end_rebalance(time_ms, is_timed=is_timed)
            return
        if self.rebalancing_since_ms is None:
            self.rebalancing_since_ms = time_ms
        if state != PREPARING:
            self.preparing_since_ms = None
        elif self.preparing_since_ms is None:
            self.preparing_since_ms = time_ms

    # ---- measurements

    def measure(self, time_ms: int, known_since_ms: int | None) -> dict[str, _Measurement]:
        """Return the measurements for the rules."""
        self._drop_old_entries(time_ms)
        assert self.last_observed is not None
        counted = [rebalance for rebalance in self.rebalances if rebalance.is_counted]
        return {
            "rebalances_per_hour": _Measurement(len(counted), _describe_rebalances(counted, time_ms)),
            "failed_rebalances": _Measurement(len(self.failures), _describe_failures(self.failures)),
            "longest_rebalance_s": self._measure_longest_rebalance(time_ms),
            "stalled": self._measure_stall(time_ms),
            "preparing": self._measure_preparing(time_ms),
            "idle_members": self._measure_idle_members(known_since_ms),
        }

    def _drop_old_entries(self, time_ms: int) -> None:
        self.rebalances = [rebalance for rebalance in self.rebalances if rebalance.time_ms > time_ms - HOUR_MS]
        self.failures = [entry for entry in self.failures if entry[0] > time_ms - RECENT_MS]
        self.durations = [entry for entry in self.durations if entry[0] > time_ms - RECENT_MS]

    def _measure_longest_rebalance(self, time_ms: int) -> _Measurement:
        elapsed = 0 if self.rebalancing_since_ms is None else time_ms - self.rebalancing_since_ms
        longest = max((duration for _, duration in self.durations), default=0)
        if elapsed > longest:
            return _Measurement(
                elapsed / 1000,
                f"a rebalance has been in progress for {_format_duration(elapsed)}{self._waiting_suffix()}",
            )
        return _Measurement(longest / 1000, f"a rebalance took {_format_duration(longest)}")

    def _measure_preparing(self, time_ms: int) -> _Measurement:
        since_ms = self.preparing_since_ms
        if since_ms is None:
            return _Measurement(0, "not in PreparingRebalance")
        description = f"in PreparingRebalance for {_format_duration(time_ms - since_ms)}{self._waiting_suffix()}"
        return _Measurement(1, description, since_ms)

    def _waiting_suffix(self) -> str:
        names = self.last_observed.waiting_for if self.last_observed is not None else ()
        return f", waiting for {_join_names(names)}" if names else ""

    def _measure_stall(self, time_ms: int) -> _Measurement:
        assert self.last_observed is not None
        lag, since_ms = self.last_observed.lag or 0, self.last_progress_ms
        if not lag or not self.last_observed.members or since_ms is None or since_ms >= time_ms:
            return _Measurement(0, "offsets are committed, or there is no lag")
        return _Measurement(1, f"no offset committed for {_format_duration(time_ms - since_ms)}, lag {lag:,}", since_ms)

    def _measure_idle_members(self, known_since_ms: int | None) -> _Measurement:
        assert self.last_observed is not None
        idle = self.last_observed.idle
        names = _join_names([member.name for member in idle])
        description = f"{len(idle)} of {len(self.last_observed.members)} members have no partition: {names}"
        last = self.counter.last
        since_ms = last.time_ms if last is not None else known_since_ms
        return _Measurement(len(idle), description if idle else "all members have partitions", since_ms)


class AlertMonitor:
    """Evaluates the rules on one snapshot after another."""

    def __init__(self, rules: Sequence[Alert] = ALERTS) -> None:
        self.rules = tuple(rules)
        self.snapshots = 0
        self.fired: list[AlertNotice] = []
        """All alerts that began, in order."""
        self._groups: dict[str, _GroupMonitor] = {}
        self._last: ClusterSnapshot | None = None
        self._sources: set[EventSource] = set()

    def observe(self, snapshot: ClusterSnapshot) -> list[AlertNotice]:
        """Evaluate a snapshot and return the alerts that began or ended."""
        self.snapshots += 1
        self._last = snapshot
        self._sources |= {event.source for event in snapshot.events}
        if self._counts_by_events:
            for event in snapshot.events:
                if event.source is EventSource.COORDINATOR:
                    self._group(event.group).apply_event(event)
        else:
            for generation in snapshot.generations:
                self._group(generation.group).add_recorded_generation(generation)
        notices: list[AlertNotice] = []
        for name, observed in snapshot.groups.items():
            group = self._group(name)
            group.update(observed, snapshot.time_ms, self.rebalance_source(observed))
            measurements = group.measure(snapshot.time_ms, snapshot.known_since_ms)
            for rule in self.rules:
                notices += self._evaluate_rule(rule, group, measurements[rule.measure], snapshot.time_ms)
        notices += self._end_alerts_of_missing_groups(snapshot)
        self.fired += [notice for notice in notices if notice.state is AlertState.BEGAN]
        return notices

    @property
    def _counts_by_events(self) -> bool:
        """Whether coordinators write events; on other brokers only members do."""
        if self._last is None or not self._last.has_events:
            return False
        return EventSource.COORDINATOR in self._sources or EventSource.MEMBER not in self._sources

    @property
    def firing(self) -> list[AlertNotice]:
        """The active alerts."""
        return [notice for notice in self._active_alerts() if notice.state is AlertState.BEGAN]

    @property
    def pending(self) -> list[AlertNotice]:
        """The pending alerts."""
        return [notice for notice in self._active_alerts() if notice.state is AlertState.PENDING]

    def rebalance_source(self, group: ObservedGroup) -> RebalanceSource:
        """Return from what this group's rebalances are counted."""
        if self._counts_by_events:
            return RebalanceSource.EVENTS
        if self._last is not None and self._last.has_offsets:
            return RebalanceSource.OFFSETS
        return RebalanceSource.SNAPSHOTS if group.epoch is None else RebalanceSource.EPOCH

    def not_measured(self) -> list[Alert]:
        """Return the rules that cannot be measured on this cluster."""
        has_failures = self._last is None or self._counts_by_events
        return [rule for rule in self.rules if rule.measure == "failed_rebalances" and not has_failures]

    def _group(self, name: str) -> _GroupMonitor:
        return self._groups.setdefault(name, _GroupMonitor())

    def _evaluate_rule(
        self, rule: Alert, group: _GroupMonitor, measurement: _Measurement, time_ms: int
    ) -> Iterable[AlertNotice]:
        assert group.last_observed is not None
        before = group.alerts.get(rule.name)
        if measurement.value <= rule.limit:
            if group.alerts.pop(rule.name, None) is not None and before is not None and before.fires:
                yield AlertNotice(
                    AlertState.ENDED,
                    time_ms,
                    group.last_observed.group,
                    rule,
                    measurement.value,
                    before.since_ms,
                    measurement.description,
                )
            return
        since_ms = measurement.since_ms if measurement.since_ms is not None else before.since_ms if before else time_ms
        fires = time_ms - since_ms >= rule.for_s * 1000
        group.alerts[rule.name] = _ExceededRule(since_ms, fires or (before is not None and before.fires), measurement)
        if fires and not (before is not None and before.fires):
            yield AlertNotice(
                AlertState.BEGAN,
                time_ms,
                group.last_observed.group,
                rule,
                measurement.value,
                since_ms,
                measurement.description,
            )

    def _end_alerts_of_missing_groups(self, snapshot: ClusterSnapshot) -> Iterable[AlertNotice]:
        """End the alerts of groups that no longer exist."""
        for name in [
            name
            for name, group in self._groups.items()
            if group.last_observed is not None and name not in snapshot.groups
        ]:
            group = self._groups.pop(name)
            for rule in self.rules:
                alert = group.alerts.get(rule.name)
                if alert is not None and alert.fires:
                    yield AlertNotice(
                        AlertState.ENDED,
                        snapshot.time_ms,
                        name,
                        rule,
                        0,
                        alert.since_ms,
                        "the group no longer exists",
                    )

    def _active_alerts(self) -> list[AlertNotice]:
        time_ms = self._last.time_ms if self._last is not None else 0
        return [
            AlertNotice(
                AlertState.BEGAN if alert.fires else AlertState.PENDING,
                time_ms,
                name,
                rule,
                alert.measurement.value,
                alert.since_ms,
                alert.measurement.description,
            )
            for name, group in sorted(self._groups.items())
            for rule in self.rules
            if (alert := group.alerts.get(rule.name)) is not None
        ]


def _describe_rebalances(counted: Sequence[_ObservedRebalance], time_ms: int) -> str:
    if not counted:
        return "no rebalance in the last hour"
    number = f"{len(counted)} rebalance{'s' if len(counted) != 1 else ''}"
    return f"{number} in the last hour, the last {_format_duration(time_ms - counted[-1].time_ms)} ago"


def _describe_failures(failures: Sequence[tuple[int, str]]) -> str:
    if not failures:
        return "no failed rebalance in the last 10 minutes"
    return f"{len(failures)} failed in the last 10 minutes: {_join_names(sorted({error for _, error in failures}))}"


def _join_names(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_MAX_NAMES])
    return f"{shown} and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else shown


def _format_duration(ms: int) -> str:
    ms = max(ms, 0)
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 1000} s" if ms < 300_000 else f"{ms // 60_000} min"
