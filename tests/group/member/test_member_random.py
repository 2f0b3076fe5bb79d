"""A member among a mad broker, a mad application and a mad clock.

Whatever is answered, in whatever order
- nothing raises but the caller's own mistakes;
- partitions come and go only with a `Notify`, and one listener call is out at a time;
- nobody beats without a generation, a static member never sends LeaveGroup, and one JoinGroup or SyncGroup is out;
- under POLL nobody joins outside poll;
- `tick` at `next_due_ms` always makes progress: a shell never spins;
- commits end once each, asynchronous ones in order;
- a closed member is silent.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slackwater.group.assignors import CooperativeStickyAssignor, RangeAssignor, TopicInfo
from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.errors import Error, UsageError
from slackwater.group.events import Kind
from slackwater.group.member import (
    Callback,
    CommitDone,
    Disconnect,
    Driver,
    Effect,
    Emit,
    GroupMember,
    MemberConfig,
    MemberState,
    Notify,
    OffsetAndMetadata,
    OffsetsFetched,
    Send,
    Wakeup,
)
from slackwater.group.member.effects import MemberRequest, MemberResponse
from slackwater.group.messages import (
    CommittedPartition,
    FetchedGroup,
    FetchedOffset,
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
    SyncGroup,
    SyncGroupResponse,
)
from slackwater.group.topic_partition import TopicPartition

PARTITIONS = [TopicPartition(topic, n) for topic in ("t", "u") for n in range(3)]
some_partitions = st.lists(st.sampled_from(PARTITIONS), unique=True, max_size=4)
# Mostly good answers, now and then one of those that matter, seldom anything at all.
likely_errors = st.sampled_from(
    [
        Error.REBALANCE_IN_PROGRESS,
        Error.UNKNOWN_MEMBER_ID,
        Error.ILLEGAL_GENERATION,
        Error.NOT_COORDINATOR,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.MEMBER_ID_REQUIRED,
        Error.FENCED_INSTANCE_ID,
    ]
)
errors = st.integers(0, 9).flatmap(
    lambda n: st.just(Error.NONE) if n < 7 else likely_errors if n < 9 else st.sampled_from(list(Error))
)
topics = st.lists(st.sampled_from(["t", "u"]), unique=True, max_size=2)
garbage = st.sampled_from([b"", b"\x00", b"\x00\x00\x00\x00\x00\x09", b"\xff\xff\xff\xff"])
SUBSCRIPTION = encode_subscription(Subscription(("t", "u")))


class MadWorld(RuleBasedStateMachine):
    """One member, and everybody who torments it."""

    @initialize(
        driver=st.sampled_from(Driver),
        cooperative=st.booleans(),
        static=st.booleans(),
        auto_commit=st.booleans(),
    )
    def start(self, driver: Driver, cooperative: bool, static: bool, auto_commit: bool) -> None:
        """Make the member."""
        self.machine = GroupMember(
            MemberConfig(
                group_id="g",
                client_id="c",
                group_instance_id="i" if static else None,
                max_poll_interval_ms=20_000,
                session_timeout_ms=10_000,
                enable_auto_commit=auto_commit,
                assignors=(CooperativeStickyAssignor(),) if cooperative else (RangeAssignor(),),
                driver=driver,
            )
        )
        self.now_ms = 1_000
        self.open: dict[int, Send] = {}
        self.late: list[int] = []
        self.gone: tuple[TopicPartition, ...] = ()
        self.asked: list[tuple[int, bool]] = []
        self.ended: list[int] = []
        self.fetches = 0
        self.do(self.machine.subscribe(["t"], self.now_ms), "subscribe")

    def do(self, effects: list[Effect], cause: str, owned: frozenset[TopicPartition] = frozenset()) -> None:
        """Check effects against the rules, and remember what is out."""
        machine = self.machine
        poll_driven = machine.config.driver is Driver.POLL
        notified = [effect for effect in effects if isinstance(effect, Notify)]
        assert len(notified) <= 1
        assert machine.listening is bool(notified) or (machine.listening and cause != "listener_done")
        for effect in effects:
            match effect:
                case Send(request=request):
                    self.open[effect.request_id] = effect
                    assert not (isinstance(request, LeaveGroup) and machine.config.is_static)
                    assert not isinstance(request, Heartbeat) or machine.state.beats
                    if isinstance(request, JoinGroup) and poll_driven:
                        assert cause in ("poll", "listener_done")
                case Emit(event=event) if event.kind is Kind.COORDINATOR_LOST:
                    for request_id in [id for id, send in self.open.items() if send.to_coordinator]:
                        del self.open[request_id]
                        self.late.append(request_id)
                case CommitDone():
                    self.ended.append(effect.commit_id)
                case OffsetsFetched():
                    self.fetches -= 1
                case Disconnect():
                    assert machine.coordinator is None
                case _:
                    pass
        rounds = [send for send in self.open.values() if isinstance(send.request, JoinGroup | SyncGroup)]
        assert len(rounds) <= 1
        added = machine.owned - owned
        assert added <= {partition for effect in notified for partition in effect.partitions}
        assert all(effect.callback is Callback.ASSIGNED for effect in notified) or not added
        if notified:
            self.gone = () if notified[0].callback is Callback.ASSIGNED else notified[0].partitions

    def call(self, name: str, *args: Any, **more: Any) -> None:
        """Call the machine, and hold the result against the rules."""
        owned, closed, gone = self.machine.owned, self.machine.closed, self.gone
        manual = not self.machine.needs_rejoin and self.machine.state is MemberState.UNJOINED
        try:
            effects = getattr(self.machine, name)(*args, **more)
        except UsageError:
            assert self.machine.owned == owned
            return
        if closed:
            assert not effects
            return
        if name == "assign" or (manual and name in ("subscribe", "unsubscribe", "close", "tick")):
            owned = self.machine.owned
        if lost := owned - self.machine.owned:
            assert self.machine.closed or (name == "listener_done" and lost <= set(gone))
        self.do(effects or [], name, owned)

    # --- time and the application -----------------------------------------------------------------------------

    @rule(ms=st.sampled_from([0, 1, 100, 1_000, 3_000, 12_000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def poll(self) -> None:
        self.call("poll", self.now_ms)

    @rule()
    def tick_when_due(self) -> None:
        for _ in range(4):
            due_ms = self.machine.next_due_ms()
            if due_ms is None or due_ms > self.now_ms:
                return
            self.call("tick", self.now_ms)
        due_ms = self.machine.next_due_ms()
        assert due_ms is None or due_ms > self.now_ms, "a shell would spin"

    @rule()
    def jump_to_the_next_deadline(self) -> None:
        if (due_ms := self.machine.next_due_ms()) is not None:
            self.now_ms = max(self.now_ms, due_ms)
            self.call("tick", self.now_ms)

    @rule(wanted=topics)
    def subscribe(self, wanted: list[str]) -> None:
        self.call("subscribe", wanted, self.now_ms)

    @rule()
    def subscribe_to_a_pattern(self) -> None:
        self.call("subscribe_pattern", "t.*", self.now_ms)

    @rule(partitions=some_partitions, n=st.integers(0, 9))
    def assign(self, partitions: list[TopicPartition], n: int) -> None:
        if n == 0:
            self.call("assign", partitions, self.now_ms)

    @rule(n=st.integers(0, 9))
    def unsubscribe(self, n: int) -> None:
        if n == 0:
            self.call("unsubscribe", self.now_ms)

    @rule(n=st.integers(0, 20))
    def close(self, n: int) -> None:
        if n == 0:
            self.call("close", self.now_ms, timeout_ms=5_000)

    @rule()
    def enforce_rebalance(self) -> None:
        self.call("enforce_rebalance", "", self.now_ms)

    @rule(partitions=some_partitions, hold=st.booleans())
    def hold_or_release(self, partitions: list[TopicPartition], hold: bool) -> None:
        if hold:
            self.machine.hold(partitions)
        else:
            self.call("release", partitions, self.now_ms)

    @precondition(lambda self: self.machine.listening)
    @rule(error=st.sampled_from([None, None, None, ValueError("odd"), Wakeup()]))
    def listener_returns(self, error: BaseException | None) -> None:
        self.call("listener_done", self.now_ms, error)

    @rule(partitions=some_partitions, sync=st.booleans())
    def commit(self, partitions: list[TopicPartition], sync: bool) -> None:
        commit_id = len(self.asked)
        if not self.machine.closed:
            before = len(self.asked)
            self.asked.append((commit_id, sync))
            offsets = {partition: OffsetAndMetadata(5) for partition in partitions}
            try:
                self.do(
                    self.machine.commit(offsets, self.now_ms, commit_id=commit_id, sync=sync),
                    "commit",
                    self.machine.owned,
                )
            except UsageError:
                del self.asked[before:]

    @rule(partitions=some_partitions)
    def fetch_committed(self, partitions: list[TopicPartition]) -> None:
        try:
            effects = self.machine.fetch_committed(partitions, self.now_ms)
        except UsageError:
            return
        self.fetches += 1
        self.do(effects, "fetch", self.machine.owned)

    @rule(partitions=some_partitions)
    def consume(self, partitions: list[TopicPartition]) -> None:
        self.machine.consumed({partition: OffsetAndMetadata(9) for partition in partitions})

    @rule(data=st.data())
    def everything_goes_well_for_a_while(self, data: st.DataObject) -> None:
        for _ in range(8):
            self.poll()
            self.tick_when_due()
            if self.machine.listening:
                self.call("listener_done", self.now_ms)
            for request_id in sorted(self.open):
                if (send := self.open.pop(request_id, None)) is not None:
                    self.call("answered", request_id, self.response(send.request, data, Error.NONE), self.now_ms)

    # --- the broker -------------------------------------------------------------------------------------------

    @rule(partitions=st.integers(0, 3))
    def metadata(self, partitions: int) -> None:
        cluster = {"t": TopicInfo(3), "u": TopicInfo(partitions)} if partitions else {"t": TopicInfo(3)}
        self.call("metadata", cluster, self.now_ms)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.open)))
        response = self.response(self.open.pop(request_id).request, data)
        self.call("answered", request_id, response, self.now_ms)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def answer_well(self, data: st.DataObject) -> None:
        request_id = min(self.open)
        response = self.response(self.open.pop(request_id).request, data, Error.NONE)
        self.call("answered", request_id, response, self.now_ms)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.open)))
        del self.open[request_id]
        self.call("failed", request_id, self.now_ms)

    @precondition(lambda self: self.late)
    @rule()
    def answer_late(self) -> None:
        before = self.machine.state
        self.call("answered", self.late.pop(), HeartbeatResponse(Error.UNKNOWN_MEMBER_ID), self.now_ms)
        if self.machine.config.driver is Driver.POLL:
            assert self.machine.state is before or self.machine.state is MemberState.UNJOINED

    def response(self, request: MemberRequest, data: st.DataObject, error: Error | None = None) -> MemberResponse:
        """Something a broker may say."""
        code = data.draw(errors) if error is None else error
        match request:
            case FindCoordinator():
                return FindCoordinatorResponse(code, data.draw(st.integers(0, 2)), "h", 9092)
            case JoinGroup():
                leads = data.draw(st.booleans())
                me = JoinedMember("m", None, request.protocols[0].metadata)
                other = JoinedMember("n", None, data.draw(garbage) if error is None else SUBSCRIPTION)
                return JoinGroupResponse(
                    code,
                    "m",
                    data.draw(st.integers(1, 5)),
                    data.draw(st.sampled_from(["consumer", None])),
                    request.protocols[0].name if error is Error.NONE or data.draw(st.integers(0, 4)) else None,
                    "m" if leads else "n",
                    data.draw(st.booleans()),
                    (me, other) if leads else (),
                )
            case SyncGroup():
                fitting = [one for one in data.draw(some_partitions) if one.topic in self.machine.subscription]
                part = encode_assignment(Assignment(tuple(fitting)))
                return SyncGroupResponse(code, None, None, data.draw(garbage) if error is None else part)
            case Heartbeat():
                return HeartbeatResponse(code)
            case LeaveGroup():
                return LeaveGroupResponse(code)
            case OffsetCommit():
                return OffsetCommitResponse(
                    tuple(CommittedPartition(one.topic, one.partition, code) for one in request.offsets)
                )
            case OffsetFetch():
                top, each = (Error.NONE, code) if data.draw(st.booleans()) else (code, Error.NONE)
                offsets = (FetchedOffset("t", 0, data.draw(st.integers(-1, 5)), error=each),)
                return OffsetFetchResponse((FetchedGroup("g", top, offsets),))

    # --- what always holds ------------------------------------------------------------------------------------

    @invariant()
    def readings_agree(self) -> None:
        machine = self.machine
        assert machine.fetchable <= machine.owned
        assert machine.leaving <= machine.owned
        assert (machine.generation_id == -1) or machine.state is not MemberState.UNJOINED
        assert not machine.state.beats or machine.generation_id != -1
        for name, value in machine.metrics(self.now_ms).items():
            assert value != value or value >= -1, name

    @invariant()
    def commits_end_once_and_in_order(self) -> None:
        assert len(self.ended) == len(set(self.ended))
        sync = dict(self.asked)
        in_order = [commit_id for commit_id in self.ended if not sync[commit_id]]
        assert in_order == sorted(in_order)
        if self.machine.closed:
            assert sorted(self.ended) == [commit_id for commit_id, _ in self.asked]
            assert self.fetches == 0
            assert self.machine.next_due_ms() is None


TestMadWorld = MadWorld.TestCase
TestMadWorld.settings = settings(
    max_examples=120, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
