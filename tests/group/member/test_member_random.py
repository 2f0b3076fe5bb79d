"""A member among a mad broker, a mad application and a mad clock.

Whatever is answered, in whatever order
- nothing raises but the caller's own mistakes;
- partitions come and go only with a `NotifyListener`, and one listener call is out at a time;
- no heartbeat without a generation, a static member never sends LeaveGroup, and one JoinGroup or SyncGroup is out;
- under POLL no JoinGroup outside poll;
- `tick` at `next_due_ms` always makes progress: a shell never spins;
- commits end once each, asynchronous ones in order;
- a closed member is silent;
- and once everybody behaves, it is stable within a minute and owns what it was given.

A walk is a seed: run one alone with `pytest -k "walk[17]"`.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from slackwater.group.assignors import CooperativeStickyAssignor, RangeAssignor, TopicInfo
from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.errors import Error, UsageError
from slackwater.group.events import EventKind
from slackwater.group.member import (
    Callback,
    CommitDone,
    Disconnect,
    EmitEvent,
    GroupMember,
    MemberConfig,
    MemberEffect,
    MemberState,
    NotifyListener,
    OffsetAndMetadata,
    OffsetsFetched,
    RebalanceDriver,
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
TOPICS = [["t"], ["u"], ["t", "u"], []]
GARBAGE = [b"", b"\x00", b"\x00\x00\x00\x00\x00\x09", b"\xff\xff\xff\xff"]
LIKELY_ERRORS = [
    Error.REBALANCE_IN_PROGRESS,
    Error.UNKNOWN_MEMBER_ID,
    Error.ILLEGAL_GENERATION,
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.MEMBER_ID_REQUIRED,
    Error.FENCED_INSTANCE_ID,
]
STEPS = 250
SUBSCRIPTION = encode_subscription(Subscription(("t", "u")))


class MadWorld:
    """One member, and everybody who torments it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        cooperative, static, auto_commit = (self.random.random() < 0.5 for _ in range(3))
        self.machine = GroupMember(
            MemberConfig(
                group_id="g",
                client_id="c",
                group_instance_id="i" if static else None,
                max_poll_interval_ms=20_000,
                session_timeout_ms=10_000,
                enable_auto_commit=auto_commit,
                assignors=(CooperativeStickyAssignor(),) if cooperative else (RangeAssignor(),),
                driver=self.random.choice(list(RebalanceDriver)),
            )
        )
        self.now_ms = 1_000
        self.open: dict[int, Send] = {}
        self.late: list[int] = []
        self.gone: tuple[TopicPartition, ...] = ()
        self.asked: list[tuple[int, bool]] = []
        self.ended: list[int] = []
        self.fetches = 0
        self.generation_id = 0
        self.calm = False
        self.before = self.machine.state
        self.do(self.machine.subscribe(["t"], self.now_ms), "subscribe")

    def do(self, effects: list[MemberEffect], cause: str, owned: frozenset[TopicPartition] = frozenset()) -> None:
        """Check effects against the rules, and remember what is out."""
        machine = self.machine
        poll_driven = machine.config.driver is RebalanceDriver.POLL
        notified = [effect for effect in effects if isinstance(effect, NotifyListener)]
        assert len(notified) <= 1
        assert machine.is_notifying_listener is bool(notified) or (
            machine.is_notifying_listener and cause != "on_listener_done"
        )
        for effect in effects:
            match effect:
                case Send(request=request):
                    self.open[effect.request_id] = effect
                    assert not (isinstance(request, LeaveGroup) and machine.config.is_static)
                    assert not isinstance(request, Heartbeat) or (self.before.sends_heartbeats and cause == "tick")
                    if isinstance(request, JoinGroup) and poll_driven:
                        assert cause in ("poll", "on_listener_done")
                case EmitEvent(event=event) if event.kind is EventKind.COORDINATOR_LOST:
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
        owned, closed, gone = self.machine.owned, self.machine.is_closed, self.gone
        self.before = self.machine.state
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
            assert self.machine.is_closed or (name == "on_listener_done" and lost <= set(gone))
        self.do(effects or [], name, owned)

    def run(self) -> None:
        """Walk."""
        weighted: list[tuple[int, Callable[[], None]]] = [
            (12, self.time_passes),
            (12, self.poll),
            (12, self.tick_when_due),
            (4, self.jump_to_the_next_deadline),
            (12, self.everything_goes_well_for_a_while),
            (30, self.answer),
            (5, self.fail),
            (3, self.answer_late),
            (20, self.listener_returns),
            (4, self.subscribe),
            (2, self.change_what_is_wanted),
            (3, self.enforce_rebalance),
            (8, self.hold_or_release),
            (8, self.commit),
            (3, self.fetch_committed),
            (6, self.consume),
            (4, self.metadata),
        ]
        weights, deeds = [weight for weight, _ in weighted], [deed for _, deed in weighted]
        for deed in self.random.choices(deeds, weights, k=STEPS):
            deed()
            self.readings_agree()
            self.commits_end_once_and_in_order()
        self.calm_down()
        self.call("close", self.now_ms, timeout_ms=5_000)
        while not self.machine.is_closed:
            self.jump_to_the_next_deadline()
            self.listener_returns()
        self.commits_end_once_and_in_order()
        self.poll()
        self.tick_when_due()

    def calm_down(self) -> None:
        """Stop injecting faults; the member must recover."""
        self.calm = True
        self.listener_catches_up()
        self.call("unsubscribe", self.now_ms)
        self.listener_catches_up()
        self.call("subscribe", ["t", "u"], self.now_ms)
        self.call("release", PARTITIONS, self.now_ms)
        for _ in range(60):
            self.everything_goes_well_for_a_while()
            self.now_ms += 1_000
        assert self.machine.state is MemberState.STABLE
        assert not self.machine.needs_rejoin
        assert self.machine.owned == frozenset(PARTITIONS)

    def listener_catches_up(self) -> None:
        while self.machine.is_notifying_listener:
            self.call("on_listener_done", self.now_ms)

    def some(self) -> list[TopicPartition]:
        """A few partitions."""
        return self.random.sample(PARTITIONS, self.random.randint(0, 4))

    # --- time and the application -----------------------------------------------------------------------------

    def time_passes(self) -> None:
        self.now_ms += self.random.choice([0, 1, 100, 1_000, 3_000, 12_000, 25_000])

    def poll(self) -> None:
        self.call("poll", self.now_ms)

    def tick_when_due(self) -> None:
        for _ in range(4):
            due_ms = self.machine.next_due_ms()
            if due_ms is None or due_ms > self.now_ms:
                return
            self.call("tick", self.now_ms)
        due_ms = self.machine.next_due_ms()
        assert due_ms is None or due_ms > self.now_ms, "a shell would spin"

    def jump_to_the_next_deadline(self) -> None:
        if (due_ms := self.machine.next_due_ms()) is not None:
            self.now_ms = max(self.now_ms, due_ms)
            self.call("tick", self.now_ms)

    def subscribe(self) -> None:
        self.call("subscribe", self.random.choice(TOPICS), self.now_ms)

    def change_what_is_wanted(self) -> None:
        self.call("unsubscribe", self.now_ms)
        self.listener_returns()
        match self.random.randint(0, 2):
            case 0:
                self.call("assign", self.some(), self.now_ms)
            case 1:
                self.call("subscribe_pattern", "t.*", self.now_ms)
            case _:
                self.subscribe()

    def enforce_rebalance(self) -> None:
        self.call("enforce_rebalance", "", self.now_ms)

    def hold_or_release(self) -> None:
        if self.random.random() < 0.5:
            self.machine.hold([*self.some(), *self.machine.owned])
        else:
            self.call("release", [*self.some(), *self.machine.leaving], self.now_ms)

    def listener_returns(self) -> None:
        if self.machine.is_notifying_listener:
            error = self.random.choice([None, None, None, None, ValueError("odd"), Wakeup()])
            self.call("on_listener_done", self.now_ms, error)

    def commit(self) -> None:
        commit_id, sync = len(self.asked), self.random.random() < 0.5
        self.asked.append((commit_id, sync))
        offsets = {partition: OffsetAndMetadata(5) for partition in self.some()}
        self.call("commit", offsets, self.now_ms, commit_id=commit_id, sync=sync)

    def fetch_committed(self) -> None:
        self.fetches += 1
        self.call("fetch_committed", self.some(), self.now_ms)

    def consume(self) -> None:
        self.machine.set_consumed({partition: OffsetAndMetadata(9) for partition in self.some()})

    def everything_goes_well_for_a_while(self) -> None:
        for _ in range(self.random.randint(1, 8)):
            self.metadata()
            self.poll()
            self.tick_when_due()
            if self.machine.is_notifying_listener:
                self.call("on_listener_done", self.now_ms)
            for request_id in sorted(self.open):
                if (send := self.open.pop(request_id, None)) is not None:
                    self.call("on_response", request_id, self.response(send.request, well=True), self.now_ms)

    # --- the broker -------------------------------------------------------------------------------------------

    def metadata(self) -> None:
        cluster = {"t": TopicInfo(3), "u": TopicInfo(3 if self.calm else self.random.choice([2, 3, 3, 3]))}
        self.call("on_metadata", cluster, self.now_ms)

    def answer(self) -> None:
        if self.open:
            request_id = self.random.choice(sorted(self.open))
            response = self.response(self.open.pop(request_id).request, well=self.random.random() < 0.6)
            self.call("on_response", request_id, response, self.now_ms)

    def fail(self) -> None:
        if self.open:
            request_id = self.random.choice(sorted(self.open))
            del self.open[request_id]
            self.call("on_request_failed", request_id, self.now_ms)

    def answer_late(self) -> None:
        if self.late:
            before = self.machine.generation_id
            self.call("on_response", self.late.pop(), HeartbeatResponse(Error.UNKNOWN_MEMBER_ID), self.now_ms)
            assert self.machine.generation_id == before

    def response(self, request: MemberRequest, *, well: bool) -> MemberResponse:
        """Something a broker may say."""
        random = self.random
        error = Error.NONE
        if not well and (luck := random.random()) > 0.2:  # below, a good code comes with bad bytes
            error = random.choice(LIKELY_ERRORS if luck < 0.8 else list(Error))
        match request:
            case FindCoordinator():
                return FindCoordinatorResponse(error, random.randint(0, 2), "h", 9092)
            case JoinGroup():
                leads = random.random() < 0.5
                me = JoinedMember("m", None, request.protocols[0].metadata)
                other = JoinedMember("n", None, SUBSCRIPTION if well else random.choice(GARBAGE))
                self.generation_id += random.randint(1, 2)
                return JoinGroupResponse(
                    error,
                    "m",
                    self.generation_id,
                    random.choice(["consumer", None] if well else ["consumer", None, "connect"]),
                    request.protocols[0].name if well or random.random() < 0.8 else None,
                    "m" if leads else "n",
                    random.random() < 0.2,
                    (me, other) if leads else (),
                )
            case SyncGroup():
                fitting = [
                    one for one in (PARTITIONS if self.calm else self.some()) if one.topic in self.machine.subscription
                ]
                part = encode_assignment(Assignment(tuple(fitting)))
                return SyncGroupResponse(error, None, None, part if well else random.choice(GARBAGE))
            case Heartbeat():
                return HeartbeatResponse(error)
            case LeaveGroup():
                return LeaveGroupResponse(error)
            case OffsetCommit():
                return OffsetCommitResponse(
                    tuple(CommittedPartition(one.topic, one.partition, error) for one in request.offsets)
                )
            case OffsetFetch():
                top, each = (Error.NONE, error) if random.random() < 0.5 else (error, Error.NONE)
                offsets = (FetchedOffset("t", 0, random.randint(-1, 5), error=each),)
                return OffsetFetchResponse((FetchedGroup("g", top, offsets),))

    # --- what always holds ------------------------------------------------------------------------------------

    def readings_agree(self) -> None:
        machine = self.machine
        assert machine.fetchable <= machine.owned
        assert machine.leaving <= machine.owned
        assert (machine.generation_id == -1) or machine.state is not MemberState.UNJOINED
        assert not machine.state.sends_heartbeats or machine.generation_id != -1
        for name, value in machine.metrics(self.now_ms).items():
            assert value != value or value >= -1, name

    def commits_end_once_and_in_order(self) -> None:
        assert len(self.ended) == len(set(self.ended))
        sync = dict(self.asked)
        in_order = [commit_id for commit_id in self.ended if not sync[commit_id]]
        assert in_order == sorted(in_order)
        if self.machine.is_closed:
            assert sorted(self.ended) == [commit_id for commit_id, _ in self.asked]
            assert self.fetches == 0
            assert self.machine.next_due_ms() is None


@pytest.mark.parametrize("seed", range(100))
def test_walk(seed: int) -> None:
    MadWorld(seed).run()
