"""A member with a random broker, a random application and a random clock.

Invariants, for all responses in any order:
- Only incorrect calls raise.
- Owned partitions change only with a `NotifyListener`, and at most one listener call is pending.
- There is no heartbeat without a generation, no LeaveGroup from a static member, and at most one JoinGroup or SyncGroup
  in flight.
- With the POLL driver, JoinGroup is sent only in `poll`.
- `tick` at `next_due_ms` always makes progress, so a shell never loops.
- Every commit completes once, and asynchronous commits complete in order.
- A closed member has no effects.
- Without further faults, the member is stable within a minute and owns its assignment.

Run one seed alone with `pytest -k "random_run[17]"`.
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
from slackwater.group.events import EventKind, PublishEvent
from slackwater.group.member import (
    Callback,
    CommitDone,
    Disconnect,
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
    OffsetResult,
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


class RandomRun:
    """One member and its random environment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        is_cooperative, is_static, has_auto_commit = (self.random.random() < 0.5 for _ in range(3))
        self.machine = GroupMember(
            MemberConfig(
                group_id="g",
                client_id="c",
                group_instance_id="i" if is_static else None,
                max_poll_interval_ms=20_000,
                session_timeout_ms=10_000,
                enable_auto_commit=has_auto_commit,
                assignors=(CooperativeStickyAssignor(),) if is_cooperative else (RangeAssignor(),),
                driver=self.random.choice(list(RebalanceDriver)),
            )
        )
        self.now_ms = 1_000
        self.open: dict[int, Send] = {}
        self.late: list[int] = []
        self.removed: tuple[TopicPartition, ...] = ()
        self.commits: list[tuple[int, bool]] = []
        self.completed: list[int] = []
        self.fetches = 0
        self.generation_id = 0
        self.is_calm = False
        self.before = self.machine.state
        self.do(self.machine.subscribe(["t"], self.now_ms), "subscribe")

    def do(self, effects: list[MemberEffect], cause: str, owned: frozenset[TopicPartition] = frozenset()) -> None:
        """Check effects against the invariants, and record the pending requests."""
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
                case PublishEvent(event=event) if event.kind is EventKind.COORDINATOR_LOST:
                    for request_id in [id for id, send in self.open.items() if send.to_coordinator]:
                        del self.open[request_id]
                        self.late.append(request_id)
                case CommitDone():
                    self.completed.append(effect.commit_id)
                case OffsetsFetched():
                    self.fetches -= 1
                case Disconnect():
                    assert machine.coordinator is None
                case _:
                    pass
        joins = [send for send in self.open.values() if isinstance(send.request, JoinGroup | SyncGroup)]
        assert len(joins) <= 1
        added = machine.owned - owned
        assert added <= {partition for effect in notified for partition in effect.partitions}
        assert all(effect.callback is Callback.ASSIGNED for effect in notified) or not added
        if notified:
            self.removed = () if notified[0].callback is Callback.ASSIGNED else notified[0].partitions

    def call(self, name: str, *args: Any, **keywords: Any) -> None:
        """Call the member, and check the result against the invariants."""
        owned, closed, removed = self.machine.owned, self.machine.is_closed, self.removed
        self.before = self.machine.state
        manual = not self.machine.needs_rejoin and self.machine.state is MemberState.UNJOINED
        try:
            effects = getattr(self.machine, name)(*args, **keywords)
        except UsageError:
            assert self.machine.owned == owned
            return
        if closed:
            assert not effects
            return
        if name == "assign" or (manual and name in ("subscribe", "unsubscribe", "close", "tick")):
            owned = self.machine.owned
        if lost := owned - self.machine.owned:
            assert self.machine.is_closed or (name == "on_listener_done" and lost <= set(removed))
        self.do(effects or [], name, owned)

    def run(self) -> None:
        """Perform random steps, then recover and close."""
        weighted: list[tuple[int, Callable[[], None]]] = [
            (12, self.time_passes),
            (12, self.poll),
            (12, self.tick_when_due),
            (4, self.advance_to_next_deadline),
            (12, self.run_without_faults),
            (30, self.respond),
            (5, self.fail),
            (3, self.respond_late),
            (20, self.listener_returns),
            (4, self.subscribe),
            (2, self.change_subscription_type),
            (3, self.enforce_rebalance),
            (8, self.hold_or_release),
            (8, self.commit),
            (3, self.fetch_committed),
            (6, self.consume),
            (4, self.metadata),
        ]
        weights, steps = [weight for weight, _ in weighted], [step for _, step in weighted]
        for step in self.random.choices(steps, weights, k=STEPS):
            step()
            self.check_properties()
            self.check_commits()
        self.recover()
        self.call("close", self.now_ms, timeout_ms=5_000)
        while not self.machine.is_closed:
            self.advance_to_next_deadline()
            self.listener_returns()
        self.check_commits()
        self.poll()
        self.tick_when_due()

    def recover(self) -> None:
        """Stop injecting faults; the member must recover."""
        self.is_calm = True
        self.complete_listener_calls()
        self.call("unsubscribe", self.now_ms)
        self.complete_listener_calls()
        self.call("subscribe", ["t", "u"], self.now_ms)
        self.call("release", PARTITIONS, self.now_ms)
        for _ in range(60):
            self.run_without_faults()
            self.now_ms += 1_000
        assert self.machine.state is MemberState.STABLE
        assert not self.machine.needs_rejoin
        assert self.machine.owned == frozenset(PARTITIONS)

    def complete_listener_calls(self) -> None:
        while self.machine.is_notifying_listener:
            self.call("on_listener_done", self.now_ms)

    def random_partitions(self) -> list[TopicPartition]:
        """Return a few partitions."""
        return self.random.sample(PARTITIONS, self.random.randint(0, 4))

    # --- time and application ---------------------------------------------------------------------------------

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
        assert due_ms is None or due_ms > self.now_ms, "a shell would loop"

    def advance_to_next_deadline(self) -> None:
        if (due_ms := self.machine.next_due_ms()) is not None:
            self.now_ms = max(self.now_ms, due_ms)
            self.call("tick", self.now_ms)

    def subscribe(self) -> None:
        self.call("subscribe", self.random.choice(TOPICS), self.now_ms)

    def change_subscription_type(self) -> None:
        self.call("unsubscribe", self.now_ms)
        self.listener_returns()
        match self.random.randint(0, 2):
            case 0:
                self.call("assign", self.random_partitions(), self.now_ms)
            case 1:
                self.call("subscribe_pattern", "t.*", self.now_ms)
            case _:
                self.subscribe()

    def enforce_rebalance(self) -> None:
        self.call("enforce_rebalance", "", self.now_ms)

    def hold_or_release(self) -> None:
        if self.random.random() < 0.5:
            self.machine.hold([*self.random_partitions(), *self.machine.owned])
        else:
            self.call("release", [*self.random_partitions(), *self.machine.pending_revocation], self.now_ms)

    def listener_returns(self) -> None:
        if self.machine.is_notifying_listener:
            error = self.random.choice([None, None, None, None, ValueError("odd"), Wakeup()])
            self.call("on_listener_done", self.now_ms, error)

    def commit(self) -> None:
        commit_id, sync = len(self.commits), self.random.random() < 0.5
        self.commits.append((commit_id, sync))
        offsets = {partition: OffsetAndMetadata(5) for partition in self.random_partitions()}
        self.call("commit", offsets, self.now_ms, commit_id=commit_id, sync=sync)

    def fetch_committed(self) -> None:
        self.fetches += 1
        self.call("fetch_committed", self.random_partitions(), self.now_ms)

    def consume(self) -> None:
        self.machine.set_consumed({partition: OffsetAndMetadata(9) for partition in self.random_partitions()})

    def run_without_faults(self) -> None:
        for _ in range(self.random.randint(1, 8)):
            self.metadata()
            self.poll()
            self.tick_when_due()
            if self.machine.is_notifying_listener:
                self.call("on_listener_done", self.now_ms)
            for request_id in sorted(self.open):
                if (send := self.open.pop(request_id, None)) is not None:
                    self.call("on_response", request_id, self.response(send.request, is_valid=True), self.now_ms)

    # --- broker -----------------------------------------------------------------------------------------------

    def metadata(self) -> None:
        cluster = {"t": TopicInfo(3), "u": TopicInfo(3 if self.is_calm else self.random.choice([2, 3, 3, 3]))}
        self.call("on_metadata", cluster, self.now_ms)

    def respond(self) -> None:
        if self.open:
            request_id = self.random.choice(sorted(self.open))
            response = self.response(self.open.pop(request_id).request, is_valid=self.random.random() < 0.6)
            self.call("on_response", request_id, response, self.now_ms)

    def fail(self) -> None:
        if self.open:
            request_id = self.random.choice(sorted(self.open))
            del self.open[request_id]
            self.call("on_request_failed", request_id, self.now_ms)

    def respond_late(self) -> None:
        if self.late:
            before = self.machine.generation_id
            self.call("on_response", self.late.pop(), HeartbeatResponse(Error.UNKNOWN_MEMBER_ID), self.now_ms)
            assert self.machine.generation_id == before

    def response(self, request: MemberRequest, *, is_valid: bool) -> MemberResponse:
        """Return a possible response."""
        random = self.random
        error = Error.NONE
        if not is_valid and (chance := random.random()) > 0.2:  # otherwise NONE with invalid bytes
            error = random.choice(LIKELY_ERRORS if chance < 0.8 else list(Error))
        match request:
            case FindCoordinator():
                return FindCoordinatorResponse(error, random.randint(0, 2), "h", 9092)
            case JoinGroup():
                is_leader = random.random() < 0.5
                member = JoinedMember("m", None, request.protocols[0].metadata)
                other = JoinedMember("n", None, SUBSCRIPTION if is_valid else random.choice(GARBAGE))
                self.generation_id += random.randint(1, 2)
                return JoinGroupResponse(
                    error,
                    "m",
                    self.generation_id,
                    random.choice(["consumer", None] if is_valid else ["consumer", None, "connect"]),
                    request.protocols[0].name if is_valid or random.random() < 0.8 else None,
                    "m" if is_leader else "n",
                    random.random() < 0.2,
                    (member, other) if is_leader else (),
                )
            case SyncGroup():
                assignable = [
                    partition
                    for partition in (PARTITIONS if self.is_calm else self.random_partitions())
                    if partition.topic in self.machine.subscription
                ]
                assignment = encode_assignment(Assignment(tuple(assignable)))
                return SyncGroupResponse(error, None, None, assignment if is_valid else random.choice(GARBAGE))
            case Heartbeat():
                return HeartbeatResponse(error)
            case LeaveGroup():
                return LeaveGroupResponse(error)
            case OffsetCommit():
                return OffsetCommitResponse(
                    tuple(OffsetResult(partition.topic, partition.partition, error) for partition in request.offsets)
                )
            case OffsetFetch():
                top, each = (Error.NONE, error) if random.random() < 0.5 else (error, Error.NONE)
                offsets = (FetchedOffset("t", 0, random.randint(-1, 5), error=each),)
                return OffsetFetchResponse((FetchedGroup("g", top, offsets),))

    # --- invariants ------------------------------------------------------------------------------------------

    def check_properties(self) -> None:
        machine = self.machine
        assert machine.fetchable <= machine.owned
        assert machine.pending_revocation <= machine.owned
        assert (machine.generation_id == -1) or machine.state is not MemberState.UNJOINED
        assert not machine.state.sends_heartbeats or machine.generation_id != -1
        for name, value in machine.metrics(self.now_ms).items():
            assert value != value or value >= -1, name

    def check_commits(self) -> None:
        assert len(self.completed) == len(set(self.completed))
        sync = dict(self.commits)
        in_order = [commit_id for commit_id in self.completed if not sync[commit_id]]
        assert in_order == sorted(in_order)
        if self.machine.is_closed:
            assert sorted(self.completed) == [commit_id for commit_id, _ in self.commits]
            assert self.fetches == 0
            assert self.machine.next_due_ms() is None


@pytest.mark.parametrize("seed", range(100))
def test_random_run(seed: int) -> None:
    RandomRun(seed).run()
