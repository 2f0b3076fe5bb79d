"""Alerts on a live cluster: looks at its groups in, alerts that begin and end out.

Rules kept here
- Nothing here asks a cluster or a clock: a look brings its own time, and the same looks give the same alerts.
- Rebalances are counted by generation, from what the cluster has written down: its events, its `__consumer_offsets`,
  the epoch of a KIP-848 group. Where none of these may be read, a change of members or of their partitions between two
  looks is one rebalance, which is fewer than there may have been.
- As in a history, a group's start and the second round of a cooperative change are no rebalances of their own.
- A rule fires when its measure has been above its limit for as long as the rule says. Since when, is taken from what
  was written down if it is told there, else from the looks: what was before the first look is not guessed.
- What cannot be measured here is named (`not_measured`), and never counts as calm.
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
NOBODY: Final = frozenset({"Empty", "Dead"})
FOLLOW_UP_MS: Final = 5_000
"""A member hears of the second round with its next heartbeat (3 s by default), and needs a moment to join it."""
_FIRST_GENERATION: Final = 1
_FIRST_EPOCHS: Final = 2
"""A KIP-848 group begins with an epoch for its first member, and another once its topics are known."""
_LONGEST_START_MS: Final = 30_000
"""Of a group whose members are not told."""
_NAMED: Final = 3


class RebalanceSource(StrEnum):
    """How rebalances are counted."""

    EVENTS = "__group_events"
    OFFSETS = "__consumer_offsets"
    EPOCH = "the group's epoch"
    LOOKS = "members and partitions at each look"


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """A member; partitions are None where they cannot be told."""

    member_id: str
    name: str
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group at one look."""

    group: str
    state: str
    members: tuple[MemberSnapshot, ...] = ()
    epoch: int | None = None
    """Of a KIP-848 group, which tells it itself."""
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    lag: int | None = None
    waiting_for: tuple[str, ...] = ()
    """Whom a rebalance waits for, by name, where it is known."""

    @property
    def idle(self) -> tuple[MemberSnapshot, ...]:
        """Who has nothing to do; while partitions move nobody is idle."""
        return tuple(one for one in self.members if one.partitions == ()) if self.state == STABLE else ()


@dataclass(frozen=True, slots=True)
class ObservedGeneration:
    """A generation that was written down; without members the group was empty, None is not told."""

    group: str
    time_ms: int
    number: int
    members: frozenset[str] | None = None
    cooperative: bool = False
    size: int | None = None
    """How many members it has, where not even their ids are told."""
    is_epoch: bool = False
    """Of a KIP-848 group, which makes one of these for every change."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What was seen of a cluster at one time, and what it wrote down since the look before."""

    time_ms: int
    groups: Mapping[str, GroupSnapshot]
    generations: Sequence[ObservedGeneration] = ()
    events: Sequence[GroupEvent] = ()
    has_events: bool = False
    """`__group_events` is there, and may be read; `has_offsets`: so is `__consumer_offsets`."""
    has_offsets: bool = False
    known_since_ms: int | None = None
    """Since when all that was written down is known."""


class AlertTransition(StrEnum):
    """What happened to an alert."""

    BEGAN = "began"
    ENDED = "ended"
    PENDING = "pending"
    """The limit is passed, but not for long enough yet."""


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """An alert of a group that began, ended, or may begin."""

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
    """Since when the value has been above the limit, where that is known better than by looking."""


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
    """All that is remembered of one group between looks."""

    numbers: dict[int, ObservedGeneration] = field(default_factory=dict)
    rounds: list[_ObservedRebalance] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    lengths: list[tuple[int, int]] = field(default_factory=list)
    """When rebalances ended, and how long they took."""
    last: ObservedGeneration | None = None
    empty: bool = False
    starting_ms: int | None = None
    """When the last generation was formed of those that are the group's start; None when that is over."""
    started_ms: int = 0
    """And the first of them."""
    follows_up: bool = False
    seen: GroupSnapshot | None = None
    settled: frozenset[tuple[str, tuple[TopicPartition, ...] | None]] | None = None
    """Who had what when the group was last seen stable; None before that, and once it was empty."""
    disturbed: bool = False
    rebalancing_since_ms: int | None = None
    preparing_since_ms: int | None = None
    progress_ms: int | None = None
    holding: dict[str, _PendingAlert] = field(default_factory=dict)

    # ---- rebalances

    def formed(self, one: ObservedGeneration) -> None:
        """A generation was formed, as told by whoever tells it first."""
        if self.last is not None and one.number < self.last.number and one.time_ms > self.last.time_ms:
            self.numbers.clear()  # the group was deleted and made again
            self.empty = True
        if one.number in self.numbers:
            return
        self.numbers[one.number] = one
        if one.members is not None and not one.members:
            self.empty = True
            return
        starts = self._starts(one)
        if starts and self.starting_ms is None:
            self.started_ms = one.time_ms
        self.rounds.append(
            _ObservedRebalance(one.time_ms, not starts and not self.follows_up and not self._follows_up(one))
        )
        self.starting_ms = one.time_ms if starts else None
        self.empty, self.follows_up, self.last = False, False, one

    def _starts(self, one: ObservedGeneration) -> bool:
        """Whether it is part of the group's start, which is over when a generation stood for the initial delay, or when
        somebody went: a storm may be as quick as a start."""
        first = _FIRST_EPOCHS if one.is_epoch else _FIRST_GENERATION
        if self.empty or one.number <= first:
            return True
        if self.last is None or self.starting_ms is None or one.time_ms - self.starting_ms > INITIAL_DELAY_MS:
            return False
        if one.members is not None and self.last.members is not None:
            return self.last.members <= one.members
        if one.size is not None and self.last.size is not None:
            return self.last.size <= one.size
        return one.time_ms - self.started_ms <= _LONGEST_START_MS

    def _follows_up(self, one: ObservedGeneration) -> bool:
        before = self.last
        return (
            before is not None
            and one.cooperative
            and one.members is not None
            and one.members == before.members
            and one.time_ms - before.time_ms <= FOLLOW_UP_MS
        )

    def written(self, one: ObservedGeneration) -> None:
        """A generation stands in `__consumer_offsets`: its assignment is made."""
        self.formed(one)
        self._over(one.time_ms)

    def _over(self, time_ms: int, *, timed: bool = True) -> None:
        """The round that was under way has ended; how long it took is not always told by when that is seen."""
        if timed and self.rebalancing_since_ms is not None and self.rebalancing_since_ms <= time_ms:
            self.lengths.append((time_ms, time_ms - self.rebalancing_since_ms))
        self.rebalancing_since_ms = self.preparing_since_ms = None

    def heard(self, event: GroupEvent) -> None:
        """The coordinator told something."""
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

    # ---- looks

    def look(self, now: GroupSnapshot, time_ms: int, told_by: RebalanceSource) -> None:
        """What the group is now, after what was written down."""
        before, self.seen = self.seen, now
        if now.epoch is not None:
            self._note_epoch(now, now.epoch, time_ms)
        elif told_by is RebalanceSource.LOOKS:
            self._note_change(now, time_ms)
        if now.state in NOBODY:
            self.empty = True
        self._note_state(now.state, time_ms, timed=told_by is not RebalanceSource.EVENTS)
        moved = before is None or before.committed != now.committed
        if moved or not now.members or not now.lag:
            self.progress_ms = time_ms

    def _note_epoch(self, now: GroupSnapshot, epoch: int, time_ms: int) -> None:
        if not self.numbers:  # what was before the first look is not known
            self.numbers[epoch] = self.last = ObservedGeneration(now.group, time_ms, epoch, is_epoch=True)
            return
        for number in range(max(self.numbers) + 1, epoch + 1):
            self.formed(ObservedGeneration(now.group, time_ms, number, is_epoch=True))
        if now.state in NOBODY and self.rounds and self.last is not None and self.last.number == epoch:
            self.rounds[-1].counted = False  # the last one went: there is nobody left to rebalance

    def _note_change(self, now: GroupSnapshot, time_ms: int) -> None:
        """While a group rebalances its partitions are not told: only looks at a stable group are compared."""
        if now.state in NOBODY:
            self.settled = None
        self.disturbed = self.disturbed or now.state in REBALANCING
        if now.state != STABLE:
            return
        settled = frozenset((one.member_id, one.partitions) for one in now.members)
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
        """What the rules are held against."""
        self._forget(time_ms)
        assert self.seen is not None
        counted = [one for one in self.rounds if one.counted]
        return {
            "rebalances_per_hour": _Measurement(len(counted), _often(counted, time_ms)),
            "failed_rebalances": _Measurement(len(self.failures), _failures(self.failures)),
            "longest_rebalance_s": self._longest(time_ms),
            "stalled": self._stalled(time_ms),
            "preparing": self._preparing(time_ms),
            "idle_members": self._idle(known_since_ms),
        }

    def _forget(self, time_ms: int) -> None:
        self.rounds = [one for one in self.rounds if one.time_ms > time_ms - HOUR_MS]
        self.failures = [one for one in self.failures if one[0] > time_ms - RECENT_MS]
        self.lengths = [one for one in self.lengths if one[0] > time_ms - RECENT_MS]

    def _longest(self, time_ms: int) -> _Measurement:
        lasting = 0 if self.rebalancing_since_ms is None else time_ms - self.rebalancing_since_ms
        longest = max((length for _, length in self.lengths), default=0)
        if lasting > longest:
            return _Measurement(
                lasting / 1000, f"a rebalance has been under way for {_seconds(lasting)}{self._waits()}"
            )
        return _Measurement(longest / 1000, f"a rebalance took {_seconds(longest)}")

    def _preparing(self, time_ms: int) -> _Measurement:
        since_ms = self.preparing_since_ms
        if since_ms is None:
            return _Measurement(0, "it is not in PreparingRebalance")
        seen = f"in PreparingRebalance for {_seconds(time_ms - since_ms)}{self._waits()}"
        return _Measurement(1, seen, since_ms)

    def _waits(self) -> str:
        names = self.seen.waiting_for if self.seen is not None else ()
        return f", waiting for {_listed(names)}" if names else ""

    def _stalled(self, time_ms: int) -> _Measurement:
        assert self.seen is not None
        lag, since_ms = self.seen.lag or 0, self.progress_ms
        if not lag or not self.seen.members or since_ms is None or since_ms >= time_ms:
            return _Measurement(0, "offsets are committed, or nothing waits")
        return _Measurement(1, f"no offset was committed for {_seconds(time_ms - since_ms)}, lag {lag:,}", since_ms)

    def _idle(self, known_since_ms: int | None) -> _Measurement:
        assert self.seen is not None
        idle = self.seen.idle
        names = _listed([one.name for one in idle])
        seen = f"{len(idle)} of {len(self.seen.members)} members have no partition: {names}"
        since_ms = self.last.time_ms if self.last is not None else known_since_ms
        return _Measurement(len(idle), seen if idle else "everybody has partitions", since_ms)


class AlertMonitor:
    """The rules, and what they have to say about look after look."""

    def __init__(self, rules: Sequence[Alert] = ALERTS) -> None:
        self.rules = tuple(rules)
        self.looks = 0
        self.fired: list[AlertNotice] = []
        """Every alert that began, in order."""
        self._groups: dict[str, _GroupMonitor] = {}
        self._last: ClusterSnapshot | None = None
        self._told: set[EventSource] = set()

    def observe(self, look: ClusterSnapshot) -> list[AlertNotice]:
        """Take a look in; what began and what ended."""
        self.looks += 1
        self._last = look
        self._told |= {event.source for event in look.events}
        if self._by_events:
            for event in look.events:
                if event.source is EventSource.COORDINATOR:
                    self._group(event.group).heard(event)
        else:
            for generation in look.generations:
                self._group(generation.group).written(generation)
        found: list[AlertNotice] = []
        for name, seen in look.groups.items():
            group = self._group(name)
            group.look(seen, look.time_ms, self.told_by(seen))
            measured = group.measured(look.time_ms, look.known_since_ms)
            for rule in self.rules:
                found += self._held(rule, group, measured[rule.measure], look.time_ms)
        found += self._gone(look)
        self.fired += [one for one in found if one.transition is AlertTransition.BEGAN]
        return found

    @property
    def _by_events(self) -> bool:
        """The coordinators tell their decisions; on other brokers only members write to the topic, if anybody does."""
        if self._last is None or not self._last.has_events:
            return False
        return EventSource.COORDINATOR in self._told or EventSource.MEMBER not in self._told

    @property
    def firing(self) -> list[AlertNotice]:
        """The alerts that are on now."""
        return [one for one in self._holding() if one.transition is AlertTransition.BEGAN]

    @property
    def pending(self) -> list[AlertNotice]:
        """What may become an alert if it goes on."""
        return [one for one in self._holding() if one.transition is AlertTransition.PENDING]

    def told_by(self, group: GroupSnapshot) -> RebalanceSource:
        """How this group's rebalances are counted."""
        if self._by_events:
            return RebalanceSource.EVENTS
        if self._last is not None and self._last.has_offsets:
            return RebalanceSource.OFFSETS
        return RebalanceSource.LOOKS if group.epoch is None else RebalanceSource.EPOCH

    def not_measured(self) -> list[Alert]:
        """The rules that this cluster tells nothing about."""
        told = self._last is None or self._by_events
        return [rule for rule in self.rules if rule.measure == "failed_rebalances" and not told]

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

    def _gone(self, look: ClusterSnapshot) -> Iterable[AlertNotice]:
        """Groups that are there no more have no alerts."""
        for name in [name for name, one in self._groups.items() if one.seen is not None and name not in look.groups]:
            group = self._groups.pop(name)
            for rule in self.rules:
                held = group.holding.get(rule.name)
                if held is not None and held.fires:
                    yield AlertNotice(
                        AlertTransition.ENDED, look.time_ms, name, rule, 0, held.since_ms, "the group is gone"
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
    shown = ", ".join(list(names)[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _seconds(ms: int) -> str:
    ms = max(ms, 0)
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 1000} s" if ms < 300_000 else f"{ms // 60_000} min"
