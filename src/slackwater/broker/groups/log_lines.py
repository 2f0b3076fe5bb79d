"""The broker's log lines of group events, in the words of Kafka 4.x.

Invariants:
- Runbooks, searches and dashboards made for Apache Kafka 4.x work on these lines.
- Lines are rendered from events alone. State that a line needs from an earlier event (the leader, issued member ids) is
  kept here per group, and removed with the group.
- Events for which Kafka has no line are only in `__group_events`.
- An event never makes more lines than its own, or a line about another group: control characters are escaped, and the
  spaces of an id with many words, because Kafka's lines have no quotes around ids.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from slackwater.escaping import escape
from slackwater.group.events import (
    LEADER_FAILED_TO_JOIN,
    EventKind,
    GenerationFormed,
    GroupEvent,
    GroupLifecycle,
    LeaderChanged,
    MemberFenced,
    MemberLeft,
    MemberReplaced,
    RebalanceStarted,
)

MAX_ID_SPACES: Final = 2
"""An id that imitates part of a log line contains more spaces than this."""


@dataclass(slots=True)
class _GroupState:
    formed: GenerationFormed | None = None
    issued: set[str] = field(default_factory=set)


class CoordinatorLogLines:
    """Renders the log lines of the groups of one offsets partition."""

    def __init__(self, node_id: int, offsets_partition: int) -> None:
        self.prefix = f"[GroupCoordinator id={node_id} topic=__consumer_offsets partition={offsets_partition}] "
        self._groups: dict[str, _GroupState] = {}

    def render(self, events: Iterable[GroupEvent]) -> Iterator[str]:
        """Render the log lines of events, in order."""
        dropped: list[GroupEvent] = []
        for event in events:
            if event.kind is EventKind.MEMBER_DROPPED:  # all members dropped from one rebalance share a line
                dropped.append(event)
                continue
            yield from self._dropped(dropped)
            dropped = []
            for line in self._lines(event):
                yield self.prefix + line
        yield from self._dropped(dropped)

    def _dropped(self, events: list[GroupEvent]) -> Iterator[str]:
        if events:
            group, names = _id(events[0].group), ", ".join(_id(event.member) for event in events)
            yield f"{self.prefix}Group {group} removed dynamic members who haven't joined: [{names}]"

    def _lines(self, event: GroupEvent) -> Iterator[str]:
        known = self._groups.setdefault(event.group, _GroupState())
        group, member, instance = _id(event.group), _id(event.member), _id(event.instance)
        generation = event.generation
        state = event.state_after.wire_name if event.state_after is not None else ""
        match event.kind, event.detail:
            case EventKind.MEMBER_ID_ISSUED, _:
                known.issued.add(str(event.member))
                yield (
                    f"Dynamic member with unknown member id joins group {group} in {state} state. Created a new member "
                    f"id {member} and requesting the member to rejoin with this id."
                )
            case EventKind.PENDING_MEMBER_EXPIRED, _:
                known.issued.discard(str(event.member))
                yield f"Pending member {member} in group {group} has been removed after session timeout expiration."
            case EventKind.MEMBER_JOINED, _:
                yield self._joined(event, known, state)
            case EventKind.MEMBER_REPLACED, MemberReplaced() as replaced:
                yield (
                    f"Static member with groupInstanceId={instance} and unknown member id joins group {group} in "
                    f"{state} state. Replacing previously mapped member {_id(replaced.old_member)} with this "
                    "groupInstanceId."
                )
                if state == "Stable" and not replaced.rebalance_needed:
                    yield (
                        "Static member which joins during Stable stage and doesn't affect the selected protocol will "
                        "not trigger a rebalance."
                    )
            case EventKind.MEMBER_FENCED, MemberFenced() as fenced:
                yield (
                    f"Request memberId={member} for static member with groupInstanceId={instance} is fenced by "
                    f"existing memberId={_id(fenced.holder)} during operation {fenced.operation}"
                )
            case EventKind.MEMBER_LEFT, MemberLeft() as left:
                known.issued.discard(str(event.member))
                kind = "Pending member" if left.pending else "Member"
                yield (
                    f"[Group {group}] {kind} {member} has left group through explicit `LeaveGroup` request; client "
                    f"reason: {escape(str(left.reason))}"
                )
            case EventKind.MEMBER_EXPIRED, _:
                yield f"Member {member} in group {group} has failed, removing it from the group."
            case EventKind.REBALANCE_STARTED, RebalanceStarted() as started:
                yield (
                    f"Preparing to rebalance group {group} in state PreparingRebalance with old generation "
                    f"{started.old_generation} (reason: {escape(started.reason)})."
                )
                if started.topics:  # no line of Kafka's: it does not say why a leader rejoins
                    topics = ", ".join(map(_id, started.topics))
                    yield f"Group {group} rebalances because of {event.trigger} of topics [{topics}]."
            case EventKind.LEADER_CHANGED, LeaderChanged() as change if change.why == LEADER_FAILED_TO_JOIN:
                yield (
                    f"Group leader [memberId: {_id(change.old_leader)}, groupInstanceId: None] failed to join before "
                    f"the rebalance timeout. Member {member} was elected as the new leader."
                )
            case EventKind.GENERATION_FORMED, GenerationFormed() as formed:
                known.formed = formed
                yield f"Stabilized group {group} generation {generation} with {event.members} members."
            case EventKind.REBALANCE_COMPLETED, _ if known.formed is not None:
                yield (
                    f"Assignment received from leader {_id(known.formed.leader)} for group {group} for generation "
                    f"{generation}. The group has {event.members} members, {known.formed.static_members} of which "
                    "are static."
                )
            case EventKind.GROUP_EMPTIED, _:
                yield f"Group {group} with generation {generation} is now empty."
            case EventKind.GROUP_LOADED, GroupLifecycle() as life:
                yield f"Loaded classic group {group} with {life.members} members."
            case EventKind.GROUP_UNLOADED, _:
                del self._groups[event.group]
                yield f"[GroupId={group}] Unloading group metadata for generation {generation}."
            case EventKind.GROUP_DELETED, _:
                del self._groups[event.group]
            case _:
                pass

    def _joined(self, event: GroupEvent, known: _GroupState, state: str) -> str:
        group, member = _id(event.group), _id(event.member)
        if event.instance is not None:
            return (
                f"Static member with groupInstanceId={_id(event.instance)} and unknown member id joins group {group} "
                f"in {state} state. Created a new member id {member} for this member and added to the group."
            )
        if str(event.member) in known.issued:
            known.issued.discard(str(event.member))
            where = f"joins group {group} in {state} state"
            return f"Pending dynamic member with id {member} {where}. Adding to the group now."
        return (
            f"Dynamic member with unknown member id joins group {group} in state {state}. Created a new member id "
            f"{member} and added the member to the group."
        )


def _id(value: str | None) -> str:
    text = escape(str(value))
    is_ambiguous = text.count(" ") > MAX_ID_SPACES or ", " in text  # a list of ids has commas
    return text.replace(" ", r"\x20") if is_ambiguous else text
