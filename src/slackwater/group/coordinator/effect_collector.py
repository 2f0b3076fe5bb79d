"""Collects the effects of one input to the coordinator.

Invariants:
- Handlers respond, append and emit only through a collector, so the order of effects is the order of decisions.
- Every append stays in `CoordinatorState.writes` until `writes` completes it.
"""

from collections.abc import Iterable

from slackwater.group.coordinator.coordinator_state import CoordinatorState, PendingWrite, WriteCallback
from slackwater.group.coordinator.effects import AppendRecords, Effect, ProducerTransaction, SendResponse
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, PendingMember
from slackwater.group.coordinator.records import CommittedOffset, CoordinatorRecord, GroupMetadata
from slackwater.group.events import EventDetail, EventKind, EventSource, GroupEvent, GroupState, PublishEvent, Trigger
from slackwater.group.messages import Response


class EffectCollector:
    """The effects of one input, in order, and the time at which the input arrived."""

    __slots__ = ("effects", "now_ms", "state", "wall_ms")

    def __init__(self, state: CoordinatorState, now_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms  # for timers
        self.wall_ms = now_ms + state.wall_offset_ms  # for timestamps in records and events
        self.effects: list[Effect] = []

    def respond(self, reply_to: object, response: Response) -> None:
        """Send the response to a request."""
        self.effects.append(SendResponse(reply_to, response))

    def append(
        self,
        offsets_partition: int,
        records: Iterable[CoordinatorRecord],
        callback: WriteCallback,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        """Write records of one group; `callback` runs when the result is known."""
        state = self.state
        state.last_write_id = write_id = state.last_write_id + 1
        written = tuple(records)
        # tuple.__new__ avoids the slower __new__ of the class.
        producer_id = None if transaction is None else transaction.producer_id
        state.writes[write_id] = tuple.__new__(PendingWrite, (offsets_partition, written, callback, producer_id))
        if written and (group := state.groups.get(written[0].group_id)) is not None:
            group.in_flight[write_id] = written
        self.effects.append(AppendRecords(write_id, offsets_partition, written, transaction))

    def emit(
        self,
        group: ClassicGroup,
        kind: EventKind,
        detail: EventDetail | None = None,
        *,
        member: ClassicGroupMember | PendingMember | None = None,
        trigger: Trigger | None = None,
        before: GroupState | None = None,
        member_id: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        """Emit a group event; `member_id` and `instance_id` are used when there is no `member`."""
        event = GroupEvent(
            time_ms=self.wall_ms,
            cluster=self.state.config.cluster,
            group=group.group_id,
            kind=kind,
            trigger=trigger,
            generation=group.generation_id,
            state_before=before,
            state_after=group.state,
            member=member.member_id if member is not None else member_id,
            instance=member.group_instance_id if isinstance(member, ClassicGroupMember) else instance_id,
            client=member.client_id if member is not None else None,
            host=member.client_host if member is not None else None,
            protocol_type=group.protocol_type,
            assignor=group.protocol_name,
            members=len(group.members),
            detail=detail,
            source=EventSource.COORDINATOR,
        )
        self.effects.append(PublishEvent(event))


def group_tombstones(group: ClassicGroup) -> list[CoordinatorRecord]:
    """Return the tombstones that delete a group and its offsets, also pending ones and those being written."""
    partitions = sorted({*group.offsets, *group.unsettled_partitions()})
    return [
        *(CommittedOffset(group.group_id, topic, partition, None) for topic, partition in partitions),
        GroupMetadata(group.group_id, None),
    ]
