"""A classic group in memory: its members, what is parked, and what the group as a whole supports.

Rules kept here
- The hard state is `stored` and `offsets`, and changes only in `apply` (of a record). Everything else is soft: it is
  lost with the process, and a group is rebuilt from its records alone (CO-06, CO-09).
- `members` keeps the order of joining. Counters (`parked_joins`, `supported`) are kept up to date, so that no request
  costs a walk over the members.
- Nothing in here answers anybody or starts anything: that is `rebalance.py` and the handlers.
"""

from collections.abc import Iterable
from typing import Final

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
from slackwater.group.message import message
from slackwater.group.messages import JoinedMember, JoinGroup, JoinProtocol
from slackwater.group.topic_partition import TopicPartition

NO_TIMESTAMP: Final = -1


class ClassicGroupMember:
    """One member; `parked_join` and `parked_sync` are the callers that wait for an answer."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group",
        "group_instance_id",
        "is_new",
        "last_heard_ms",
        "member_id",
        "parked_join",
        "parked_sync",
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
        # JG-27: v0 joins have none, and neither have members stored by brokers that did not know it.
        self.rebalance_timeout_ms = rebalance_timeout_ms if rebalance_timeout_ms >= 0 else session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False
        self.parked_join: object | None = None
        self.parked_sync: object | None = None
        self.last_heard_ms: int | None = None
        self.session: Timer[TimerOwner] = Timer(self)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What this member said for one assignor."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Iterable[str]) -> str:
        """The first of its own protocols that everybody supports (JG-33)."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)


class PendingMember:
    """An id that was issued and not used yet (JG-08)."""

    __slots__ = ("client_host", "client_id", "expiry", "group", "member_id", "session_timeout_ms")

    def __init__(self, group: "ClassicGroup", member_id: str, request: JoinGroup) -> None:
        self.group = group
        self.member_id = member_id
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.session_timeout_ms = request.session_timeout_ms
        self.expiry: Timer[TimerOwner] = Timer(self)


@message
class RebalanceCause:
    """Why a rebalance starts: for the event, the trigger and the culprit; for the log, Kafka's words."""

    trigger: Trigger
    reason: str
    culprit: ClassicGroupMember | PendingMember | None = None


class RebalanceRound:
    """One rebalance, from its trigger to a stable (or empty) group; also the owner of the round's timers."""

    __slots__ = (
        "cause",
        "delay_ms",
        "extended",
        "group",
        "join",
        "notice",
        "remaining_ms",
        "started_ms",
        "sync",
        "timeout_ms",
        "told",
    )

    def __init__(self, group: "ClassicGroup", cause: RebalanceCause, started_ms: int) -> None:
        self.group = group
        self.cause = cause
        self.started_ms = started_ms
        self.timeout_ms = group.rebalance_timeout_ms()  # JG-26: taken now; later joiners do not extend it
        self.join: Timer[TimerOwner] = Timer(JoinPhase(self))
        self.sync: Timer[TimerOwner] = Timer(SyncPhase(self))
        self.notice: Timer[TimerOwner] = Timer(WaitingNotice(self))
        self.told: tuple[str, ...] = ()
        # KIP-134, only in InitialRebalance (JG-34 … JG-36)
        self.delay_ms = 0
        self.remaining_ms = 0
        self.extended = False  # somebody joined since the delay was armed

    def cancel(self) -> None:
        """Stop all timers of this round."""
        self.join.cancel()
        self.sync.cancel()
        self.notice.cancel()


class _Phase:
    __slots__ = ("round",)

    def __init__(self, round: RebalanceRound) -> None:
        self.round = round


class JoinPhase(_Phase):
    """Owns the timer that ends the join phase."""

    __slots__ = ()


class SyncPhase(_Phase):
    """Owns the timer that ends the sync phase."""

    __slots__ = ()


class WaitingNotice(_Phase):
    """Owns the timer that tells whom a long round waits for."""

    __slots__ = ()


class OffsetsSweep:
    """Owns the timer of the offset expiry sweep of one shard."""

    __slots__ = ("shard", "timer")

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.timer: Timer[TimerOwner] = Timer(self)


TimerOwner = ClassicGroupMember | PendingMember | JoinPhase | SyncPhase | WaitingNotice | OffsetsSweep


class ClassicGroup:
    """A classic group."""

    __slots__ = (
        "assignment_in_flight",
        "generation_id",
        "group_id",
        "leader_id",
        "members",
        "offsets",
        "parked_joins",
        "pending",
        "protocol_name",
        "protocol_type",
        "round",
        "shard",
        "state",
        "state_since_ms",
        "static_members",
        "stored",
        "subscribed_topics",
        "supported",
        "unsynced",
        "writing",
    )

    def __init__(self, group_id: str, shard: int, now_ms: int) -> None:
        self.group_id = group_id
        self.shard = shard
        self.state = EMPTY  # ST-03
        self.state_since_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, PendingMember] = {}
        self.unsynced: dict[str, None] = {}  # members of the new generation that have not synced yet (ST-07)
        self.supported: dict[str, int] = {}  # protocol name -> how many members offer it
        self.parked_joins = 0
        self.assignment_in_flight = False
        self.round: RebalanceRound | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.stored: StoredGroup | None = None
        self.offsets: dict[TopicPartition, StoredOffset] = {}
        self.writing: dict[
            int, tuple[CoordinatorRecord, ...]
        ] = {}  # what is on its way to the log, by the number of the write

    # --- hard state -----------------------------------------------------------------------------------------------

    def apply(self, records: Iterable[CoordinatorRecord]) -> None:
        """Take over what was written."""
        offsets, new = self.offsets, tuple.__new__
        for record in records:
            if isinstance(record, CommittedOffset):
                _, topic, partition, value = record
                at = new(TopicPartition, (topic, partition))
                if value is None:
                    offsets.pop(at, None)
                else:
                    offsets[at] = value
            else:
                self.stored = record.value

    def unwritten(self) -> set[TopicPartition]:
        """The offsets on their way to the log, so that a deletion meanwhile does not forget them."""
        return {
            TopicPartition(record.topic, record.partition)
            for records in self.writing.values()
            for record in records
            if isinstance(record, CommittedOffset)
        }

    def to_store(self, assignments: dict[str, bytes] | None = None) -> StoredGroup:
        """This generation as a record, with new assignments or the members' own."""
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
        return tuple.__new__(StoredMember, stored)  # without the class's slower `__new__`

    def restore(self) -> None:
        """Become what the records say: stable with members, empty without (CO-06)."""
        stored = self.stored
        if stored is None:
            return
        self.generation_id = stored.generation_id
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol_name
        self.state_since_ms = stored.state_timestamp_ms
        for kept in stored.members:
            member = ClassicGroupMember(
                self,
                kept.member_id,
                kept.group_instance_id,
                kept.client_id,
                kept.client_host,
                kept.session_timeout_ms,
                kept.rebalance_timeout_ms,
                (JoinProtocol(stored.protocol_name or "", kept.subscription),),
            )
            member.assignment = kept.assignment
            self._enter(member)
        self.leader_id = stored.leader if self.members else None
        self.state = STABLE if self.members else EMPTY
        self.subscribed_topics = self._topics()

    # --- state ----------------------------------------------------------------------------------------------------

    def move(self, to: GroupState, now_ms: int) -> GroupState:
        """Change the state and stamp the time (ST-01, ST-02); the state before is returned."""
        before = self.state
        if to not in NEXT_STATES[before]:
            raise AssertionError(f"group {self.group_id}: no move from {before} to {to}")
        self.state = to
        self.state_since_ms = now_ms
        return before

    @property
    def is_simple(self) -> bool:
        """Whether this is only a place for offsets (ST-13)."""
        return self.protocol_type is None and self.state is EMPTY and not self.pending

    @property
    def is_consumer(self) -> bool:
        """Whether the members speak the consumer protocol."""
        return self.protocol_type == CONSUMER

    def everybody_joined(self) -> bool:
        """Whether the join phase waits for nobody (JG-11, JG-28)."""
        return self.parked_joins == len(self.members) and not self.pending

    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asked for (JG-26)."""
        return max([member.rebalance_timeout_ms for member in self.members.values()], default=0)

    # --- members --------------------------------------------------------------------------------------------------

    def identify(self, member_id: str, group_instance_id: str | None) -> Error:
        """Whether this is a member, and the one that holds the instance id (checked first: JG-16)."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return Error.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return Error.FENCED_INSTANCE_ID
        return Error.NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Take a member in; the first one fixes the protocol type and is the leader (ST-04)."""
        if not self.members:
            self.protocol_type = protocol_type
        self._enter(member)
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending.pop(member.member_id, None)

    def _enter(self, member: ClassicGroupMember) -> None:
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        for name in {name for name, _ in member.protocols}:
            self.supported[name] = self.supported.get(name, 0) + 1

    def remove(self, member: ClassicGroupMember) -> None:
        """Take a member out; who is parked must have been answered."""
        del self.members[member.member_id]
        member.session.cancel()
        self.unsynced.pop(member.member_id, None)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self._forget_protocols(member)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)  # JG-31

    def replace(self, member: ClassicGroupMember, member_id: str) -> None:
        """Give a static member a new id, in its old place (JG-41)."""
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
        """Take over what a rejoin says (JG-22)."""
        self._forget_protocols(member)
        member.protocols = protocols
        member.session_timeout_ms = session_ms
        member.rebalance_timeout_ms = rebalance_ms if rebalance_ms >= 0 else session_ms
        for protocol in protocols:
            self.supported[protocol.name] = self.supported.get(protocol.name, 0) + 1

    def park_join(self, member: ClassicGroupMember, caller: object) -> object | None:
        """Keep a join for later; the caller it supersedes, if any, is returned."""
        superseded = member.parked_join
        if superseded is None:
            self.parked_joins += 1
        member.parked_join = caller
        return superseded

    def take_join(self, member: ClassicGroupMember) -> object | None:
        """The caller of the parked join, which is parked no longer."""
        caller = member.parked_join
        if caller is not None:
            member.parked_join = None
            self.parked_joins -= 1
        return caller

    def _forget_protocols(self, member: ClassicGroupMember) -> None:
        for protocol in member.protocols:
            left = self.supported[protocol.name] - 1
            if left:
                self.supported[protocol.name] = left
            else:
                del self.supported[protocol.name]

    # --- protocols ------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: tuple[JoinProtocol, ...]) -> bool:
        """Whether somebody with these protocols can be in this group (JG-05, JG-06)."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return self.state is EMPTY or self.protocol_type in (None, protocol_type)
        if self.protocol_type != protocol_type:
            return False
        size, supported = len(self.members), self.supported
        return any([supported.get(name) == size for name, _ in protocols])  # noqa: C419  # a generator costs more

    def candidates(self) -> set[str]:
        """The protocols that every member supports."""
        size = len(self.members)
        return {name for name, count in self.supported.items() if count == size}

    def select_protocol(self) -> str:
        """The protocol with most votes among those everybody supports (JG-33).

        A tie is unspecified; Kafka takes the first of its hash map, and so do we.
        """
        candidates = self.candidates()
        if len(candidates) == 1:
            return next(iter(candidates))
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        most = max(votes.values())
        return next(name for name in hash_map_order(votes) if votes[name] == most)

    def next_generation(self) -> None:
        """Count up, choose the protocol, and see what the members subscribe to (ST-07, ST-08)."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._topics()
        self.unsynced = dict.fromkeys(self.members)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader needs to assign (JG-32)."""
        new, protocol_name = tuple.__new__, self.protocol_name
        return tuple(
            [
                new(JoinedMember, (member.member_id, member.group_instance_id, member.metadata(protocol_name)))
                for member in self.members.values()
            ]
        )

    def is_subscribed(self, topic: str) -> bool:
        """Whether some member subscribes to `topic`; a subscription nobody can read counts as every topic (EX-09)."""
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
        """Whom a rebalance waits for: in the join phase who did not rejoin, in the sync phase who did not sync."""
        if self.state.wire_name == GroupState.PREPARING_REBALANCE:
            absent = [member.member_id for member in self.members.values() if member.parked_join is None]
            return (*absent, *self.pending)
        return tuple(self.unsynced)
