"""Rebalances of a group, and the episodes that they form.

Invariants:
- There is one rebalance per generation, from the row that started it to the row that completed it.
- A cooperative change takes a second rebalance in which revoked partitions are assigned. Rebalances that follow a
  change at once without a change of members are follow-ups of it.
- Rebalances within five minutes (the default max.poll.interval.ms) of each other form one episode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from slackwater.doctor.defaults import MAX_POLL_INTERVAL_MS
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import BROKER_SIDE, Row
from slackwater.doctor.events.serialization import pickle_by_fields
from slackwater.doctor.timeline.client_timeline import NEAR_MS
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind, Trigger

EPISODE_GAP_MS: Final = MAX_POLL_INTERVAL_MS
"""A member that exceeds it at every poll rejoins within it."""
_STARTED: Final = EventKind.REBALANCE_STARTED
_FORMED: Final = EventKind.GENERATION_FORMED
_LOADED: Final = EventKind.GROUP_LOADED
START_AND_END_KINDS: Final = (_STARTED, _FORMED, EventKind.GROUP_EMPTIED, EventKind.GROUP_UNLOADED, _LOADED)
"""Kinds that start a rebalance or end all rebalances in progress."""
_FOLLOW_UP: Final = Trigger.COOPERATIVE_FOLLOWUP
_UNKNOWN: Final = Trigger.UNKNOWN
MIN_STORM_REBALANCES: Final = 3
"""An episode of recurring rebalances is a storm if it has at least this number."""


class RebalanceMode(StrEnum):
    """How partitions move between members."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    INCREMENTAL = "incremental"
    """KIP-848: member by member, without a barrier."""


class EpisodeKind(StrEnum):
    """The kind of an episode."""

    START = "start"
    STORM = "storm"
    DEPLOY = "deploy"
    FLAPPING = "flapping"
    ISOLATED = "isolated"


class RecordedRebalance(NamedTuple):
    """One rebalance: a generation and its trigger."""

    generation: int
    began_ms: int
    ended_ms: int
    trigger: str | None
    culprit: str | None
    protocol: str | None
    members_before: int | None
    members_after: int | None
    completed: bool
    """The assignment was distributed; false if the next rebalance started before."""
    follow_up: bool
    evidence: str | None

    @property
    def duration_ms(self) -> int:
        """Time from the start to the assignment."""
        return self.ended_ms - self.began_ms


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Episode:
    """Rebalances that follow each other closely."""

    kind: str
    began_ms: int
    ended_ms: int
    rebalances: int
    changes: int
    stopped_ms: int
    """Total duration of the rebalances; in an eager group all members stop during them."""
    triggers: tuple[tuple[str, int], ...]


def find_rebalances(history: GroupHistory) -> list[RecordedRebalance]:
    """Return one rebalance per generation, in order."""
    starts, ends = _starts(history), _ends(history)
    names = {interval.member: interval.name for interval in history.intervals}
    protocol, has_broker = rebalance_mode(history), history.has_broker
    rebalances: list[RecordedRebalance] = []
    before: int | None = None
    last: RecordedRebalance | None = None
    for number, formed_ms, members, row in history.generations:
        start, end = starts.get(number), ends.get(number)
        last = RecordedRebalance(
            number,
            formed_ms if start is None else start.time_ms,
            formed_ms if end is None or end.time_ms < formed_ms else end.time_ms,
            None if start is None else start.trigger,
            None if start is None else _culprit(names, start),
            protocol,
            before,
            members,
            end is not None or not has_broker,
            start is not None and last is not None and _is_follow_up(last, start, before == members),
            (row if start is None else start).where,
        )
        rebalances.append(last)
        before = members
    return rebalances


def episodes(
    rebalances: Sequence[RecordedRebalance], cause: str, recurring: bool, start_ended_ms: int
) -> list[Episode]:
    """Combine rebalances that follow each other closely."""
    runs: list[list[RecordedRebalance]] = []
    for rebalance in rebalances:
        if runs and rebalance.began_ms - runs[-1][-1].ended_ms <= EPISODE_GAP_MS:
            runs[-1].append(rebalance)
        else:
            runs.append([rebalance])
    return [_episode(run, cause, recurring, start_ended_ms) for run in runs]


def _episode(run: Sequence[RecordedRebalance], cause: str, recurring: bool, start_ended_ms: int) -> Episode:
    triggers: dict[str, int] = {}
    changes = stopped_ms = 0
    for rebalance in run:
        trigger = rebalance.trigger
        if trigger is not None:
            triggers[trigger] = triggers.get(trigger, 0) + 1
        changes += not rebalance.follow_up
        stopped_ms += rebalance.ended_ms - rebalance.began_ms
    return Episode(
        _kind(run, cause, recurring, start_ended_ms),
        run[0].began_ms,
        run[-1].ended_ms,
        len(run),
        changes,
        stopped_ms,
        tuple(sorted(triggers.items(), key=lambda item: -item[1])),
    )


def _kind(run: Sequence[RecordedRebalance], cause: str, recurring: bool, start_ended_ms: int) -> EpisodeKind:
    if run[-1].ended_ms <= start_ended_ms + NEAR_MS:
        return EpisodeKind.START
    if cause == "autoscaler_flapping":
        return EpisodeKind.FLAPPING
    if recurring and len(run) >= MIN_STORM_REBALANCES:
        return EpisodeKind.STORM
    if cause.endswith("rolling_restart") or cause.startswith("static_restart") or cause == "assignor_migration":
        return EpisodeKind.DEPLOY
    return EpisodeKind.ISOLATED


def _starts(history: GroupHistory) -> dict[int, Row]:
    """Return the row that started each rebalance: the first since the previous generation."""
    starts: dict[int, Row] = {}
    pending: Row | None = None
    for row in history.rows_of(*START_AND_END_KINDS):
        kind = row.kind
        if kind == _LOADED or row.source not in BROKER_SIDE:
            continue
        if kind == _STARTED:
            pending = pending or row
        elif kind != _FORMED:
            pending = None
        elif row.generation is not None:
            if pending is not None:
                starts[row.generation] = pending
            pending = None
    return starts


def _ends(history: GroupHistory) -> dict[int, Row]:
    ends: dict[int, Row] = {}
    for row in history.rows_of(EventKind.REBALANCE_COMPLETED):
        generation = row.generation
        if generation is not None and row.source in BROKER_SIDE:
            ends.setdefault(generation, row)
    return ends


def _is_follow_up(last: RecordedRebalance, start: Row, same_size: bool) -> bool:
    trigger = start.trigger
    if trigger == _FOLLOW_UP:
        return True
    same = same_size and last.members_after is not None
    return same and trigger == _UNKNOWN and start.time_ms - last.ended_ms <= NEAR_MS


def _culprit(names: Mapping[str, str], start: Row) -> str | None:
    for member in row_predicates.members_named(start):
        if member in names:
            return names[member]
    return None


def rebalance_mode(history: GroupHistory) -> RebalanceMode | None:
    """Return how partitions move; None if the input does not show the assignor."""
    if history.is_consumer_protocol:
        return RebalanceMode.INCREMENTAL
    named = {name.lower() for names in history.assignors.values() for name in names}
    if Trigger.COOPERATIVE_FOLLOWUP in history.triggers or any("cooperative" in name for name in named):
        return RebalanceMode.COOPERATIVE
    if named:
        return RebalanceMode.EAGER
    offered = {name for timeline in history.timelines.values() for _, names in timeline.assignors for name in names}
    return RebalanceMode.COOPERATIVE if offered == {"cooperative-sticky"} else None
