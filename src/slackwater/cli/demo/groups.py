"""The demo's view of its groups: their state and their events.

Everything comes from the broker's group events and its coordinator.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from slackwater.broker.embedded import EmbeddedBroker, GroupSnapshot
from slackwater.cli.printing import count
from slackwater.group.events import EventKind, GroupEvent, RebalanceStarted, Trigger

CHECK_S: Final = 0.1
COOPERATIVE: Final = "cooperative-sticky"
_SHOWN_KINDS: Final = frozenset(
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
_REASONS: Final = {
    Trigger.MEMBER_JOIN: "{member} joins",
    Trigger.MEMBER_LEAVE: "{member} leaves",
    Trigger.POLL_TIMEOUT: "{member} exceeded max.poll.interval.ms",
    Trigger.SESSION_TIMEOUT: "{member} exceeded session.timeout.ms",
    Trigger.LEADER_REJOIN: "{member} revoked partitions",
    Trigger.COOPERATIVE_FOLLOWUP: "{member} revoked partitions",
}


@dataclass(frozen=True, slots=True)
class ShownMember:
    """A member as the screen shows it."""

    name: str
    instance: str | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """A group as the screen shows it."""

    group_id: str
    state: str
    generation: int
    assignor: str
    members: tuple[ShownMember, ...]

    def owned(self) -> dict[str, set[int]]:
        """The partitions of each member."""
        return {member.name: set(member.partitions) for member in self.members}


class GroupMonitor:
    """The groups of one broker."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self._changed = threading.Condition()
        self._last_stable: dict[str, ShownGroup] = {}
        self.events: list[GroupEvent] = []
        self.generations: dict[str, int] = {}
        broker.subscribe(self._on_event)

    def _on_event(self, event: GroupEvent) -> None:
        with self._changed:
            self.events.append(event)
            if event.kind is EventKind.GENERATION_FORMED and event.generation is not None:
                self.generations[event.group] = event.generation
            self._changed.notify_all()

    def shown_events(self) -> list[GroupEvent]:
        """The events that the screen shows."""
        return [event for event in self.events if event.kind in _SHOWN_KINDS]

    def events_of(self, group_id: str, *kinds: EventKind, since: int = 0) -> list[GroupEvent]:
        """The group's events of these kinds, from this index on."""
        return [event for event in self.events[since:] if event.group == group_id and event.kind in kinds]

    def rebalances(self, group_id: str, since: int = 0) -> list[GroupEvent]:
        """The group's started rebalances, from this event index on."""
        return self.events_of(group_id, EventKind.REBALANCE_STARTED, since=since)

    def group(self, group_id: str) -> ShownGroup:
        """The group now; members of a cooperative group keep their partitions while it rebalances."""
        group = _shown(self._broker.describe_group(group_id), self.generations.get(group_id, 0))
        last = self._last_stable.get(group_id)
        if group.state == "Stable":
            self._last_stable[group_id] = group
        elif last is not None and last.assignor == COOPERATIVE:
            owned = {member.name: member.partitions for member in last.members}
            members = tuple(replace(member, partitions=owned.get(member.name, ())) for member in group.members)
            return replace(group, assignor=last.assignor, members=members)
        return group

    def lag(self, group_id: str, produced: int) -> int:
        """The number of produced records that the group has not committed."""
        return max(produced - sum(self._broker.committed(group_id).values()), 0)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, however long that takes."""
        while not condition():
            with self._changed:
                self._changed.wait(CHECK_S)

    def pause(self, seconds: float) -> None:
        """Let a person read the screen."""
        deadline = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() >= deadline)

    def is_settled(self, group_id: str, members: int, since: int = 0) -> bool:
        """Whether, after a change since this event index, the group is stable and this many members have partitions."""
        if not self.events_of(group_id, EventKind.REBALANCE_COMPLETED, EventKind.MEMBER_REPLACED, since=since):
            return False
        group = self.group(group_id)
        return group.state == "Stable" and sum(bool(member.partitions) for member in group.members) == members


def _shown(group: GroupSnapshot, generation: int) -> ShownGroup:
    members = [
        ShownMember(
            member.client_id, member.group_instance_id, tuple(sorted(part.partition for part in member.partitions))
        )
        for member in sorted(group.members, key=lambda member: member.client_id)
    ]
    return ShownGroup(group.group_id, group.state, generation, group.assignor, tuple(members))


def describe_event(event: GroupEvent) -> str:
    """An event in a few words."""
    member = event.client or _client_of(event.member)
    match event.kind, event.detail:
        case EventKind.REBALANCE_STARTED, RebalanceStarted() as started:
            reason = _REASONS.get(event.trigger, "{member}") if event.trigger is not None else "{member}"
            return "rebalance: " + reason.format(member=_client_of(started.culprit))
        case EventKind.REBALANCE_COMPLETED, _:
            return f"generation {event.generation} is stable, {count(event.members or 0, 'member')}"
        case EventKind.MEMBER_JOINED, _:
            return f"{member} joined"
        case EventKind.MEMBER_REPLACED, _:
            return f"{member} is back as {event.instance} and keeps its partitions"
        case EventKind.MEMBER_LEFT, _:
            return f"{member} left"
        case EventKind.MEMBER_EXPIRED, _:
            return f"{member} removed: no heartbeat within session.timeout.ms"
        case EventKind.MEMBER_DROPPED, _:
            return f"{member} removed: it did not rejoin in time"
        case _:
            return event.kind.value.replace("_", " ")


def _client_of(member_id: str | None) -> str:
    """The client id that a member id starts with; a UUID follows it."""
    return (member_id or "a member").rsplit("-", 5)[0]
