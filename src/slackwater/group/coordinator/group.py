"""A classic group in memory: its members, their waiting requests, its current rebalance and its offsets.

Invariants:
- The hard state (written to the log) is `stored`, `offsets` and `pending_offsets`. It changes only by applying a record
  or a marker that was written.
- A pending offset of a transaction is `None` if a later record of the log has replaced it: the commit then leaves the
  later one (TX-05).
- All other state is soft (only in memory): a new process rebuilds a group from its records (CO-06, CO-09). As in
  Kafka, `generation_id` is soft until the record of the generation is written: `begin_generation` counts it up when
  the join phase ends, and `restore` sets it from `stored`.
- `members` is in the order of joining. The counters `awaiting_join_count` and `supported` are always current, so no
  request iterates over the members.
- This module sends no responses and starts no rebalances; `rebalance.py` and the handlers do.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from slackwater.group.coordinator.records import (
    CommittedOffset,
    CoordinatorRecord,
    StoredGroup,
    StoredMember,
    StoredOffset,
)
from slackwater.group.coordinator.states import EMPTY, NEXT_STATES, STABLE
from slackwater.group.coordinator.subscriptions import CONSUMER, topics_of
from slackwater.group.coordinator.timers import Timer
from slackwater.group.errors import Error
from slackwater.group.events import GroupState, Trigger
from slackwater.group.java_order import hash_map_order
from slackwater.group.messages import JoinedMember, JoinGroup, JoinProtocol
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.value_class import value_class

NO_TIMESTAMP: Final = -1


class ClassicGroupMember:
    """A member; `awaiting_join` and `awaiting_sync` are the `reply_to` of requests that wait for their response."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group",
        "group_instance_id",
        "is_new",
        "last_seen_ms",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(
        self,
        group: "ClassicGroup",
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: tuple[JoinProtocol, ...],
    ) -> None:
        self.group = group
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        # JG-27: JoinGroup v0 has no rebalance timeout, and neither have members stored by old brokers.
        self.rebalance_timeout_ms = rebalance_timeout_ms if rebalance_timeout_ms >= 0 else session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False
        self.awaiting_join: object | None = None
        self.awaiting_sync: object | None = None
        self.last_seen_ms: int | None = None
        self.session: Timer[TimerOwner] = Timer(self)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for one protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Iterable[str]) -> str:
        """Return the member's first protocol that all members support (JG-33)."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)


class PendingMember:
    """A member id that was issued and not used yet (JG-08)."""

    __slots__ = ("client_host", "client_id", "expiry", "group", "member_id", "session_timeout_ms")

    def __init__(self, group: "ClassicGroup", member_id: str, request: JoinGroup) -> None:
        self.group = group
        self.member_id = member_id
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.session_timeout_ms = request.session_timeout_ms
        self.expiry: Timer[TimerOwner] = Timer(self)


@value_class
class RebalanceCause:
    """Why a rebalance starts: trigger and culprit for the event, Kafka's wording for the log."""

    trigger: Trigger | None
    reason: str
    culprit: ClassicGroupMember | PendingMember | None = None
    topics: tuple[str, ...] = ()  # whose change is the reason


class OngoingRebalance:
    """One rebalance, from its trigger to a stable or empty group, with its timers."""

    __slots__ = (
        "cause",
        "delay_ms",
        "group",
        "has_new_member",
        "join_timer",
        "remaining_ms",
        "reported_waiting",
        "started_ms",
        "sync_timer",
        "timeout_ms",
        "waiting_timer",
    )

    def __init__(self, group: "ClassicGroup", cause: RebalanceCause, started_ms: int) -> None:
        self.group = group
        self.cause = cause
        self.started_ms = started_ms
        self.timeout_ms = group.rebalance_timeout_ms()  # JG-26: fixed now; members that join later do not extend it
        self.join_timer: Timer[TimerOwner] = Timer(JoinPhaseTimer(self))
        self.sync_timer: Timer[TimerOwner] = Timer(SyncPhaseTimer(self))
        self.waiting_timer: Timer[TimerOwner] = Timer(WaitingReportTimer(self))
        self.reported_waiting: tuple[str, ...] = ()
        # KIP-134, only in InitialRebalance (JG-34 … JG-36)
        self.delay_ms = 0
        self.remaining_ms = 0
        self.has_new_member = False  # a member joined since the delay was armed

    def cancel(self) -> None:
        """Stop all timers of this rebalance."""
        self.join_timer.cancel()
        self.sync_timer.cancel()
        self.waiting_timer.cancel()


class _RebalanceTimer:
    __slots__ = ("rebalance",)

    def __init__(self, rebalance: OngoingRebalance) -> None:
        self.rebalance = rebalance


class JoinPhaseTimer(_RebalanceTimer):
    """Owns the timer that ends the join phase."""

    __slots__ = ()


class SyncPhaseTimer(_RebalanceTimer):
    """Owns the timer that ends the sync phase."""

    __slots__ = ()


class WaitingReportTimer(_RebalanceTimer):
    """Owns the timer that reports the members a long rebalance waits for."""

    __slots__ = ()


class OffsetsExpiration:
    """Owns the timer of the expiration check of one partition of the offsets topic."""

    __slots__ = ("offsets_partition", "timer")

    def __init__(self, offsets_partition: int) -> None:
        self.offsets_partition = offsets_partition
        self.timer: Timer[TimerOwner] = Timer(self)


TimerOwner = (
    ClassicGroupMember | PendingMember | JoinPhaseTimer | SyncPhaseTimer | WaitingReportTimer | OffsetsExpiration
)


class PendingOffset(NamedTuple):
    """An offset of an open transaction; `order` is its place among the group's pending offsets."""

    order: int
    value: StoredOffset | None


class ClassicGroup:
    """A classic group."""

    __slots__ = (
        "assignment_in_flight",
        "awaiting_join_count",
        "generation_id",
        "group_id",
        "in_flight",
        "last_pending_order",
        "leader_id",
        "members",
        "offsets",
        "offsets_partition",
        "pending_members",
        "pending_offsets",
        "protocol_name",
        "protocol_type",
        "rebalance",
        "state",
        "state_since_ms",
        "static_members",
        "stored",
        "subscribed_topics",
        "supported",
        "unsynced",
    )

    def __init__(self, group_id: str, offsets_partition: int, wall_ms: int) -> None:
        self.group_id = group_id
        self.offsets_partition = offsets_partition
        self.state = EMPTY  # ST-03
        self.state_since_ms = wall_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, PendingMember] = {}
        self.unsynced: dict[str, None] = {}  # members of the new generation that have not synced yet (ST-07)
        self.supported: dict[str, int] = {}  # protocol name -> how many members offer it
        self.awaiting_join_count = 0
        self.assignment_in_flight = False
        self.rebalance: OngoingRebalance | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.stored: StoredGroup | None = None
        self.offsets: dict[TopicPartition, StoredOffset] = {}
        self.pending_offsets: dict[int, dict[TopicPartition, PendingOffset]] = {}  # by producer id
        self.last_pending_order = 0  # of all pending offsets so far, see `PendingOffset`
        self.in_flight: dict[int, tuple[CoordinatorRecord, ...]] = {}  # records being written, by write id

    # --- records -------------------------------------------------------------------------------------------------

    def apply(self, records: Iterable[CoordinatorRecord]) -> None:
        """Change the hard state by records that were written."""
        offsets, new = self.offsets, tuple.__new__
        for record in records:
            if isinstance(record, CommittedOffset):
                _, topic, partition, value = record
                topic_partition = new(TopicPartition, (topic, partition))
                if self.pending_offsets:
                    self._replace_pending(topic_partition, is_deleted=value is None)
                if value is None:
                    offsets.pop(topic_partition, None)
                else:
                    offsets[topic_partition] = value
            else:
                self.stored = record.value

    def apply_pending(self, producer_id: int, records: Iterable[CoordinatorRecord]) -> None:
        """Add offsets of an open transaction that were written."""
        pending = self.pending_offsets.setdefault(producer_id, {})
        for record in records:
            if isinstance(record, CommittedOffset):
                self.last_pending_order += 1
                pending[TopicPartition(record.topic, record.partition)] = PendingOffset(
                    self.last_pending_order, record.value
                )

    def complete_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer, when the marker was written."""
        for topic_partition, (order, value) in self.pending_offsets.pop(producer_id, {}).items():
            if is_commit and value is not None:
                self.offsets[topic_partition] = value
                self._replace_pending(topic_partition, before=order)

    def _replace_pending(
        self, topic_partition: TopicPartition, *, is_deleted: bool = False, before: int | None = None
    ) -> None:
        """A record replaces the pending offsets of a partition that are older; a tombstone deletes them (TX-06)."""
        for producer_id, pending in list(self.pending_offsets.items()):
            offset = pending.get(topic_partition)
            if offset is None or (before is not None and offset.order > before):
                continue
            if is_deleted:
                del pending[topic_partition]
                if not pending:
                    del self.pending_offsets[producer_id]
            else:
                pending[topic_partition] = offset._replace(value=None)

    def is_pending(self, topic_partition: TopicPartition) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return any(topic_partition in pending for pending in self.pending_offsets.values())

    def unsettled_partitions(self) -> set[TopicPartition]:
        """Return the partitions whose offsets are being written or are pending in a transaction."""
        return self.in_flight_partitions().union(*self.pending_offsets.values())

    def in_flight_partitions(self) -> set[TopicPartition]:
        """Return the partitions whose offsets are being written, so that a deletion includes them."""
        return {
            TopicPartition(record.topic, record.partition)
            for records in self.in_flight.values()
            for record in records
            if isinstance(record, CommittedOffset)
        }

    def to_record_value(self, assignments: dict[str, bytes] | None = None) -> StoredGroup:
        """Return the current generation as a record value, with new assignments or the members' current ones."""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            leader=self.leader_id,
            state_timestamp_ms=self.state_since_ms,
            members=tuple([self._to_store(member, assignments) for member in self.members.values()]),
        )

    def _to_store(self, member: ClassicGroupMember, assignments: dict[str, bytes] | None) -> StoredMember:
        member_id = member.member_id
        stored = (
            member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.metadata(self.protocol_name),
            member.assignment if assignments is None else assignments.get(member_id, b""),
        )
        return tuple.__new__(StoredMember, stored)  # avoids the slower __new__ of the class

    def restore(self) -> None:
        """Set the soft state from `stored`: Stable with members, Empty without (CO-06)."""
        stored = self.stored
        if stored is None:
            return
        self.generation_id = stored.generation_id
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol_name
        self.state_since_ms = stored.state_timestamp_ms
        for stored_member in stored.members:
            member = ClassicGroupMember(
                self,
                stored_member.member_id,
                stored_member.group_instance_id,
                stored_member.client_id,
                stored_member.client_host,
                stored_member.session_timeout_ms,
                stored_member.rebalance_timeout_ms,
                (JoinProtocol(stored.protocol_name or "", stored_member.subscription),),
            )
            member.assignment = stored_member.assignment
            self._insert(member)
        self.leader_id = stored.leader if self.members else None
        self.state = STABLE if self.members else EMPTY
        self.subscribed_topics = self._topics()

    def copy_as_empty(self, wall_ms: int) -> "ClassicGroup":
        """Return this Dead group as an Empty one, after its tombstones could not be written (ST-01).

        The soft state is copied, not restored from `stored`: the record of the empty group may not be written either.
        """
        group = ClassicGroup(self.group_id, self.offsets_partition, wall_ms)
        group.generation_id = self.generation_id
        group.protocol_type = self.protocol_type
        group.subscribed_topics = self.subscribed_topics
        group.stored, group.offsets, group.in_flight = self.stored, self.offsets, self.in_flight
        group.pending_offsets, group.last_pending_order = self.pending_offsets, self.last_pending_order
        return group

    # --- state ----------------------------------------------------------------------------------------------------

    def transition_to(self, to: GroupState, wall_ms: int) -> GroupState:
        """Change the state and its timestamp (ST-01, ST-02); return the previous state."""
        before = self.state
        if to not in NEXT_STATES[before]:
            raise AssertionError(f"group {self.group_id}: no transition from {before} to {to}")
        self.state = to
        self.state_since_ms = wall_ms
        return before

    @property
    def is_simple(self) -> bool:
        """Whether the group only stores offsets (ST-13)."""
        return self.protocol_type is None and self.state is EMPTY and not self.pending_members

    @property
    def is_consumer(self) -> bool:
        """Whether the group uses the consumer protocol."""
        return self.protocol_type == CONSUMER

    def all_joined(self) -> bool:
        """Whether all members have joined and no member is pending (JG-11, JG-28)."""
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members (JG-26)."""
        return max([member.rebalance_timeout_ms for member in self.members.values()], default=0)

    # --- members --------------------------------------------------------------------------------------------------

    def check_identity(self, member_id: str, group_instance_id: str | None) -> Error:
        """Check that the member exists and holds the instance id, which is checked first (JG-16)."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return Error.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return Error.FENCED_INSTANCE_ID
        return Error.NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Add a member; the first one sets the protocol type and is the leader (ST-04)."""
        if not self.members:
            self.protocol_type = protocol_type
        self._insert(member)
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_members.pop(member.member_id, None)

    def _insert(self, member: ClassicGroupMember) -> None:
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        for name in {name for name, _ in member.protocols}:
            self.supported[name] = self.supported.get(name, 0) + 1

    def remove(self, member: ClassicGroupMember) -> None:
        """Remove a member that has no waiting requests."""
        del self.members[member.member_id]
        member.session.cancel()
        self.unsynced.pop(member.member_id, None)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self._remove_protocols(member)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)  # JG-31

    def replace(self, member: ClassicGroupMember, member_id: str) -> None:
        """Give a static member a new id and keep its position (JG-41)."""
        old_id = member.member_id
        # The order of members is the order of joining: rebuild the dict rather than move the member to its end.
        self.members = {member_id if key == old_id else key: value for key, value in self.members.items()}
        if old_id in self.unsynced:
            del self.unsynced[old_id]
            self.unsynced[member_id] = None
        member.member_id = member_id
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id

    def update(
        self, member: ClassicGroupMember, protocols: tuple[JoinProtocol, ...], session_ms: int, rebalance_ms: int
    ) -> None:
        """Update a member from its rejoin (JG-22)."""
        self._remove_protocols(member)
        member.protocols = protocols
        member.session_timeout_ms = session_ms
        member.rebalance_timeout_ms = rebalance_ms if rebalance_ms >= 0 else session_ms
        for protocol in protocols:
            self.supported[protocol.name] = self.supported.get(protocol.name, 0) + 1

    def await_join(self, member: ClassicGroupMember, reply_to: object) -> object | None:
        """Keep a join waiting; return the `reply_to` of the join it replaces, or None."""
        superseded = member.awaiting_join
        if superseded is None:
            self.awaiting_join_count += 1
        member.awaiting_join = reply_to
        return superseded

    def pop_awaiting_join(self, member: ClassicGroupMember) -> object | None:
        """Remove and return the `reply_to` of the waiting join, or None."""
        reply_to = member.awaiting_join
        if reply_to is not None:
            member.awaiting_join = None
            self.awaiting_join_count -= 1
        return reply_to

    def _remove_protocols(self, member: ClassicGroupMember) -> None:
        for protocol in member.protocols:
            left = self.supported[protocol.name] - 1
            if left:
                self.supported[protocol.name] = left
            else:
                del self.supported[protocol.name]

    # --- protocols ------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: tuple[JoinProtocol, ...]) -> bool:
        """Whether a member with these protocols can join this group (JG-05, JG-06)."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return self.state is EMPTY or self.protocol_type in (None, protocol_type)
        if self.protocol_type != protocol_type:
            return False
        size, supported = len(self.members), self.supported
        return any([supported.get(name) == size for name, _ in protocols])  # noqa: C419  # a generator costs more

    def candidates(self) -> set[str]:
        """Return the protocols that all members support."""
        size = len(self.members)
        return {name for name, count in self.supported.items() if count == size}

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members support (JG-33).

        A tie is unspecified; Kafka uses the first in the order of its hash map, and so does this method.
        """
        candidates = self.candidates()
        if len(candidates) == 1:
            return next(iter(candidates))
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        max_votes = max(votes.values())
        return next(name for name in hash_map_order(votes) if votes[name] == max_votes)

    def begin_generation(self) -> None:
        """Increment the generation, select the protocol, and read the subscriptions (ST-07, ST-08)."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._topics()
        self.unsynced = dict.fromkeys(self.members)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return the member list for the leader (JG-32)."""
        new, protocol_name = tuple.__new__, self.protocol_name
        return tuple(
            [
                new(JoinedMember, (member.member_id, member.group_instance_id, member.metadata(protocol_name)))
                for member in self.members.values()
            ]
        )

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`; an unreadable subscription counts as every topic (EX-09)."""
        if self.subscribed_topics is None:
            return self.is_consumer
        return topic in self.subscribed_topics

    def _topics(self) -> frozenset[str] | None:
        if not self.members:
            return frozenset()
        if not self.is_consumer or self.protocol_name is None:
            return None
        protocol_name = self.protocol_name
        return topics_of([member.metadata(protocol_name) for member in self.members.values()])

    def waiting_for(self) -> tuple[str, ...]:
        """Return the members that have not joined (join phase) or not synced (sync phase)."""
        if self.state.wire_name == GroupState.PREPARING_REBALANCE:
            absent = [member.member_id for member in self.members.values() if member.awaiting_join is None]
            return (*absent, *self.pending_members)
        return tuple(self.unsynced)
