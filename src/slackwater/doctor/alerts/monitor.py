"""Alerts on a live cluster: takes snapshots of its groups and returns the alerts that begin and end.

Invariants:
- There is no I/O and no clock: a snapshot has its own time, and the same snapshots give the same alerts.
- Rebalances are counted by generation: from `__group_events`, from `__consumer_offsets`, or from the epoch of a KIP-848
  group. If none of these is readable, a change of members or partitions between two snapshots counts as one rebalance,
  which can be too few.
- As in a history, a group's start and the follow-up of a cooperative rebalance are not counted.
- A rule fires when its measure has been above its limit for the rule's duration. The begin is taken from the records if
  they contain it, else from the snapshots; nothing is assumed about the time before the first snapshot.
- Rules that cannot be measured are listed (`not_measured`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from slackwater.doctor.alerts.rules import ALERTS, HOUR_MS, NO_FAILURE, RECENT_MS, Alert
from slackwater.doctor.defaults import INITIAL_DELAY_MS
from slackwater.group.events import (
    EventKind,
    EventSource,
    GroupEvent,
    JoinRefused,
    RebalanceCompleted,
    RebalanceFailed,
    Trigger,
)
from slackwater.group.topic_partition import TopicPartition

STABLE: Final = "Stable"
PREPARING: Final = "PreparingRebalance"
REBALANCING: Final = frozenset({PREPARING, "CompletingRebalance", "Assigning", "Reconciling"})
WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
FOLLOW_UP_MS: Final = 5_000
"""A member learns of the follow-up with its next heartbeat (3 s by default) and then joins it."""
_FIRST_GENERATION: Final = 1
_FIRST_EPOCHS: Final = 2
"""A KIP-848 group starts with one epoch for its first member and one when its topics are known."""
_MAX_START_MS: Final = 30_000
"""For a group whose members are unknown."""
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
class ObservedGeneration:
    """A recorded generation; empty members mean an empty group, None means unknown."""

    group: str
    time_ms: int
    number: int
    members: frozenset[str] | None = None
    cooperative: bool = False
    size: int | None = None
    """Number of members, if their ids are unknown."""
    is_epoch: bool = False
    """An epoch of a KIP-848 group, which has one for every change."""


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


class AlertTransition(StrEnum):
    """A change of an alert."""

    BEGAN = "began"
    ENDED = "ended"
    PENDING = "pending"
    """Above the limit, but not yet for long enough."""


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """An alert of a group that began, ended, or is pending."""

    transition: AlertTransition
    time_ms: int
    group: str
    alert: Alert
    value: float
    since_ms: int
    seen: str


@dataclass(frozen=True, slots=True)
class _Measurement:
    value: float
    seen: str
    since_ms: int | None = None
    """Time since which the value has been above the limit, if recorded."""


@dataclass(slots=True)
class _ObservedRebalance:
    time_ms: int
    counted: bool


@dataclass(slots=True)
class _PendingAlert:
    since_ms: int
    fires: bool
    measured: _Measurement


@dataclass(slots=True)
class _GroupMonitor:
    """The state of one group between snapshots."""

    numbers: dict[int, ObservedGeneration] = field(default_factory=dict)
    rounds: list[_ObservedRebalance] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    lengths: list[tuple[int, int]] = field(default_factory=list)
    """End and duration of rebalances."""
    last: ObservedGeneration | None = None
    empty: bool = False
    starting_ms: int | None = None
    """Time of the last generation of the group's start; None if the start is over."""
    started_ms: int = 0
    """Time of the first generation of the group's start."""
    follows_up: bool = False
    seen: ObservedGroup | None = None
    settled: frozenset[tuple[str, tuple[TopicPartition, ...] | None]] | None = None
    """The assignment when the group was last Stable; None before that and after it was empty."""
    disturbed: bool = False
    rebalancing_since_ms: int | None = None
    preparing_since_ms: int | None = None
    progress_ms: int | None = None
    holding: dict[str, _PendingAlert] = field(default_factory=dict)

    # ---- rebalances

    def formed(self, generation: ObservedGeneration) -> None:
        """Count a generation, once."""
        if self.last is not None and generation.number < self.last.number and generation.time_ms > self.last.time_ms:
            self.numbers.clear()  # the group was deleted and created again
            self.empty = True
        if generation.number in self.numbers:
            return
        self.numbers[generation.number] = generation
        if generation.members is not None and not generation.members:
            self.empty = True
            return
        starts = self._starts(generation)
        if starts and self.starting_ms is None:
            self.started_ms = generation.time_ms
        self.rounds.append(
            _ObservedRebalance(
                generation.time_ms, not starts and not self.follows_up and not self._follows_up(generation)
            )
        )
        self.starting_ms = generation.time_ms if starts else None
        self.empty, self.follows_up, self.last = False, False, generation

    def _starts(self, generation: ObservedGeneration) -> bool:
        """Return whether it belongs to the group's start.

        The start is over when a generation lasted for the initial delay or when a member left: a storm can be as fast
        as a start.
        """
        first = _FIRST_EPOCHS if generation.is_epoch else _FIRST_GENERATION
        if self.empty or generation.number <= first:
            return True
        if self.last is None or self.starting_ms is None or generation.time_ms - self.starting_ms > INITIAL_DELAY_MS:
            return False
        if generation.members is not None and self.last.members is not None:
            return self.last.members <= generation.members
        if generation.size is not None and self.last.size is not None:
            return self.last.size <= generation.size
        return generation.time_ms - self.started_ms <= _MAX_START_MS

    def _follows_up(self, generation: ObservedGeneration) -> bool:
        before = self.last
        return (
            before is not None
            and generation.cooperative
            and generation.members is not None
            and generation.members == before.members
            and generation.time_ms - before.time_ms <= FOLLOW_UP_MS
        )

    def written(self, generation: ObservedGeneration) -> None:
        """Count a generation from `__consumer_offsets`: its rebalance is complete."""
        self.formed(generation)
        self._over(generation.time_ms)

    def _over(self, time_ms: int, *, timed: bool = True) -> None:
        """End the rebalance in progress; `timed` is false if its duration is not known from this time."""
        if timed and self.rebalancing_since_ms is not None and self.rebalancing_since_ms <= time_ms:
            self.lengths.append((time_ms, time_ms - self.rebalancing_since_ms))
        self.rebalancing_since_ms = self.preparing_since_ms = None

    def apply_event(self, event: GroupEvent) -> None:
        """Apply an event of the coordinator."""
        match event.kind:
            case EventKind.GROUP_CREATED | EventKind.GROUP_EMPTIED | EventKind.GROUP_DELETED:
                self.empty = True
                self._over(event.time_ms, timed=False)
            case EventKind.REBALANCE_STARTED:
                self.follows_up = event.trigger is Trigger.COOPERATIVE_FOLLOWUP
                self.rebalancing_since_ms = self.preparing_since_ms = event.time_ms
            case EventKind.GENERATION_FORMED if event.generation is not None:
                self.formed(ObservedGeneration(event.group, event.time_ms, event.generation, size=event.members))
                self.preparing_since_ms = None
            case EventKind.REBALANCE_COMPLETED:
                self._over(event.time_ms, timed=False)
                if isinstance(event.detail, RebalanceCompleted):
                    self.lengths.append((event.time_ms, event.detail.duration_ms))
            case EventKind.REBALANCE_FAILED | EventKind.JOIN_REFUSED if isinstance(
                event.detail, RebalanceFailed | JoinRefused
            ):
                if event.detail.error not in NO_FAILURE:
                    self.failures.append((event.time_ms, event.detail.error))

    # ---- snapshots

    def update(self, now: ObservedGroup, time_ms: int, source: RebalanceSource) -> None:
        """Apply the current state of the group, after the records."""
        before, self.seen = self.seen, now
        if now.epoch is not None:
            self._note_epoch(now, now.epoch, time_ms)
        elif source is RebalanceSource.SNAPSHOTS:
            self._note_change(now, time_ms)
        if now.state in WITHOUT_MEMBERS:
            self.empty = True
        self._note_state(now.state, time_ms, timed=source is not RebalanceSource.EVENTS)
        moved = before is None or before.committed != now.committed
        if moved or not now.members or not now.lag:
            self.progress_ms = time_ms

    def _note_epoch(self, now: ObservedGroup, epoch: int, time_ms: int) -> None:
        if not self.numbers:  # nothing is known before the first snapshot
            self.numbers[epoch] = self.last = ObservedGeneration(now.group, time_ms, epoch, is_epoch=True)
            return
        for number in range(max(self.numbers) + 1, epoch + 1):
            self.formed(ObservedGeneration(now.group, time_ms, number, is_epoch=True))
        if now.state in WITHOUT_MEMBERS and self.rounds and self.last is not None and self.last.number == epoch:
            self.rounds[-1].counted = False  # the last member left: there is nothing to rebalance

    def _note_change(self, now: ObservedGroup, time_ms: int) -> None:
        """Compare Stable snapshots only: during a rebalance the partitions are unknown."""
        if now.state in WITHOUT_MEMBERS:
            self.settled = None
        self.disturbed = self.disturbed or now.state in REBALANCING
        if now.state != STABLE:
            return
        settled = frozenset((member.member_id, member.partitions) for member in now.members)
        started = self.settled is None and self.empty
        if started or (self.settled is not None and (self.disturbed or settled != self.settled)):
            self.formed(ObservedGeneration(now.group, time_ms, max(self.numbers, default=_FIRST_GENERATION) + 1))
        self.settled, self.disturbed = settled, False

    def _note_state(self, state: str, time_ms: int, *, timed: bool) -> None:
        if state not in REBALANCING:
            self._over(time_ms, timed=timed)
            return
        if self.rebalancing_since_ms is None:
            self.rebalancing_since_ms = time_ms
        if state != PREPARING:
            self.preparing_since_ms = None
        elif self.preparing_since_ms is None:
            self.preparing_since_ms = time_ms

    # ---- measures

    def measured(self, time_ms: int, known_since_ms: int | None) -> dict[str, _Measurement]:
        """Return the measurements for the rules."""
        self._forget(time_ms)
        assert self.seen is not None
        counted = [round_ for round_ in self.rounds if round_.counted]
        return {
            "rebalances_per_hour": _Measurement(len(counted), _often(counted, time_ms)),
            "failed_rebalances": _Measurement(len(self.failures), _failures(self.failures)),
            "longest_rebalance_s": self._longest(time_ms),
            "stalled": self._stalled(time_ms),
            "preparing": self._preparing(time_ms),
            "idle_members": self._idle(known_since_ms),
        }

    def _forget(self, time_ms: int) -> None:
        self.rounds = [round_ for round_ in self.rounds if round_.time_ms > time_ms - HOUR_MS]
        self.failures = [entry for entry in self.failures if entry[0] > time_ms - RECENT_MS]
        self.lengths = [entry for entry in self.lengths if entry[0] > time_ms - RECENT_MS]

    def _longest(self, time_ms: int) -> _Measurement:
        lasting = 0 if self.rebalancing_since_ms is None else time_ms - self.rebalancing_since_ms
        longest = max((length for _, length in self.lengths), default=0)
        if lasting > longest:
            return _Measurement(
                lasting / 1000, f"a rebalance has been in progress for {_seconds(lasting)}{self._waits()}"
            )
        return _Measurement(longest / 1000, f"a rebalance took {_seconds(longest)}")

    def _preparing(self, time_ms: int) -> _Measurement:
        since_ms = self.preparing_since_ms
        if since_ms is None:
            return _Measurement(0, "not in PreparingRebalance")
        seen = f"in PreparingRebalance for {_seconds(time_ms - since_ms)}{self._waits()}"
        return _Measurement(1, seen, since_ms)

    def _waits(self) -> str:
        names = self.seen.waiting_for if self.seen is not None else ()
        return f", waiting for {_listed(names)}" if names else ""

    def _stalled(self, time_ms: int) -> _Measurement:
        assert self.seen is not None
        lag, since_ms = self.seen.lag or 0, self.progress_ms
        if not lag or not self.seen.members or since_ms is None or since_ms >= time_ms:
            return _Measurement(0, "offsets are committed, or there is no lag")
        return _Measurement(1, f"no offset committed for {_seconds(time_ms - since_ms)}, lag {lag:,}", since_ms)

    def _idle(self, known_since_ms: int | None) -> _Measurement:
        assert self.seen is not None
        idle = self.seen.idle
        names = _listed([member.name for member in idle])
        seen = f"{len(idle)} of {len(self.seen.members)} members have no partition: {names}"
        since_ms = self.last.time_ms if self.last is not None else known_since_ms
        return _Measurement(len(idle), seen if idle else "all members have partitions", since_ms)


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
        if self._by_events:
            for event in snapshot.events:
                if event.source is EventSource.COORDINATOR:
                    self._group(event.group).apply_event(event)
        else:
            for generation in snapshot.generations:
                self._group(generation.group).written(generation)
        notices: list[AlertNotice] = []
        for name, seen in snapshot.groups.items():
            group = self._group(name)
            group.update(seen, snapshot.time_ms, self.rebalance_source(seen))
            measured = group.measured(snapshot.time_ms, snapshot.known_since_ms)
            for rule in self.rules:
                notices += self._held(rule, group, measured[rule.measure], snapshot.time_ms)
        notices += self._gone(snapshot)
        self.fired += [notice for notice in notices if notice.transition is AlertTransition.BEGAN]
        return notices

    @property
    def _by_events(self) -> bool:
        """Whether coordinators write events; on other brokers only members do."""
        if self._last is None or not self._last.has_events:
            return False
        return EventSource.COORDINATOR in self._sources or EventSource.MEMBER not in self._sources

    @property
    def firing(self) -> list[AlertNotice]:
        """The active alerts."""
        return [notice for notice in self._holding() if notice.transition is AlertTransition.BEGAN]

    @property
    def pending(self) -> list[AlertNotice]:
        """The pending alerts."""
        return [notice for notice in self._holding() if notice.transition is AlertTransition.PENDING]

    def rebalance_source(self, group: ObservedGroup) -> RebalanceSource:
        """Return from what this group's rebalances are counted."""
        if self._by_events:
            return RebalanceSource.EVENTS
        if self._last is not None and self._last.has_offsets:
            return RebalanceSource.OFFSETS
        return RebalanceSource.SNAPSHOTS if group.epoch is None else RebalanceSource.EPOCH

    def not_measured(self) -> list[Alert]:
        """Return the rules that cannot be measured on this cluster."""
        has_failures = self._last is None or self._by_events
        return [rule for rule in self.rules if rule.measure == "failed_rebalances" and not has_failures]

    def _group(self, name: str) -> _GroupMonitor:
        return self._groups.setdefault(name, _GroupMonitor())

    def _held(self, rule: Alert, group: _GroupMonitor, measured: _Measurement, time_ms: int) -> Iterable[AlertNotice]:
        assert group.seen is not None
        before = group.holding.get(rule.name)
        if measured.value <= rule.limit:
            if group.holding.pop(rule.name, None) is not None and before is not None and before.fires:
                yield AlertNotice(
                    AlertTransition.ENDED,
                    time_ms,
                    group.seen.group,
                    rule,
                    measured.value,
                    before.since_ms,
                    measured.seen,
                )
            return
        since_ms = measured.since_ms if measured.since_ms is not None else before.since_ms if before else time_ms
        fires = time_ms - since_ms >= rule.for_s * 1000
        group.holding[rule.name] = _PendingAlert(since_ms, fires or (before is not None and before.fires), measured)
        if fires and not (before is not None and before.fires):
            yield AlertNotice(
                AlertTransition.BEGAN, time_ms, group.seen.group, rule, measured.value, since_ms, measured.seen
            )

    def _gone(self, snapshot: ClusterSnapshot) -> Iterable[AlertNotice]:
        """End the alerts of groups that no longer exist."""
        for name in [
            name for name, group in self._groups.items() if group.seen is not None and name not in snapshot.groups
        ]:
            group = self._groups.pop(name)
            for rule in self.rules:
                held = group.holding.get(rule.name)
                if held is not None and held.fires:
                    yield AlertNotice(
                        AlertTransition.ENDED,
                        snapshot.time_ms,
                        name,
                        rule,
                        0,
                        held.since_ms,
                        "the group no longer exists",
                    )

    def _holding(self) -> list[AlertNotice]:
        time_ms = self._last.time_ms if self._last is not None else 0
        return [
            AlertNotice(
                AlertTransition.BEGAN if held.fires else AlertTransition.PENDING,
                time_ms,
                name,
                rule,
                held.measured.value,
                held.since_ms,
                held.measured.seen,
            )
            for name, group in sorted(self._groups.items())
            for rule in self.rules
            if (held := group.holding.get(rule.name)) is not None
        ]


def _often(counted: Sequence[_ObservedRebalance], time_ms: int) -> str:
    if not counted:
        return "no rebalance in the last hour"
    number = f"{len(counted)} rebalance{'s' if len(counted) != 1 else ''}"
    return f"{number} in the last hour, the last {_seconds(time_ms - counted[-1].time_ms)} ago"


def _failures(failures: Sequence[tuple[int, str]]) -> str:
    if not failures:
        return "no failed rebalance in the last 10 minutes"
    return f"{len(failures)} failed in the last 10 minutes: {_listed(sorted({error for _, error in failures}))}"


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_MAX_NAMES])
    return f"{shown} and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else shown


def _seconds(ms: int) -> str:
    ms = max(ms, 0)
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 1000} s" if ms < 300_000 else f"{ms // 60_000} min"
