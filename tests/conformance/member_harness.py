"""One member in memory, for tests; the test acts as broker, application and clock.

Invariants:
- The test polls, ticks and responds. Only metadata arrives at once, unless `cluster` is None.
- The listener returns at once, unless `listener_takes`, `listener_throws` or `slow_listener` is set.
- Time is `now_ms`; only `advance_ms` changes it.

Example:

    member = MemberHarness()
    member.settle("t-0 t-1")
    member.advance_ms(3_000); member.tick()
    member.respond(HeartbeatResponse(Error.REBALANCE_IN_PROGRESS))
    assert member.poll().sent(JoinGroup).member_id == "m1"
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from slackwater.group.assignors import Assignor, CooperativeStickyAssignor, RangeAssignor, TopicInfo
from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.errors import Error, SlackwaterError
from slackwater.group.events import EventKind, GroupEvent, PublishEvent
from slackwater.group.member import (
    Callback,
    CommitDone,
    CoordinatorNode,
    Disconnect,
    GroupMember,
    MemberConfig,
    MemberEffect,
    MemberState,
    NotifyListener,
    OffsetAndMetadata,
    OffsetsFetched,
    Raise,
    RefreshMetadata,
    Send,
)
from slackwater.group.member.effects import MemberRequest, MemberResponse
from slackwater.group.messages import (
    FindCoordinator,
    FindCoordinatorResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinedMember,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetResult,
    SyncGroup,
    SyncGroupResponse,
)
from slackwater.group.topic_partition import TopicPartition

START_MS: Final = 1_000_000
EAGER: Final[tuple[Assignor, ...]] = (RangeAssignor(),)
COOPERATIVE: Final[tuple[Assignor, ...]] = (CooperativeStickyAssignor(),)
NODE: Final = FindCoordinatorResponse(Error.NONE, 1, "broker", 9092)

_REQUEST_TYPES: Final[dict[type[Any], type[Any]]] = {
    FindCoordinatorResponse: FindCoordinator,
    JoinGroupResponse: JoinGroup,
    SyncGroupResponse: SyncGroup,
    HeartbeatResponse: Heartbeat,
    LeaveGroupResponse: LeaveGroup,
    OffsetCommitResponse: OffsetCommit,
    OffsetFetchResponse: OffsetFetch,
}
Q = TypeVar("Q", bound=MemberRequest)


def tps(text: str) -> tuple[TopicPartition, ...]:
    """Parse partitions such as `t-0`."""
    return tuple(TopicPartition(topic, int(number)) for topic, _, number in (w.rpartition("-") for w in text.split()))


def at(text: str, offset: int = 10) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return these partitions, all with one offset."""
    return {partition: OffsetAndMetadata(offset) for partition in tps(text)}


def assignment_bytes(text: str) -> bytes:
    """Return an encoded assignment."""
    return encode_assignment(Assignment(tps(text)))


def subscription_bytes(*topics: str, owned: str = "", generation_id: int = -1) -> bytes:
    """Return an encoded subscription."""
    return encode_subscription(Subscription(topics, None, tps(owned), generation_id))


def commit_response(*errors: Error) -> OffsetCommitResponse:
    """Return the response to a commit of t-0, t-1, …, by default a successful one of t-0."""
    errors = errors or (Error.NONE,)
    return OffsetCommitResponse(tuple(OffsetResult("t", n, error) for n, error in enumerate(errors)))


class MemberHarness:
    """One member and its effects."""

    def __init__(
        self,
        *,
        topics: Iterable[str] = ("t",),
        pattern: str | None = None,
        cluster: Mapping[str, int] | None = None,
        subscribe: bool = True,
        assignors: tuple[Assignor, ...] = EAGER,
        now_ms: int = START_MS,
        **settings: Any,
    ) -> None:
        defaults: dict[str, Any] = {"group_id": "orders", "client_id": "c1", "enable_auto_commit": False}
        self.machine = GroupMember(MemberConfig(**(defaults | {"assignors": assignors} | settings)))
        self.now_ms = now_ms
        self.cluster: dict[str, TopicInfo] | None = {
            topic: TopicInfo(partitions) for topic, partitions in (cluster or {"t": 4, "u": 2}).items()
        }
        self.open: dict[int, Send] = {}
        self.all_sent: list[MemberRequest] = []
        self.callbacks: list[tuple[Callback, tuple[TopicPartition, ...]]] = []
        self.events: list[GroupEvent] = []
        self.raised: list[SlackwaterError] = []
        self.commits: list[CommitDone] = []
        self.fetched: list[OffsetsFetched] = []
        self.refreshes: list[RefreshMetadata] = []
        self.disconnects: list[Disconnect] = []
        self.slow_listener = False
        self.listener_takes = 0
        self.listener_throws: list[BaseException | None] = []
        if subscribe and pattern is not None:
            self.execute(self.machine.subscribe_pattern(pattern, self.now_ms))
        elif subscribe:
            self.execute(self.machine.subscribe(topics, self.now_ms))

    # --- execution ----------------------------------------------------------------------------------------------------

    def execute(self, effects: list[MemberEffect]) -> "MemberHarness":
        """Execute effects in order."""
        for effect in effects:
            match effect:
                case Send():
                    self.on_send(effect)
                case NotifyListener():
                    self.callbacks.append((effect.callback, effect.partitions))
                    if not self.slow_listener:
                        self.now_ms += self.listener_takes
                        error = self.listener_throws.pop(0) if self.listener_throws else None
                        self.execute(self.machine.on_listener_done(self.now_ms, error))
                case RefreshMetadata():
                    self.refreshes.append(effect)
                    if self.cluster is not None:
                        self.execute(self.machine.on_metadata(self.cluster, self.now_ms))
                case PublishEvent():
                    self.events.append(effect.event)
                case Raise():
                    self.raised.append(effect.error)
                case CommitDone():
                    self.commits.append(effect)
                case OffsetsFetched():
                    self.fetched.append(effect)
                case Disconnect():
                    self.disconnects.append(effect)
        return self

    def on_send(self, send: Send) -> None:
        """Store a request until the test responds."""
        self.open[send.request_id] = send
        self.all_sent.append(send.request)

    def advance_ms(self, ms: int) -> "MemberHarness":
        """Advance time without calling the member."""
        self.now_ms += ms
        return self

    def poll(self) -> "MemberHarness":
        """Poll once."""
        return self.execute(self.machine.poll(self.now_ms))

    def tick(self) -> "MemberHarness":
        """Run the heartbeat thread or the background driver."""
        return self.execute(self.machine.tick(self.now_ms))

    def listener_done(self, error: BaseException | None = None) -> "MemberHarness":
        """Return from a slow listener."""
        return self.execute(self.machine.on_listener_done(self.now_ms, error))

    # --- requests -----------------------------------------------------------------------------------------------------

    def sends(self, kind: type[Q]) -> list[Send]:
        """Return the pending requests of this type."""
        return [send for send in self.open.values() if isinstance(send.request, kind)]

    def send_of(self, kind: type[Q]) -> Send:
        """Return the only pending request of this type as a `Send`."""
        (send,) = self.sends(kind)
        return send

    def sent(self, kind: type[Q]) -> Q:
        """Return the only pending request of this type."""
        request = self.send_of(kind).request
        assert isinstance(request, kind)
        return request

    def ever_sent(self, kind: type[Q]) -> list[Q]:
        """Return all requests of this type."""
        return [request for request in self.all_sent if isinstance(request, kind)]

    def respond(self, response: MemberResponse) -> "MemberHarness":
        """Respond to the oldest pending request of the matching type."""
        send = self.sends(_REQUEST_TYPES[type(response)])[0]
        del self.open[send.request_id]
        return self.execute(self.machine.on_response(send.request_id, response, self.now_ms))

    def fail(self, kind: type[Q]) -> "MemberHarness":
        """Fail the oldest pending request of this type."""
        send = self.sends(kind)[0]
        del self.open[send.request_id]
        return self.execute(self.machine.on_request_failed(send.request_id, self.now_ms))

    # --- sequences ----------------------------------------------------------------------------------------------------

    def find(self) -> "MemberHarness":
        """Poll until the coordinator is known."""
        self.poll()
        if self.sends(FindCoordinator):
            self.respond(NODE).poll()
        return self

    def join_ok(
        self, generation_id: int = 1, *, member_id: str = "m1", leader: str = "m0", **more: Any
    ) -> "MemberHarness":
        """Respond to JoinGroup."""
        protocol = self.sent(JoinGroup).protocols[0].name
        members: Iterable[JoinedMember] = more.pop("members", ())
        return self.respond(
            JoinGroupResponse(
                Error.NONE, member_id, generation_id, "consumer", protocol, leader, members=tuple(members), **more
            )
        )

    def lead(self, generation_id: int = 1, *others: JoinedMember, **more: Any) -> "MemberHarness":
        """Respond to JoinGroup: this member is the leader of itself and the others."""
        me = JoinedMember("m1", self.machine.config.group_instance_id, self.sent(JoinGroup).protocols[0].metadata)
        return self.join_ok(generation_id, leader="m1", members=(me, *others), **more)

    def sync_ok(self, partitions: str = "", **more: Any) -> "MemberHarness":
        """Respond to SyncGroup."""
        return self.respond(SyncGroupResponse(Error.NONE, assignment=assignment_bytes(partitions), **more))

    def settle(self, partitions: str = "t-0 t-1", generation_id: int = 1) -> "MemberHarness":
        """Bring the member to STABLE in this generation with these partitions."""
        if not self.sends(JoinGroup):
            self.find()
        self.join_ok(generation_id).sync_ok(partitions).poll()
        assert self.state is MemberState.STABLE
        assert not self.machine.is_notifying_listener
        return self

    def heartbeat(self, error: Error = Error.NONE) -> "MemberHarness":
        """Advance one heartbeat interval and respond to the heartbeat."""
        return self.advance_ms(3_000).tick().respond(HeartbeatResponse(error))

    # --- inspection ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> MemberState:
        """The member's state."""
        return self.machine.state

    def closed(self) -> bool:
        """Whether the member is closed."""
        return self.machine.is_closed

    def needs_rejoin(self) -> bool:
        """Whether a rejoin is pending."""
        return self.machine.needs_rejoin

    def coordinator(self) -> CoordinatorNode | None:
        """Return the known coordinator."""
        return self.machine.coordinator

    def owned(self) -> tuple[TopicPartition, ...]:
        """Return the owned partitions, sorted."""
        return tuple(sorted(self.machine.owned))

    def take_callbacks(self) -> list[tuple[Callback, tuple[TopicPartition, ...]]]:
        """Return the listener callbacks since the last call."""
        callbacks, self.callbacks = self.callbacks, []
        return callbacks

    def events_of(self, *kinds: EventKind) -> list[GroupEvent]:
        """Return the events of these kinds."""
        return [event for event in self.events if event.kind in kinds]

    def reasons(self) -> list[str]:
        """Return the reasons of all JoinGroup requests."""
        return [request.reason or "" for request in self.ever_sent(JoinGroup)]

    def sent_subscription(self) -> Subscription:
        """Return the subscription of the pending JoinGroup."""
        return decode_subscription(self.sent(JoinGroup).protocols[0].metadata)
