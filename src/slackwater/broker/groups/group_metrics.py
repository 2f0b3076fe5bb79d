"""Rebalances, members and lag of each group, for the metrics page.

Invariants:
- Rebalances are counted from the group events, with the definitions of the alerts (`group.rebalance_counter`).
- The number of groups with figures of their own is bounded: the first groups have them, the others are summed under
  the name `other`. A group keeps its place in the list until it is deleted, so that no counter decreases. A group that
  is called `other` is part of the sum.
- A group's figures end when the group is deleted. Events of groups that do not exist count as `other`.
- Partitions are decoded once per generation; everything else is read when the page is requested.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.coordinator.states import STABLE
from slackwater.group.events import (
    EventKind,
    GroupEvent,
    GroupState,
    RebalanceCompleted,
    Trigger,
)
from slackwater.group.rebalance_counter import RECENT_MS, RebalanceCounter, RebalanceKind, is_failure
from slackwater.group.topic_partition import TopicPartition

OTHER: Final = "other"


@dataclass(slots=True)
class GroupFigures:
    """The figures of one group, or the sum of several; None means unknown or not applicable."""

    name: str
    state: GroupState | None = None
    members: int = 0
    idle_members: int = 0
    rebalances: dict[RebalanceKind, int] = field(default_factory=lambda: dict.fromkeys(RebalanceKind, 0))
    triggers: dict[Trigger, int] = field(default_factory=dict)
    failed_rebalances: int = 0
    last_rebalance_s: float | None = None
    longest_rebalance_s: float | None = None
    since_last_rebalance_s: float | None = None
    lag: int | None = None
    committed: int | None = None
    """The sum of the committed offsets: it is constant while the group makes no progress."""

    def add(self, other: "GroupFigures") -> None:
        """Add the counts of another group."""
        self.members += other.members
        self.idle_members += other.idle_members
        for kind, count in other.rebalances.items():
            self.rebalances[kind] += count
        for trigger, count in other.triggers.items():
            self.triggers[trigger] = self.triggers.get(trigger, 0) + count
        self.failed_rebalances += other.failed_rebalances


class _GroupRebalances:
    """The rebalances of one group, from its events."""

    __slots__ = ("_longest", "counter", "counts", "failed", "last_ended_ms", "last_ms", "started_ms", "triggers")

    def __init__(self) -> None:
        self.counter = RebalanceCounter()
        self.counts = dict.fromkeys(RebalanceKind, 0)
        self.triggers: dict[Trigger, int] = {}
        self.failed = 0
        self.started_ms: int | None = None  # of the rebalance in progress
        self.last_ended_ms: int | None = None
        self.last_ms: int | None = None  # the duration of the last completed rebalance
        # End and duration of recent rebalances, each shorter than the one before it: the first is the longest.
        self._longest: deque[tuple[int, int]] = deque()

    def apply_event(self, event: GroupEvent) -> None:
        """Apply an event of this group."""
        if (rebalance := self.counter.apply_event(event)) is not None:
            self.counts[rebalance] += 1
        match event.kind:
            case EventKind.REBALANCE_STARTED if event.trigger is not None:
                self.triggers[event.trigger] = self.triggers.get(event.trigger, 0) + 1
                self.started_ms = event.time_ms
            case EventKind.REBALANCE_COMPLETED if isinstance(event.detail, RebalanceCompleted):
                self._complete(event.time_ms, event.detail.duration_ms)
            case EventKind.GROUP_EMPTIED:
                self.started_ms = None
            case _:
                self.failed += is_failure(event)

    def _complete(self, time_ms: int, duration_ms: int) -> None:
        self.started_ms = None
        self.last_ended_ms, self.last_ms = time_ms, duration_ms
        while self._longest and self._longest[-1][1] <= duration_ms:
            self._longest.pop()
        self._longest.append((time_ms, duration_ms))

    def longest_ms(self, now_ms: int) -> int | None:
        """Return the longest duration of the last ten minutes, including the rebalance in progress."""
        while self._longest and self._longest[0][0] <= now_ms - RECENT_MS:
            self._longest.popleft()
        durations = [self._longest[0][1]] if self._longest else []
        if self.started_ms is not None:
            durations.append(now_ms - self.started_ms)
        return max(durations, default=0 if self.last_ms is not None else None)


@dataclass(frozen=True, slots=True)
class _AssignedPartitions:
    """The partitions of a generation's members, and how many members have none."""

    generation_id: int
    partitions: frozenset[TopicPartition]
    idle_members: int


class GroupMetrics:
    """The figures of a broker's groups; subscribe `apply_event` to the group events."""

    def __init__(
        self,
        groups: Mapping[str, ClassicGroup],
        *,
        now_ms: Callable[[], int],
        end_offset: Callable[[TopicPartition], int | None],
    ) -> None:
        self._groups = groups
        self._now_ms = now_ms
        self._end_offset = end_offset
        self._rebalances: dict[str, _GroupRebalances] = {}
        self._assigned: dict[str, _AssignedPartitions] = {}
        self._listed: set[str] = set()  # groups with figures of their own
        self._summed: set[str] = set()  # groups that are part of the sum
        self._ended = GroupFigures(OTHER)  # counts of groups that no longer exist, and of joins to unknown groups

    def apply_event(self, event: GroupEvent) -> None:
        """Count a group event."""
        rebalances = self._rebalances.get(event.group)
        if event.kind is EventKind.GROUP_DELETED:
            self._assigned.pop(event.group, None)
            if rebalances is not None:
                del self._rebalances[event.group]
                self._ended.add(_counts(event.group, rebalances))
            return
        if rebalances is None:
            if event.group not in self._groups:
                self._ended.failed_rebalances += is_failure(event)
                return
            rebalances = self._rebalances[event.group] = _GroupRebalances()
        rebalances.apply_event(event)

    def read(self, max_groups: int) -> Iterator[GroupFigures]:
        """Yield the figures of the first groups, then the sum of the others."""
        self._list_groups(max_groups)
        now_ms = self._now_ms()
        other = GroupFigures(OTHER)
        other.add(self._ended)
        for name, group in self._groups.items():
            rebalances = self._rebalances.get(name) or _GroupRebalances()
            figures = _counts(name, rebalances)
            figures.members = len(group.members)
            if name not in self._listed:
                other.add(figures)  # without lag and idle members, which take time to compute
                continue
            figures.state = group.state
            self._add_progress(figures, group)
            figures.last_rebalance_s = _seconds(rebalances.last_ms)
            figures.longest_rebalance_s = _seconds(rebalances.longest_ms(now_ms))
            if rebalances.last_ended_ms is not None:
                figures.since_last_rebalance_s = _seconds(now_ms - rebalances.last_ended_ms)
            yield figures
        yield other

    def _list_groups(self, max_groups: int) -> None:
        """Decide which groups have figures of their own."""
        self._listed &= self._groups.keys()
        self._summed &= self._groups.keys()
        for name in self._groups:
            if name in self._listed or name in self._summed:
                continue
            (self._listed if len(self._listed) < max_groups and name != OTHER else self._summed).add(name)

    def _add_progress(self, figures: GroupFigures, group: ClassicGroup) -> None:
        """Add idle members, lag and committed offsets."""
        partitions: frozenset[TopicPartition] = frozenset()
        if group.state is STABLE and group.is_consumer:
            assigned = self._assigned_partitions(group)
            figures.idle_members, partitions = assigned.idle_members, assigned.partitions
        for partition, offset in group.offsets.items():
            if partitions and partition not in partitions:
                continue  # left over from an earlier subscription
            end_offset = self._end_offset(partition)
            if end_offset is not None:
                figures.lag = (figures.lag or 0) + max(end_offset - offset.offset, 0)
                figures.committed = (figures.committed or 0) + offset.offset

    def _assigned_partitions(self, group: ClassicGroup) -> _AssignedPartitions:
        known = self._assigned.get(group.group_id)
        if known is None or known.generation_id != group.generation_id:
            known = self._assigned[group.group_id] = _decode_assignments(group)
        return known


def _counts(name: str, rebalances: _GroupRebalances) -> GroupFigures:
    return GroupFigures(
        name,
        rebalances=dict(rebalances.counts),
        triggers=dict(rebalances.triggers),
        failed_rebalances=rebalances.failed,
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _decode_assignments(group: ClassicGroup) -> _AssignedPartitions:
    # The decoder uses numpy, which loads more slowly than the broker starts.
    from slackwater.group.assignors.consumer_protocol import MalformedMetadata, decode_assignment

    partitions: set[TopicPartition] = set()
    idle_members = 0
    for member in group.members.values():
        try:
            assigned = decode_assignment(member.assignment).partitions if member.assignment else ()
        except MalformedMetadata:
            continue
        partitions.update(assigned)
        idle_members += not assigned
    return _AssignedPartitions(group.generation_id, frozenset(partitions), idle_members)
