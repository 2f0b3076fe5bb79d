"""What the demo knows of its groups: their state as it is now, and everything that has happened to them.

Rules kept here
- It comes from the broker's group events and from its coordinator, and from nowhere else.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from slackwater.broker.embedded import EmbeddedBroker, GroupDescription
from slackwater.cli.demo.ownership import Ownership
from slackwater.cli.printing import count
from slackwater.group.events import EventKind, GroupEvent, RebalanceStarted, Trigger

DEADLINE_S: Final = 20.0
LOOK_S: Final = 0.05
COOPERATIVE: Final = "cooperative-sticky"
_TOLD: Final = frozenset(
    {
        EventKind.MEMBER_JOINED,
        EventKind.MEMBER_REPLACED,
        EventKind.MEMBER_LEFT,
        EventKind.MEMBER_EXPIRED,
        EventKind.MEMBER_DROPPED,
        EventKind.REBALANCE_STARTED,
        EventKind.REBALANCE_COMPLETED,
        EventKind.GROUP_EMPTIED,
    }
)

_BACK: Final = frozenset({EventKind.MEMBER_JOINED, EventKind.MEMBER_REPLACED})
_WHY: Final = {
    Trigger.MEMBER_JOIN: "{who} wants to join",
    Trigger.MEMBER_LEAVE: "{who} leaves",
    Trigger.POLL_TIMEOUT: "{who} was too slow, and leaves",
    Trigger.SESSION_TIMEOUT: "{who} was not heard of",
    Trigger.LEADER_REJOIN: "{who} let go of what another is to have",
    Trigger.COOPERATIVE_FOLLOWUP: "{who} let go of what another is to have",
}


class NotSeen(Exception):
    """Something the story waits for did not happen."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member as it is shown."""

    name: str
    instance: str | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group as it is shown."""

    group_id: str
    state: str
    generation: int
    assignor: str
    members: tuple[Member, ...]


class Watch:
    """The groups of one broker."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self._changed = threading.Condition()
        self.events: list[GroupEvent] = []
        self.generations: dict[str, int] = {}
        self.ownership: dict[str, Ownership] = {}
        self._shown: dict[str, Group] = {}
        self._over = threading.Event()
        self._looker: threading.Thread | None = None
        broker.subscribe(self._hear)

    def _hear(self, event: GroupEvent) -> None:
        with self._changed:
            self.events.append(event)
            if event.generation is not None and event.kind is EventKind.GENERATION_FORMED:
                self.generations[event.group] = event.generation
            if event.kind in _BACK and event.group in self.ownership:
                self.ownership[event.group].away.discard(event.client or "")
            self._changed.notify_all()

    @property
    def told(self) -> list[GroupEvent]:
        """The events that are worth showing."""
        return [event for event in self.events if event.kind in _TOLD]

    def rebalances(self, since: int = 0, group_id: str | None = None) -> list[GroupEvent]:
        """The rebalances that have started, from this event on; of one group, or of all."""
        return [
            event
            for event in self.events[since:]
            if event.kind is EventKind.REBALANCE_STARTED and group_id in (None, event.group)
        ]

    def group(self, group_id: str) -> Group:
        """One group, as it is now; in a cooperative one, members keep what they have while it rebalances."""
        group = _shown(self._broker.describe_group(group_id), self.generations.get(group_id, 0))
        last = self._shown.get(group_id)
        if group.state == "Stable":
            self._shown[group_id] = group
        elif last is not None and last.assignor == COOPERATIVE:
            had = {member.name: member.partitions for member in last.members}
            members = tuple(replace(one, partitions=had.get(one.name, ())) for one in group.members)
            return replace(group, assignor=last.assignor, members=members)
        return group

    def lag(self, group_id: str, written: int) -> int:
        """How many of the records that were written the group has not committed."""
        return max(written - sum(self._broker.committed(group_id).values()), 0)

    def measure(self, group_id: str) -> None:
        """From now on, measure how long this group's partitions are without an owner."""
        self.ownership[group_id] = Ownership()
        if self._looker is None:
            self._looker = threading.Thread(target=self._look, daemon=True)
            self._looker.start()

    def measured(self, group_id: str) -> Ownership:
        """What was measured, which ends here."""
        ownership = self.ownership.pop(group_id)
        ownership.close(time.monotonic())
        return ownership

    def gone(self, name: str) -> None:
        """This member was stopped or killed; it is back when it joins again."""
        for ownership in list(self.ownership.values()):
            ownership.away.add(name)

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        if self._looker is not None:
            self._looker.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            for group_id, ownership in list(self.ownership.items()):
                group = self._broker.describe_group(group_id)
                owners = {part.partition: one.client_id for one in group.members for part in one.partitions}
                members = {one.client_id for one in group.members}
                ownership.see(time.monotonic(), owners if group.state == "Stable" else None, members)

    def until(self, what: str, condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Wait until something holds; it is looked at whenever an event is told."""
        deadline = time.monotonic() + deadline_s
        while not condition():
            if (left := deadline - time.monotonic()) <= 0:
                raise NotSeen(f"{what} was not seen within {deadline_s:.0f} s")
            with self._changed:
                self._changed.wait(min(left, 0.1))

    def is_settled(self, group_id: str, members: int, since: int = 0) -> bool:
        """Whether, after a change since this event, the group has so many members, and every one has partitions."""
        group = self.group(group_id)
        done = any(
            event.kind in (EventKind.REBALANCE_COMPLETED, EventKind.MEMBER_REPLACED) and event.group == group_id
            for event in self.events[since:]
        )
        return done and group.state == "Stable" and sum(bool(one.partitions) for one in group.members) == members

    def until_stable(self, group_id: str, members: int, since: int = 0) -> None:
        """Wait until a group of this size is stable, and everybody in it has partitions."""
        try:
            self.until(
                f"group {group_id} with {members} working members", lambda: self.is_settled(group_id, members, since)
            )
        except NotSeen as missed:
            raise NotSeen(f"{missed}; it is {_described(self.group(group_id))}") from None


def _described(group: Group) -> str:
    """A group in a few words."""
    members = "; ".join(f"{one.name} with {count(len(one.partitions), 'partition')}" for one in group.members)
    return f"{group.state} in generation {group.generation}, {members or 'without members'}"


def _shown(group: GroupDescription, generation: int) -> Group:
    members = [
        Member(one.client_id, one.group_instance_id, tuple(sorted(owned.partition for owned in one.partitions)))
        for one in sorted(group.members, key=lambda one: one.client_id)
    ]
    return Group(group.group_id, group.state, generation, group.assignor, tuple(members))


def said(event: GroupEvent) -> str:
    """An event in a few words."""
    who = event.client or _name(event.member)
    match event.kind, event.detail:
        case EventKind.REBALANCE_STARTED, RebalanceStarted() as started:
            why = _WHY.get(event.trigger, "{who}") if event.trigger is not None else "{who}"
            return f"generation {started.old_generation} ends: " + why.format(who=_name(started.culprit))
        case EventKind.REBALANCE_COMPLETED, _:
            return f"generation {event.generation} is stable, {count(event.members or 0, 'member')}"
        case EventKind.MEMBER_JOINED, _:
            return f"{who} joins"
        case EventKind.MEMBER_REPLACED, _:
            return f"{who} is back as {event.instance}, and keeps its partitions"
        case EventKind.MEMBER_LEFT, _:
            return f"{who} leaves"
        case EventKind.MEMBER_EXPIRED, _:
            return f"{who} was not heard of for its session, and is out"
        case EventKind.MEMBER_DROPPED, _:
            return f"{who} did not come back for the rebalance, and is out"
        case _:
            return event.kind.value.replace("_", " ")


def _name(member_id: str | None) -> str:
    """The client that a member id was made for: what stands before its uuid."""
    return (member_id or "somebody").rsplit("-", 5)[0]
