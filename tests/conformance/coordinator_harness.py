"""A coordinator with its log, clock and clients in memory, for tests.

Invariants:
- Time is `now_ms`; only `advance_ms` changes it. Timers fire at their deadlines; a timer without delay fires at once.
- Effects are executed in order. Writes succeed at once, unless they are held or set to fail.
- Every request is a `Call` that records its responses: none, or exactly one.
- A member keeps the id, generation and assignment of its responses, as a client does.

Example:

    a, b = harness.stable_group("a", "b")
    a.leave()
    assert b.heartbeat() is Error.REBALANCE_IN_PROGRESS
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, cast, overload

from slackwater.group.assignors.consumer_protocol import Subscription, encode_subscription
from slackwater.group.coordinator import Coordinator
from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.effects import AppendRecords, Effect, SendResponse
from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.coordinator.records import CoordinatorRecord
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupEvent, GroupState, PublishEvent, RebalanceStarted, Trigger
from slackwater.group.messages import (
    NO_GENERATION,
    NO_MEMBER,
    DeleteGroups,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResponse,
    FetchedOffset,
    GroupToFetch,
    Heartbeat,
    HeartbeatResponse,
    JoinedMember,
    JoinGroup,
    JoinGroupResponse,
    JoinProtocol,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    ListedGroup,
    ListGroups,
    ListGroupsResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
    Request,
    Response,
    SyncGroup,
    SyncGroupResponse,
    TxnOffsetCommit,
)

GROUP: Final = "orders"
OFFSETS_PARTITION: Final = 0
START_MS: Final = 1_000_000
HOST: Final = "/10.0.0.1"
SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 60_000
STATE_OF_STAGE: Final = {
    "initial": GroupState.INITIAL_REBALANCE,
    "completing": GroupState.COMPLETING_REBALANCE,
    "stable": GroupState.STABLE,
    "preparing": GroupState.PREPARING_REBALANCE,
}
_MAX_TICKS: Final = 100_000

R = TypeVar("R", bound=Response)


def subscription(*topics: str) -> bytes:
    """Return the subscription bytes of a Java consumer for these topics."""
    return encode_subscription(Subscription(topics))


def join_protocols(*names: str, topics: Sequence[str] = ("t",)) -> tuple[JoinProtocol, ...]:
    """Return the protocols of a member in order of preference, all with one subscription."""
    return tuple(JoinProtocol(name, subscription(*topics)) for name in names)


@dataclass(eq=False)
class Call(Generic[R]):
    """One request and its responses."""

    request: Request
    sent_ms: int
    responses: list[R] = field(default_factory=list)
    responded_ms: int | None = None
    on_response: Callable[[R], None] | None = None

    @property
    def parked(self) -> bool:
        """Whether there is no response yet."""
        return not self.responses

    @property
    def response(self) -> R:
        """The only response."""
        assert len(self.responses) == 1, f"{self.request} has {len(self.responses)} responses: {self.responses}"
        return self.responses[0]


class Member:
    """A client with the state of one member."""

    def __init__(
        self,
        harness: "CoordinatorHarness",
        name: str,
        *,
        instance: str | None = None,
        group_id: str = GROUP,
        protocols: tuple[JoinProtocol, ...] = join_protocols("range"),
        protocol_type: str = "consumer",
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = REBALANCE_MS,
        requires_known_id: bool = True,
        skips_assignment: bool = True,
    ) -> None:
        self.harness = harness
        self.name = name
        self.instance = instance
        self.group_id = group_id
        self.protocols = protocols
        self.protocol_type = protocol_type
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.requires_known_id = requires_known_id
        self.skips_assignment = skips_assignment
        self.id = NO_MEMBER
        self.generation = NO_GENERATION
        self.leader = NO_MEMBER
        self.protocol_name: str | None = None
        self.members: tuple[JoinedMember, ...] = ()
        self.assignment: bytes | None = None

    @property
    def is_leader(self) -> bool:
        """Whether the last join response names this member as the leader."""
        return self.id != NO_MEMBER and self.leader == self.id

    # --- joining and syncing ------------------------------------------------------------------------------------------

    def join_request(self, reason: str | None = None) -> JoinGroup:
        """Return the next JoinGroup request."""
        return JoinGroup(
            group_id=self.group_id,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            client_id=self.name,
            client_host=HOST,
            uuid=self.harness.next_uuid(),
            reason=reason,
            requires_known_member_id=self.requires_known_id,
            supports_skipping_assignment=self.skips_assignment,
        )

    def send_join(self, reason: str | None = None) -> Call[JoinGroupResponse]:
        """Send one JoinGroup, without a second one after MEMBER_ID_REQUIRED."""
        return self.harness.send(self.join_request(reason), self._joined)

    def join(self, reason: str | None = None) -> Call[JoinGroupResponse]:
        """Join as a client does: join again with the issued id if one is required."""
        call = self.send_join(reason)
        if not call.parked and call.response.error is Error.MEMBER_ID_REQUIRED:
            call = self.send_join(reason)
        return call

    def _joined(self, response: JoinGroupResponse) -> None:
        if response.error is Error.MEMBER_ID_REQUIRED:
            self.id = response.member_id
        elif response.error is Error.NONE:
            self.id = response.member_id
            self.generation = response.generation_id
            self.leader = response.leader
            self.protocol_name = response.protocol_name
            self.members = response.members

    def sync_request(self, parts: Iterable[tuple[str, bytes]] | None = None) -> SyncGroup:
        """Return the next SyncGroup request; a leader assigns a distinct part to each member."""
        if parts is None:
            parts = (
                [(member.member_id, assignment_of(member.member_id)) for member in self.members]
                if self.is_leader
                else []
            )
        return SyncGroup(
            group_id=self.group_id,
            member_id=self.id,
            group_instance_id=self.instance,
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignments=tuple(parts),
            requires_protocol=self.protocol_name is not None,
        )

    def sync(self, parts: Iterable[tuple[str, bytes]] | None = None) -> Call[SyncGroupResponse]:
        """Send SyncGroup."""
        return self.harness.send(self.sync_request(parts), self._synced)

    def _synced(self, response: SyncGroupResponse) -> None:
        if response.error is Error.NONE:
            self.assignment = response.assignment

    # --- requests -----------------------------------------------------------------------------------------------------

    def heartbeat(self) -> Error:
        """Send a heartbeat and return the error code."""
        request = Heartbeat(self.group_id, self.id, self.instance, self.generation)
        return self.harness.send(request).response.error

    def leave(self, reason: str | None = None) -> Call[LeaveGroupResponse]:
        """Leave, as a closing client does."""
        return self.harness.send(LeaveGroup(self.group_id, (LeavingMember(self.id, self.instance, reason),)))

    def commit(self, offset: int, topic: str = "t", partition: int = 0, **more: Any) -> Call[OffsetCommitResponse]:
        """Commit one offset with the current generation of the member."""
        offsets = (OffsetToCommit(topic, partition, offset),)
        return self.harness.send(
            OffsetCommit(self.group_id, self.id, self.instance, self.generation, offsets, **more),
        )

    def as_listed(self) -> JoinedMember:
        """Return the entry of this member in the leader's member list."""
        metadata = dict(self.protocols)[self.protocol_name or self.protocols[0].name]
        return JoinedMember(self.id, self.instance, metadata)

    def restarted(self, **changes: Any) -> "Member":
        """Return a new member with the same settings and instance id, as after a restart."""
        settings = {
            "instance": self.instance,
            "group_id": self.group_id,
            "protocols": self.protocols,
            "protocol_type": self.protocol_type,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "requires_known_id": self.requires_known_id,
            "skips_assignment": self.skips_assignment,
        }
        return Member(self.harness, self.name, **(settings | changes))

    def expected_join_response(
        self, *, generation: int, leader: str, members: Iterable["Member"] = ()
    ) -> JoinGroupResponse:
        """Return the expected successful join response."""
        return JoinGroupResponse(
            error=Error.NONE,
            member_id=self.id,
            generation_id=generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=leader,
            skip_assignment=False,
            members=tuple(member.as_listed() for member in members),
        )

    def expected_sync_response(self, part: bytes | None = None) -> SyncGroupResponse:
        """Return the expected successful sync response."""
        part = assignment_of(self.id) if part is None else part
        return SyncGroupResponse(Error.NONE, self.protocol_type, self.protocol_name, part)


def assignment_of(member_id: str) -> bytes:
    """Return the assignment that leaders of this harness give a member."""
    return b"part of " + member_id.encode()


class Events:
    """The events of the coordinator, in order."""

    def __init__(self) -> None:
        self.all: list[GroupEvent] = []

    def mark(self) -> int:
        """Return the current position, for `since`."""
        return len(self.all)

    def since(self, mark: int, *kinds: EventKind) -> list[GroupEvent]:
        """Return the events after the mark, optionally only of these kinds."""
        return [event for event in self.all[mark:] if not kinds or event.kind in kinds]

    def of(self, *kinds: EventKind) -> list[GroupEvent]:
        """Return all events of these kinds."""
        return self.since(0, *kinds)

    def moves(self, group_id: str = GROUP) -> list[tuple[GroupState, GroupState]]:
        """Return the state changes of the events."""
        return [
            (event.state_before, event.state_after)
            for event in self.all
            if event.group == group_id
            and event.state_before is not None
            and event.state_after is not None
            and event.state_before is not event.state_after
        ]


@dataclass
class _Write:
    append: AppendRecords
    error: Error | None  # None: not decided yet


class CoordinatorHarness:
    """A coordinator that owns one partition, with its log, clock and clients."""

    def __init__(self, **settings: Any) -> None:
        self.config = CoordinatorConfig(**({"offsets_topic_num_partitions": 1} | settings))
        self.now_ms = START_MS
        self.events = Events()
        self.log: list[CoordinatorRecord] = []
        self.producers: dict[int, int] = {}  # producer ids of the records in transactions, by their index in `log`
        self.markers: list[tuple[int, int, bool]] = []  # length of `log` before the marker, producer id, commit
        self.appended: list[AppendRecords] = []
        self.calls: list[Call[Any]] = []
        self.coordinator = Coordinator(self.config)
        self.leader_epoch = 0
        self._uuids = 0
        self._holding = False
        self._writes: deque[_Write] = deque()
        self._next_errors: deque[Error] = deque()
        self._busy = False
        self._to_do: deque[Effect] = deque()
        self.load()

    # --- load and unload ----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Load the partition from the log."""
        self.start_loading()
        self.finish_loading()

    def start_loading(self) -> None:
        """Start loading and replay the log, without finishing."""
        self.execute(self.coordinator.load(OFFSETS_PARTITION, self.leader_epoch, self.now_ms))
        markers = deque(self.markers)
        for index in range(len(self.log) + 1):
            while markers and markers[0][0] == index:
                _, producer_id, commit = markers.popleft()
                self.coordinator.complete_transaction(OFFSETS_PARTITION, producer_id, is_commit=commit)
            if index < len(self.log):
                self.coordinator.replay(OFFSETS_PARTITION, self.log[index], self.producers.get(index))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Write a marker."""
        self.markers.append((len(self.log), producer_id, commit))
        self.coordinator.complete_transaction(OFFSETS_PARTITION, producer_id, is_commit=commit)

    def finish_loading(self) -> None:
        """Finish loading."""
        self.execute(self.coordinator.finish_loading(OFFSETS_PARTITION, self.now_ms))

    def unload(self, leader_epoch: int | None = None) -> None:
        """Unload the partition."""
        self.execute(self.coordinator.unload(OFFSETS_PARTITION, leader_epoch, self.now_ms))

    def restart(self) -> None:
        """Replace the coordinator by a new one that loads the log."""
        self.coordinator = Coordinator(self.config)
        self.leader_epoch += 1
        self._writes.clear()
        self._holding = False
        self.load()

    # --- requests -----------------------------------------------------------------------------------------------------

    @overload
    def send(
        self, request: JoinGroup, on_response: Callable[[JoinGroupResponse], None] | None = None
    ) -> Call[JoinGroupResponse]: ...
    @overload
    def send(
        self, request: SyncGroup, on_response: Callable[[SyncGroupResponse], None] | None = None
    ) -> Call[SyncGroupResponse]: ...
    @overload
    def send(self, request: Heartbeat) -> Call[HeartbeatResponse]: ...
    @overload
    def send(self, request: LeaveGroup) -> Call[LeaveGroupResponse]: ...
    @overload
    def send(self, request: OffsetCommit) -> Call[OffsetCommitResponse]: ...
    @overload
    def send(self, request: TxnOffsetCommit) -> Call[OffsetCommitResponse]: ...
    @overload
    def send(self, request: OffsetFetch) -> Call[OffsetFetchResponse]: ...
    @overload
    def send(self, request: OffsetDelete) -> Call[OffsetDeleteResponse]: ...
    @overload
    def send(self, request: DescribeGroups) -> Call[DescribeGroupsResponse]: ...
    @overload
    def send(self, request: ListGroups) -> Call[ListGroupsResponse]: ...
    @overload
    def send(self, request: DeleteGroups) -> Call[DeleteGroupsResponse]: ...
    def send(self, request: Request, on_response: Callable[[Any], None] | None = None) -> Call[Any]:
        """Send a request; the response may arrive later or never."""
        call: Call[Any] = Call(request, self.now_ms, on_response=on_response)
        self.calls.append(call)
        self.execute(self.coordinator.handle(request, call, self.now_ms))
        return call

    def describe(self, group_id: str | None = GROUP) -> DescribedGroup:
        """Return the DescribeGroups result of a group."""
        (group,) = self.send(DescribeGroups((group_id,))).response.groups
        return group

    def listed(self, *states: str, types: tuple[str, ...] = ()) -> list[ListedGroup]:
        """Return the ListGroups result, sorted by group id."""
        response = self.send(ListGroups(states, types)).response
        assert response.error is Error.NONE
        return sorted(response.groups)

    def fetch(self, *partitions: tuple[str, int], group_id: str = GROUP) -> tuple[FetchedOffset, ...]:
        """Return the committed offsets of these partitions, or of all."""
        (group,) = self.send(OffsetFetch((GroupToFetch(group_id, partitions or None),))).response.groups
        assert group.error is Error.NONE
        return tuple(sorted(group.offsets))

    def offset(self, topic: str = "t", partition: int = 0, group_id: str = GROUP) -> int:
        """Return one committed offset, or -1."""
        (fetched,) = self.fetch((topic, partition), group_id=group_id)
        return fetched.offset

    def commit_simple(
        self, offset: int, topic: str = "t", partition: int = 0, group_id: str = GROUP, **more: Any
    ) -> Call[OffsetCommitResponse]:
        """Commit without membership, as an administrator or a simple consumer does."""
        offsets = (OffsetToCommit(topic, partition, offset),)
        return self.send(OffsetCommit(group_id, NO_MEMBER, None, NO_GENERATION, offsets, **more))

    # --- members ------------------------------------------------------------------------------------------------------

    def member(self, name: str, **settings: Any) -> Member:
        """Return a client that has not sent a request yet."""
        return Member(self, name, **settings)

    def stable_group(self, *names: str, static: bool = False, **settings: Any) -> list[Member]:
        """Return the members of a stable group, the leader first; names are the instance ids of static members."""
        return self.group_in("stable", *names, static=static, **settings)

    def completing_group(self, *names: str, static: bool = False, **settings: Any) -> list[Member]:
        """Return the members of a group in CompletingRebalance, the leader first."""
        return self.group_in("completing", *names, static=static, **settings)

    def group_in(self, stage: str, *names: str, static: bool = False, **settings: Any) -> list[Member]:
        """Return the members of a group, the leader first, in stage initial, completing, stable or preparing."""
        members = [self.member(name, instance=name if static else None, **settings) for name in names]
        for member in members:
            member.join()
        if stage != "initial":
            self.end_initial_delay(members[0].group_id)
        if stage in ("stable", "preparing"):
            self.sync(*members)
        if stage == "preparing":
            members[0].join()
        assert self.coordinator.groups[members[0].group_id].state is STATE_OF_STAGE[stage]
        return members

    def end_initial_delay(self, group_id: str = GROUP) -> None:
        """Advance time to the end of the initial delay."""
        while self.coordinator.groups[group_id].state is GroupState.INITIAL_REBALANCE:
            due = self.coordinator.next_due_ms()
            assert due is not None, "a group in its initial delay has no timer"
            self.advance_ms(max(due - self.now_ms, 0))

    def sync(self, *members: Member) -> None:
        """Sync all members, the leader last; the group is stable then."""
        for member in sorted(members, key=lambda member: member.is_leader):
            member.sync()
        assert all(member.assignment == assignment_of(member.id) for member in members)
        assert self.coordinator.groups[members[0].group_id].state is GroupState.STABLE

    def rebalance(self, *members: Member) -> None:
        """Join and then sync all members."""
        calls = [member.join() for member in members]
        assert all(call.response.error is Error.NONE for call in calls)
        self.sync(*members)

    # --- the group ----------------------------------------------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup:
        """The default group of the tests."""
        return self.coordinator.groups[GROUP]

    @property
    def state(self) -> GroupState:
        """Its state."""
        return self.group.state

    @property
    def generation(self) -> int:
        """Its generation."""
        return self.group.generation_id

    @property
    def member_ids(self) -> set[str]:
        """Its members."""
        return set(self.group.members)

    def snapshot(self) -> object:
        """Return the visible state of all groups, to compare before and after."""
        groups = {
            group_id: (
                group.state,
                group.generation_id,
                group.leader_id,
                group.protocol_type,
                group.protocol_name,
                sorted(group.pending_members),
                sorted((member.member_id, member.group_instance_id or "") for member in group.members.values()),
                self.coordinator.waiting_for(group_id),
                self.describe(group_id),
                self.fetch(group_id=group_id),
            )
            for group_id, group in self.coordinator.groups.items()
        }
        return groups, self.coordinator.next_due_ms(), len(self.log)

    # --- events -------------------------------------------------------------------------------------------------------

    def rebalances(self, since: int = 0) -> list[tuple[Trigger | None, str | None]]:
        """Return trigger and culprit of the rebalances since the mark."""
        started = []
        for event in self.events.since(since, EventKind.REBALANCE_STARTED):
            assert isinstance(event.detail, RebalanceStarted)
            started.append((event.trigger, event.detail.culprit))
        return started

    # --- time ---------------------------------------------------------------------------------------------------------

    def advance_ms(self, duration_ms: int, *, heartbeating: Sequence[Member] = (), every_ms: int = 3_000) -> None:
        """Advance time and fire timers at their deadlines; members in `heartbeating` send heartbeats."""
        until_ms = self.now_ms + duration_ms
        while heartbeating and self.now_ms + every_ms < until_ms:
            self._advance(self.now_ms + every_ms)
            for member in heartbeating:
                member.heartbeat()
        self._advance(until_ms)

    def _advance(self, until_ms: int) -> None:
        for _ in range(_MAX_TICKS):
            due = self.coordinator.next_due_ms()
            if due is None or due > until_ms:
                self.now_ms = until_ms
                return
            self.now_ms = max(self.now_ms, due)
            self.execute(self.coordinator.tick(self.now_ms))
        raise AssertionError("timers fire without end")

    # --- effects ------------------------------------------------------------------------------------------------------

    def hold_writes(self) -> None:
        """Keep writes pending until `release_writes`."""
        self._holding = True

    def release_writes(self, error: Error = Error.NONE) -> None:
        """Complete the held writes with this result; later writes complete at once again."""
        self._holding = False
        for write in self._writes:
            write.error = error
        self.execute([])

    def release_writes_one_by_one(self, outcomes: Iterable[Error]) -> None:
        """Complete the held writes, each with its own result."""
        self._holding = False
        for write, error in zip(self._writes, outcomes, strict=True):
            write.error = error
        self.execute([])

    def fail_next_write(self, error: Error) -> None:
        """Make the next write fail."""
        self._next_errors.append(error)

    def execute(self, effects: list[Effect]) -> None:
        """Execute effects in order, then report finished writes, then fire due timers."""
        self._to_do.extend(effects)
        if self._busy:
            return
        self._busy = True
        try:
            self._settle()
        finally:
            self._busy = False

    def _settle(self) -> None:
        for _ in range(_MAX_TICKS):
            if self._to_do:
                self._execute_one(self._to_do.popleft())
            elif self._writes and self._writes[0].error is not None:
                write = self._writes.popleft()
                error = cast(Error, write.error)
                if error is Error.NONE:
                    if (transaction := write.append.transaction) is not None:
                        added = range(len(self.log), len(self.log) + len(write.append.records))
                        self.producers |= dict.fromkeys(added, transaction.producer_id)
                    self.log.extend(write.append.records)
                self._to_do.extend(self.coordinator.on_append_result(write.append.write_id, error, self.now_ms))
            elif (due := self.coordinator.next_due_ms()) is not None and due <= self.now_ms:
                self._to_do.extend(self.coordinator.tick(self.now_ms))
            else:
                return
        raise AssertionError("effects without end")

    def _execute_one(self, effect: Effect) -> None:
        match effect:
            case AppendRecords():
                self.appended.append(effect)
                if self._next_errors:
                    outcome: Error | None = self._next_errors.popleft()
                else:
                    outcome = None if self._holding else Error.NONE
                self._writes.append(_Write(effect, outcome))
            case SendResponse():
                call = cast("Call[Any]", effect.reply_to)
                call.responses.append(effect.response)
                call.responded_ms = self.now_ms
                if call.on_response is not None:
                    call.on_response(effect.response)
            case PublishEvent():
                self.events.all.append(effect.event)

    def next_uuid(self) -> str:
        """Return the next id, which the shell would draw at random."""
        self._uuids += 1
        return f"uuid-{self._uuids}"
