"""From a group's events to its rebalances, from those to changes, from those to episodes.

Rules kept here
- One rebalance per generation that was formed: from the line that started it to the one that ended it.
- A cooperative change takes a second round, in which what was revoked in the first is given away: the rounds that
  follow a change at once, while nobody comes or goes, are told as part of it.
- Rebalances that follow each other within a default poll interval (five minutes) are one episode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from slackwater.doctor.defaults import MAX_POLL_INTERVAL_MS
from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import BROKER_SIDE, Row
from slackwater.doctor.events.serialization import travelling
from slackwater.doctor.timeline.client_timeline import NEAR_MS
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind, Trigger

EPISODE_GAP_MS: Final = MAX_POLL_INTERVAL_MS
"""A member that is put out at every poll comes back within it."""
_STARTED: Final = EventKind.REBALANCE_STARTED
_FORMED: Final = EventKind.GENERATION_FORMED
_LOADED: Final = EventKind.GROUP_LOADED
ROUNDS: Final = (_STARTED, _FORMED, EventKind.GROUP_EMPTIED, EventKind.GROUP_UNLOADED, _LOADED)
"""What tells that a round began, or that none is under way any more."""
_FOLLOW_UP: Final = Trigger.COOPERATIVE_FOLLOWUP
_UNKNOWN: Final = Trigger.UNKNOWN
STORM: Final = 3
"""Fewer rebalances in a row are no storm, whatever caused them."""


class Protocol(StrEnum):
    """How a group hands its partitions over."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    INCREMENTAL = "incremental"
    """KIP-848: member by member, with no barrier."""


class EpisodeKind(StrEnum):
    """What a row of rebalances is."""

    START = "start"
    STORM = "storm"
    DEPLOY = "deploy"
    FLAPPING = "flapping"
    ISOLATED = "isolated"


class Rebalance(NamedTuple):
    """One generation, and how it came about."""

    generation: int
    began_ms: int
    ended_ms: int
    trigger: str | None
    culprit: str | None
    protocol: str | None
    members_before: int | None
    members_after: int | None
    completed: bool
    """Its assignment was handed out; a round that was overtaken by the next one was not."""
    follow_up: bool
    evidence: str | None

    @property
    def duration_ms(self) -> int:
        """From the start of the round to its assignment."""
        return self.ended_ms - self.began_ms


@travelling
@dataclass(frozen=True, slots=True)
class Episode:
    """Rebalances that belong together in time."""

    kind: str
    began_ms: int
    ended_ms: int
    rebalances: int
    changes: int
    stopped_ms: int
    """For how long rounds were under way: in an eager group nobody works meanwhile."""
    triggers: tuple[tuple[str, int], ...]


def rebalances(history: GroupHistory) -> list[Rebalance]:
    """One row per generation, in order."""
    starts, ends = _starts(history), _ends(history)
    names = {term.member: term.name for term in history.terms}
    protocol, has_broker = _protocol(history), history.has_broker
    found: list[Rebalance] = []
    before: int | None = None
    last: Rebalance | None = None
    for number, formed_ms, members, row in history.generations:
        start, end = starts.get(number), ends.get(number)
        last = Rebalance(
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
        found.append(last)
        before = members
    return found


def episodes(found: Sequence[Rebalance], cause: str, recurring: bool, settled_ms: int) -> list[Episode]:
    """Rebalances that follow each other, told together."""
    rows: list[list[Rebalance]] = []
    for one in found:
        if rows and one.began_ms - rows[-1][-1].ended_ms <= EPISODE_GAP_MS:
            rows[-1].append(one)
        else:
            rows.append([one])
    return [_episode(row, cause, recurring, settled_ms) for row in rows]


def _episode(row: Sequence[Rebalance], cause: str, recurring: bool, settled_ms: int) -> Episode:
    triggers: dict[str, int] = {}
    changes = stopped_ms = 0
    for one in row:
        trigger = one.trigger
        if trigger is not None:
            triggers[trigger] = triggers.get(trigger, 0) + 1
        changes += not one.follow_up
        stopped_ms += one.ended_ms - one.began_ms
    return Episode(
        _kind(row, cause, recurring, settled_ms),
        row[0].began_ms,
        row[-1].ended_ms,
        len(row),
        changes,
        stopped_ms,
        tuple(sorted(triggers.items(), key=lambda item: -item[1])),
    )


def _kind(row: Sequence[Rebalance], cause: str, recurring: bool, settled_ms: int) -> EpisodeKind:
    if row[-1].ended_ms <= settled_ms + NEAR_MS:
        return EpisodeKind.START
    if cause == "autoscaler_flapping":
        return EpisodeKind.FLAPPING
    if recurring and len(row) >= STORM:
        return EpisodeKind.STORM
    if cause.endswith("rolling_restart") or cause.startswith("static_restart") or cause == "assignor_migration":
        return EpisodeKind.DEPLOY
    return EpisodeKind.ISOLATED


def _starts(history: GroupHistory) -> dict[int, Row]:
    """The line that started each generation's round: the first since the generation before."""
    found: dict[int, Row] = {}
    pending: Row | None = None
    for row in history.of(*ROUNDS):
        kind = row.kind
        if kind == _LOADED or row.source not in BROKER_SIDE:
            continue
        if kind == _STARTED:
            pending = pending or row
        elif kind != _FORMED:
            pending = None
        elif row.generation is not None:
            if pending is not None:
                found[row.generation] = pending
            pending = None
    return found


def _ends(history: GroupHistory) -> dict[int, Row]:
    found: dict[int, Row] = {}
    for row in history.of(EventKind.REBALANCE_COMPLETED):
        generation = row.generation
        if generation is not None and row.source in BROKER_SIDE:
            found.setdefault(generation, row)
    return found


def _is_follow_up(last: Rebalance, start: Row, as_many: bool) -> bool:
    trigger = start.trigger
    if trigger == _FOLLOW_UP:
        return True
    same = as_many and last.members_after is not None
    return same and trigger == _UNKNOWN and start.time_ms - last.ended_ms <= NEAR_MS


def _culprit(names: Mapping[str, str], start: Row) -> str | None:
    for member in signals.members_named(start):
        if member in names:
            return names[member]
    return None


def _protocol(history: GroupHistory) -> str | None:
    if history.is_consumer_protocol:
        return Protocol.INCREMENTAL
    named = {name.lower() for names in history.assignors.values() for name in names}
    if Trigger.COOPERATIVE_FOLLOWUP in history.triggers or any("cooperative" in name for name in named):
        return Protocol.COOPERATIVE
    return Protocol.EAGER if named else None
