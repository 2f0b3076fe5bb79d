"""Counts the rebalances of a group: its start, changes, and follow-ups of cooperative rebalances.

The alerts and the broker's metrics share these definitions.

Invariants:
- Every generation counts once. Generations arrive in their order; a smaller number at a later time means that the group
  was deleted and created again.
- A start is the first generation of an empty group and the generations that follow it within the initial delay, as long
  as no member leaves: recurring rebalances can be as fast as a start.
- A follow-up is a rebalance that completes a cooperative rebalance. A change is every other rebalance.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slackwater.group.events import EventKind, GroupEvent, JoinRefused, RebalanceFailed, Trigger

INITIAL_DELAY_MS: Final = 3_000
"""Kafka's default of group.initial.rebalance.delay.ms: members that join within this time belong to one start."""
FOLLOW_UP_MS: Final = 5_000
"""A member learns of the follow-up with its next heartbeat (3 s by default) and then joins it."""
NO_FAILURE: Final = frozenset({"MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS"})
"""Errors of a join that are no failed rebalance: every dynamic member gets the first one once (KIP-394)."""
RECENT_MS: Final = 600_000
"""How long a failed or slow rebalance is reported, so that an alert on it ends."""
_FIRST_GENERATION: Final = 1
_FIRST_EPOCHS: Final = 2
"""A KIP-848 group starts with one epoch for its first member and one when its topics are known."""
_MAX_START_MS: Final = 30_000
"""For a group whose members are unknown."""


class RebalanceKind(StrEnum):
    """What a rebalance is to its group."""

    START = "start"
    CHANGE = "change"
    FOLLOW_UP = "follow_up"


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


def is_failure(event: GroupEvent) -> bool:
    """Whether the event is a failed rebalance or a rejected join."""
    return isinstance(event.detail, RebalanceFailed | JoinRefused) and event.detail.error not in NO_FAILURE


class RebalanceCounter:
    """Classifies the generations of one group."""

    __slots__ = ("_is_follow_up", "_last_start_generation_ms", "_start_began_ms", "is_empty", "last", "last_number")

    def __init__(self) -> None:
        self.last: ObservedGeneration | None = None  # the last generation with members
        self.last_number: int | None = None  # of any generation
        self.is_empty = False  # the next generation is a start
        self._is_follow_up = False  # the rebalance in progress completes a cooperative rebalance
        self._last_start_generation_ms: int | None = None  # of the group's start; None if the start is over
        self._start_began_ms = 0

    def group_emptied(self) -> None:
        """Note that the group has no members: the next generation is a start."""
        self.is_empty = True

    def set_baseline(self, generation: ObservedGeneration) -> None:
        """Take a generation as known without counting it."""
        self.last, self.last_number = generation, generation.number

    def apply_event(self, event: GroupEvent) -> RebalanceKind | None:
        """Apply an event of the coordinator; return the kind of rebalance if the event forms a generation."""
        match event.kind:
            case EventKind.GROUP_CREATED | EventKind.GROUP_EMPTIED | EventKind.GROUP_DELETED:
                self.group_emptied()
            case EventKind.REBALANCE_STARTED:
                self._is_follow_up = event.trigger is Trigger.COOPERATIVE_FOLLOWUP
            case EventKind.GENERATION_FORMED if event.generation is not None:
                return self.add(ObservedGeneration(event.group, event.time_ms, event.generation, size=event.members))
        return None

    def add(self, generation: ObservedGeneration) -> RebalanceKind | None:
        """Return what this generation is; None if it is already counted or if it has no members."""
        last = self.last
        if self.last_number is not None and generation.number <= self.last_number:
            if generation.number == self.last_number or last is None or generation.time_ms <= last.time_ms:
                return None
            self.is_empty = True  # the group was deleted and created again
        self.last_number = generation.number
        if generation.members is not None and not generation.members:
            self.is_empty = True
            return None
        is_start = self._is_part_of_start(generation)
        if is_start:
            kind = RebalanceKind.START
        elif self._is_follow_up or self._looks_like_follow_up(generation):
            kind = RebalanceKind.FOLLOW_UP
        else:
            kind = RebalanceKind.CHANGE
        if is_start and self._last_start_generation_ms is None:
            self._start_began_ms = generation.time_ms
        self._last_start_generation_ms = generation.time_ms if is_start else None
        self.is_empty, self._is_follow_up, self.last = False, False, generation
        return kind

    def _is_part_of_start(self, generation: ObservedGeneration) -> bool:
        """Return whether it belongs to the group's start.

        The start is over when a generation lasted for the initial delay or when a member left.
        """
        last = self.last
        if self.is_empty or generation.number <= (_FIRST_EPOCHS if generation.is_epoch else _FIRST_GENERATION):
            return True
        if (
            last is None
            or self._last_start_generation_ms is None
            or generation.time_ms - self._last_start_generation_ms > INITIAL_DELAY_MS
        ):
            return False
        if generation.members is not None and last.members is not None:
            return last.members <= generation.members
        if generation.size is not None and last.size is not None:
            return last.size <= generation.size
        return generation.time_ms - self._start_began_ms <= _MAX_START_MS

    def _looks_like_follow_up(self, generation: ObservedGeneration) -> bool:
        last = self.last
        return (
            last is not None
            and generation.cooperative
            and generation.members is not None
            and generation.members == last.members
            and generation.time_ms - last.time_ms <= FOLLOW_UP_MS
        )
