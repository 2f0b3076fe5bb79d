"""The coordinator keeps its invariants for random requests in random order.

Invariants:
- Nothing raises.
- No request has two responses. When all writes are complete and enough time has passed, every request has one.
- Events contain only valid state transitions (ST-01), and every group is consistent with its state.
- The generation of a group never decreases.
- Fetched offsets are the offsets in the log.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, NamedTuple

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from slackwater.group.assignors.consumer_protocol import Subscription, encode_subscription
from slackwater.group.coordinator import Coordinator
from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.effects import AppendRecords, Effect, SendResponse
from slackwater.group.coordinator.records import CoordinatorRecord
from slackwater.group.errors import Error
from slackwater.group.events import GroupState, PublishEvent
from slackwater.group.messages import (
    DeleteGroups,
    DescribeGroups,
    FetchedOffset,
    GroupToFetch,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
    Request,
    Response,
    SyncGroup,
)

PARTITION_COUNT: Final = 2
LONG_MS: Final = 8_000_000  # longer than the sum of all session, rebalance and fixed timers below
TOO_MANY_TICKS: Final = 200_000

E, IR, PR, CR, S, D = (
    GroupState.EMPTY,
    GroupState.INITIAL_REBALANCE,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
LEGAL: Final = {
    E: {IR, PR, D},
    IR: {CR, E, D},
    PR: {CR, E, D},
    CR: {S, PR, D},
    S: {PR, D},
    D: {D},
}


# --- requests ---------------------------------------------------------------------------------------------------

# Member ids are drawn as numbers that stand for issued ids, because most useful invalid requests name existing members.
UNKNOWN_IDS: Final = ("", "unknown")

GOOD_PROTOCOLS: Final = (JoinProtocol("range", encode_subscription(Subscription(("t",)))),)

group_ids = st.sampled_from(["g", "g", "g", "h", "other", "", None])
live_group_ids = st.sampled_from(["g", "g", "g", "h", "other"])
numbers = st.integers(0, 7).map(lambda number: f"#{number}")
member_ids = st.one_of(numbers, numbers, st.sampled_from(UNKNOWN_IDS))
instance_ids = st.sampled_from([None, None, None, "i1", "i2", ""])
generations = st.one_of(st.just("current"), st.integers(-2, 6).map(str), st.sampled_from([str(2**31 - 1)]))
subscriptions = st.lists(st.sampled_from(["t", "u", "v"]), max_size=2).map(
    lambda topics: encode_subscription(Subscription(tuple(topics)))
)
metadata = st.one_of(subscriptions, subscriptions, st.binary(max_size=8), st.just(b"\x00\x00\x7f\xff\xff\xff"))
protocols = st.lists(
    st.builds(JoinProtocol, st.sampled_from(["range", "range", "sticky", "x"]), metadata), max_size=3
).map(tuple)
session_timeouts = st.sampled_from([6_000, 10_000, 10_000, 45_000, 1_800_000, 0, -1, 2**31 - 1])
rebalance_timeouts = st.sampled_from([-1, 0, 1, 5_000, 60_000, 60_000, 300_000, 600_000, -(2**31)])
topics = st.sampled_from(["t", "u", "v"])
partitions = st.lists(st.tuples(topics, st.integers(-1, 2)), max_size=3).map(tuple)


class Symbolic(NamedTuple):
    """A request with symbols for member ids and generations."""

    request: Request
    generation: str = "current"


joins = st.builds(
    JoinGroup,
    group_id=st.one_of(live_group_ids, group_ids),
    member_id=st.one_of(st.just(""), member_ids),
    group_instance_id=instance_ids,
    protocol_type=st.sampled_from(["consumer"] * 6 + ["connect", ""]),
    protocols=st.one_of(st.just(GOOD_PROTOCOLS), protocols),
    session_timeout_ms=st.one_of(st.just(10_000), session_timeouts),
    rebalance_timeout_ms=rebalance_timeouts,
    client_id=st.sampled_from(["c", ""]),
    reason=st.sampled_from([None, "", "why not"]),
    requires_known_member_id=st.booleans(),
    supports_skipping_assignment=st.booleans(),
)
syncs = st.builds(
    SyncGroup,
    group_id=st.one_of(live_group_ids, group_ids),
    member_id=member_ids,
    group_instance_id=instance_ids,
    generation_id=st.just(0),
    protocol_type=st.sampled_from([None, "consumer", "consumer", "x"]),
    protocol_name=st.sampled_from([None, "range", "range", "x"]),
    assignments=st.lists(st.tuples(member_ids, st.binary(max_size=3)), max_size=3).map(tuple),
    requires_protocol=st.booleans(),
)
heartbeats = st.builds(
    Heartbeat,
    group_id=st.one_of(live_group_ids, group_ids),
    member_id=member_ids,
    group_instance_id=instance_ids,
    generation_id=st.just(0),
)
leaves = st.builds(
    LeaveGroup,
    group_id=st.one_of(live_group_ids, group_ids),
    members=st.lists(st.builds(LeavingMember, member_ids, instance_ids), max_size=3).map(tuple),
)
commits = st.builds(
    OffsetCommit,
    group_id=st.one_of(live_group_ids, group_ids),
    member_id=member_ids,
    group_instance_id=instance_ids,
    generation_id=st.just(0),
    offsets=st.lists(
        st.builds(
            OffsetToCommit,
            topics,
            st.integers(-1, 2),
            st.integers(-1, 2**63 - 1),
            st.integers(-1, 5),
            st.sampled_from(["", None, "note", "x" * 4_097]),
        ),
        max_size=3,
    ).map(tuple),
    retention_ms=st.sampled_from([-1, -1, 0, 30_000]),
    reports_missing_group=st.booleans(),
)
fetches = st.builds(
    OffsetFetch,
    groups=st.lists(st.builds(GroupToFetch, group_ids, st.none() | partitions), max_size=3).map(tuple),
    require_stable=st.booleans(),
)
administration: SearchStrategy[Request] = st.one_of(
    st.builds(OffsetDelete, group_ids, partitions),
    st.builds(DescribeGroups, st.lists(group_ids, max_size=3).map(tuple), st.booleans()),
    st.builds(ListGroups, st.sampled_from([(), ("stable",), ("nonsense",)]), st.sampled_from([(), ("classic",)])),
    st.builds(DeleteGroups, st.lists(group_ids, max_size=3).map(tuple)),
)
requests: SearchStrategy[Symbolic] = st.builds(
    Symbolic,
    st.one_of(joins, joins, joins, syncs, syncs, heartbeats, leaves, commits, fetches, administration),
    generations,
)


# --- other steps ------------------------------------------------------------------------------------------------


class Pass(NamedTuple):
    """Advance time."""

    duration_ms: int


class Write(NamedTuple):
    """Complete the oldest pending writes."""

    how_many: int
    error: Error


class Hold(NamedTuple):
    """Hold writes from now on, or stop holding them."""

    holding: bool


class Unload(NamedTuple):
    """Unload a partition; its pending writes fail before or after."""

    offsets_partition: int
    epochs_on: int | None
    writes_fail_first: bool


class Load(NamedTuple):
    """Load a partition; loading finishes at once or later."""

    offsets_partition: int
    epochs_on: int
    at_once: bool


class Loaded(NamedTuple):
    """Finish loading a partition."""

    offsets_partition: int


class TopicsDeleted(NamedTuple):
    """Delete topics."""

    names: tuple[str, ...]


class RegularRequests(NamedTuple):
    """Several times, every client of a group sends its next regular request, new members first."""

    group_id: str
    rounds: int
    newcomers: int


Step = Symbolic | Pass | Write | Hold | Unload | Load | Loaded | TopicsDeleted | RegularRequests

write_errors = st.sampled_from(
    [Error.NONE] * 4 + [Error.NOT_ENOUGH_REPLICAS, Error.NOT_LEADER_OR_FOLLOWER, Error.MESSAGE_TOO_LARGE]
)
durations = st.sampled_from([0, 1, 999, 1_001, 2_999, 3_000, 5_000, 9_999, 10_000, 60_000, 300_000, 700_000])
offsets_partitions = st.integers(0, PARTITION_COUNT - 1)
other_steps: SearchStrategy[Step] = st.one_of(
    st.builds(Pass, durations),
    st.builds(Pass, durations),
    st.builds(Write, st.integers(1, 5), write_errors),
    st.builds(Hold, st.booleans()),
    st.builds(Unload, offsets_partitions, st.sampled_from([None, -1, 1, 2]), st.booleans()),
    st.builds(Load, offsets_partitions, st.sampled_from([-1, 1, 2]), st.booleans()),
    st.builds(Loaded, offsets_partitions),
    st.builds(TopicsDeleted, st.lists(topics, max_size=2).map(tuple)),
)
regular_steps = st.builds(RegularRequests, live_group_ids, st.integers(1, 4), st.integers(0, 2))
steps = st.lists(st.one_of(requests, requests, requests, regular_steps, other_steps), min_size=15, max_size=80)
configs = st.builds(
    CoordinatorConfig,
    offsets_topic_num_partitions=st.just(PARTITION_COUNT),
    group_initial_rebalance_delay_ms=st.sampled_from([0, 3_000]),
    group_max_size=st.sampled_from([2**31 - 1, 1, 2]),
    offsets_retention_ms=st.sampled_from([604_800_000, 30_000]),
    offsets_retention_check_interval_ms=st.sampled_from([600_000, 10_000]),
    new_member_join_timeout_ms=st.sampled_from([300_000, 20_000]),
)


# --- environment of the coordinator -----------------------------------------------------------------------------


@dataclass(eq=False)
class SentRequest:
    """A request and its responses."""

    request: Request
    responses: list[Response] = field(default_factory=list)


class Environment:
    """A coordinator with its clock, logs and callers."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self.config = config
        self.coordinator = Coordinator(config)
        self.now_ms = 1_000_000
        self.logs: list[list[CoordinatorRecord]] = [[] for _ in range(PARTITION_COUNT)]
        self.epochs = [0] * PARTITION_COUNT
        self.owned = [True] * PARTITION_COUNT
        self.loading = [False] * PARTITION_COUNT
        self.sent: list[SentRequest] = []
        self.ids: list[str] = []
        self.holding = False
        self.writes: deque[AppendRecords] = deque()
        self.generations: dict[int, tuple[object, int]] = {}
        for offsets_partition in range(PARTITION_COUNT):
            self.do(self.coordinator.load(offsets_partition, 0, self.now_ms))
            self.do(self.coordinator.finish_loading(offsets_partition, self.now_ms))

    # --- steps ---

    def take(self, step: Step) -> None:
        """Execute one step and check the invariants."""
        match step:
            case Symbolic():
                self.send(self.resolved(step))
            case Pass(duration_ms):
                self.advance(self.now_ms + duration_ms)
            case Write(how_many, error):
                for _ in range(min(how_many, len(self.writes))):
                    self.finish_write(error)
            case Hold(holding):
                self.holding = holding
                self.catch_up()
            case Unload(offsets_partition, epochs_on, writes_fail_first):
                self.unload(offsets_partition, epochs_on, writes_fail_first)
            case Load(offsets_partition, epochs_on, at_once):
                self.load(offsets_partition, epochs_on, at_once)
            case Loaded(offsets_partition):
                self.finish_loading(offsets_partition)
            case TopicsDeleted(names):
                self.do(self.coordinator.on_topics_deleted(names, self.now_ms))
            case RegularRequests(group_id, rounds, newcomers):
                self.send_regular(group_id, rounds, newcomers)
        self.check()

    def send_regular(self, group_id: str, rounds: int, newcomers: int) -> None:
        """New members join; then members join and sync as the group's state requires, and time advances."""
        join = JoinGroup(group_id, "", None, "consumer", GOOD_PROTOCOLS, 10_000, 60_000, "good")
        for _ in range(newcomers):
            self.send(replace(join, uuid=f"u{len(self.sent)}", requires_known_member_id=False))
        for _ in range(rounds):
            group = self.coordinator.groups.get(group_id)
            if group is None:
                return
            for member in list(group.members.values()):
                ids = (member.member_id, member.group_instance_id)
                if group.state is PR:
                    self.send(replace(join, member_id=ids[0], group_instance_id=ids[1]))
                elif group.state is CR:
                    assignments = tuple((member_id, b"part") for member_id in group.members)
                    self.send(SyncGroup(group_id, *ids, group.generation_id, assignments=assignments))
                else:
                    self.send(Heartbeat(group_id, *ids, group.generation_id))
            event(f"regular requests in {group.state}")
            self.advance(self.now_ms + 3_000)

    def resolved(self, step: Symbolic) -> Request:
        """Return the request with symbols replaced by existing ids and generations."""
        request = step.request
        match request:
            case JoinGroup():
                return replace(request, member_id=self.id_of(request.member_id), uuid=f"u{len(self.sent)}")
            case SyncGroup():
                assignments = tuple(
                    (self.id_of(member_id), assignment) for member_id, assignment in request.assignments
                )
                return replace(
                    request,
                    member_id=self.id_of(request.member_id),
                    generation_id=self.generation_of(step.generation, request.group_id),
                    assignments=assignments,
                )
            case Heartbeat() | OffsetCommit():
                return replace(
                    request,
                    member_id=self.id_of(request.member_id),
                    generation_id=self.generation_of(step.generation, request.group_id),
                )
            case LeaveGroup():
                leavers = tuple(leaver._replace(member_id=self.id_of(leaver.member_id)) for leaver in request.members)
                return replace(request, members=leavers)
        return request

    def id_of(self, symbol: str) -> str:
        """Resolve `#n` to one of the last issued ids."""
        if not symbol.startswith("#") or not self.ids:
            return symbol
        return self.ids[-1 - int(symbol[1:]) % len(self.ids)]

    def generation_of(self, symbol: str, group_id: str | None) -> int:
        """Resolve `current` to the group's generation."""
        if symbol != "current":
            return int(symbol)
        group = self.coordinator.groups.get(group_id or "")
        return -1 if group is None else group.generation_id

    def send(self, request: Request) -> SentRequest:
        """Send a request."""
        sent = SentRequest(request)
        self.sent.append(sent)
        self.do(self.coordinator.handle(request, sent, self.now_ms))
        return sent

    def unload(self, offsets_partition: int, epochs_on: int | None, writes_fail_first: bool) -> None:
        """Unload a partition if the epoch is new enough."""
        unloads = epochs_on is None or epochs_on > 0
        if unloads and writes_fail_first:
            self.fail_writes_of(offsets_partition)
        epoch = None if epochs_on is None else self.epochs[offsets_partition] + epochs_on
        self.do(self.coordinator.unload(offsets_partition, epoch, self.now_ms))
        if unloads:
            self.owned[offsets_partition] = self.loading[offsets_partition] = False
            self.epochs[offsets_partition] = self.epochs[offsets_partition] if epoch is None else epoch
            self.fail_writes_of(offsets_partition)

    def load(self, offsets_partition: int, epochs_on: int, at_once: bool) -> None:
        """Unload and load a partition."""
        if epochs_on < 0:
            if self.owned[offsets_partition]:  # an unloaded partition has no epoch to compare with
                self.do(
                    self.coordinator.load(offsets_partition, self.epochs[offsets_partition] + epochs_on, self.now_ms)
                )
            return
        self.unload(offsets_partition, 1, writes_fail_first=True)
        self.epochs[offsets_partition] += epochs_on
        self.owned[offsets_partition] = self.loading[offsets_partition] = True
        self.do(self.coordinator.load(offsets_partition, self.epochs[offsets_partition], self.now_ms))
        for record in self.logs[offsets_partition]:
            self.coordinator.replay(offsets_partition, record)
        if at_once:
            self.finish_loading(offsets_partition)

    def finish_loading(self, offsets_partition: int) -> None:
        """Finish loading a partition."""
        if self.loading[offsets_partition]:
            self.loading[offsets_partition] = False
            self.do(self.coordinator.finish_loading(offsets_partition, self.now_ms))

    # --- effects ---

    def do(self, effects: list[Effect]) -> None:
        """Execute effects in order."""
        for effect in effects:
            match effect:
                case AppendRecords():
                    self.writes.append(effect)
                case SendResponse():
                    assert isinstance(effect.reply_to, SentRequest)
                    effect.reply_to.responses.append(effect.response)
                    assert len(effect.reply_to.responses) == 1, f"two responses: {effect.reply_to}"
                    self.store_member_id(effect.response)
                case PublishEvent(published):
                    before, after = published.state_before, published.state_after
                    if before is not None and after is not None and before is not after:
                        assert after in LEGAL[before], f"{before} to {after}: {published}"
        self.catch_up()

    def store_member_id(self, response: Response) -> None:
        """Store issued ids."""
        if isinstance(response, JoinGroupResponse) and response.member_id not in ("", *self.ids):
            self.ids.append(response.member_id)

    def catch_up(self) -> None:
        """Complete the writes that are not held."""
        while self.writes and not self.holding:
            self.finish_write(Error.NONE)

    def finish_write(self, error: Error) -> None:
        """Complete the oldest pending write."""
        append = self.writes.popleft()
        if error is Error.NONE:
            self.logs[append.offsets_partition].extend(append.records)
        self.do(self.coordinator.on_append_result(append.write_id, error, self.now_ms))

    def fail_writes_of(self, offsets_partition: int) -> None:
        """Fail the pending writes of an unloaded partition; earlier writes of others succeed."""
        while any(append.offsets_partition == offsets_partition for append in self.writes):
            self.finish_write(
                Error.NOT_LEADER_OR_FOLLOWER if self.writes[0].offsets_partition == offsets_partition else Error.NONE
            )

    def advance(self, until_ms: int) -> None:
        """Advance time and fire timers at their deadlines."""
        for _ in range(TOO_MANY_TICKS):
            due = self.coordinator.next_due_ms()
            if due is None or due > until_ms:
                self.now_ms = until_ms
                return
            self.now_ms = max(self.now_ms, due)
            self.do(self.coordinator.tick(self.now_ms))
        raise AssertionError("timers fire without end")

    # --- invariants ---

    def check(self) -> None:
        """Check that every group is consistent with its state and no generation decreased."""
        seen: dict[int, tuple[object, int]] = {}
        for group_id, group in self.coordinator.groups.items():
            members = group.members
            assert all(member.member_id == member_id for member_id, member in members.items())
            assert not set(members) & set(group.pending_members), "a member is also pending"
            instances = [
                member.group_instance_id for member in members.values() if member.group_instance_id is not None
            ]
            assert len(instances) == len(set(instances)), "two members with one instance id"
            if group.state is E or group.state is D:
                assert not members, f"{group_id} is {group.state} with members"
            if group.state is CR or group.state is S:
                assert group.leader_id in members, f"{group_id} is {group.state} with leader {group.leader_id}"
                assert group.protocol_name is not None
            if group.leader_id is not None:
                assert group.leader_id in members
            _, earlier = self.generations.get(id(group), (group, 0))
            assert group.generation_id >= earlier, f"{group_id} went back to {group.generation_id}"
            seen[id(group)] = (group, group.generation_id)
        self.generations = seen

    def finish(self) -> None:
        """Complete all writes and advance time beyond every timer."""
        self.holding = False
        self.catch_up()
        for offsets_partition in range(PARTITION_COUNT):
            self.finish_loading(offsets_partition)
        self.advance(self.now_ms + LONG_MS)
        self.check()

    def without_response(self) -> Iterator[Request]:
        """Return the requests without a response."""
        return (sent.request for sent in self.sent if not sent.responses)

    def offsets(self, coordinator: Coordinator) -> dict[str, tuple[FetchedOffset, ...]]:
        """Return all committed offsets of the owned partitions."""
        caller = SentRequest(OffsetFetch(tuple(GroupToFetch(group_id, None) for group_id in ("g", "h", "other", ""))))
        effects = coordinator.handle(caller.request, caller, self.now_ms)
        (response,) = (effect.response for effect in effects if isinstance(effect, SendResponse))
        assert isinstance(response, OffsetFetchResponse)
        return {
            str(group.group_id): tuple(sorted(group.offsets, key=str))
            for group in response.groups
            if group.error is Error.NONE
        }


# --- tests ------------------------------------------------------------------------------------------------------

many_examples = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@many_examples
@given(configs, steps)
def test_coordinator_invariants_hold_for_any_requests(config: CoordinatorConfig, drawn_steps: list[Step]) -> None:
    environment = Environment(config)
    for step in drawn_steps:
        environment.take(step)
    for state in {group.state for group in environment.coordinator.groups.values()}:
        event(f"a group ends {state}")
    environment.finish()

    assert list(environment.without_response()) == []
    assert all(group.state is E for group in environment.coordinator.groups.values()), "all members have expired"


@many_examples
@given(configs, steps)
def test_fetched_offsets_match_the_log(config: CoordinatorConfig, drawn_steps: list[Step]) -> None:
    environment = Environment(config)
    for step in drawn_steps:
        environment.take(step)
    environment.holding = False
    environment.catch_up()
    for offsets_partition in range(PARTITION_COUNT):
        environment.finish_loading(offsets_partition)
    fetched = environment.offsets(environment.coordinator)
    successor = Coordinator(config)
    for offsets_partition, log in enumerate(environment.logs):
        successor.load(offsets_partition, 1_000, environment.now_ms)
        for record in log:
            successor.replay(offsets_partition, record)
        successor.finish_loading(offsets_partition, environment.now_ms)
    replayed = environment.offsets(successor)

    assert fetched == {group_id: replayed[group_id] for group_id in fetched}


@many_examples
@given(configs, st.lists(requests, max_size=30))
def test_coordinator_without_partitions_responds_at_once(
    config: CoordinatorConfig, drawn_steps: list[Symbolic]
) -> None:
    coordinator, callers = Coordinator(config), []
    for step in drawn_steps:
        caller = SentRequest(step.request)
        callers.append(caller)
        effects = coordinator.handle(step.request, caller, 0)
        assert all(isinstance(effect, SendResponse) for effect in effects)
        caller.responses += [effect.response for effect in effects if isinstance(effect, SendResponse)]

    assert [len(caller.responses) for caller in callers] == [1] * len(callers)
    assert dict(coordinator.groups) == {}
    assert list(chain.from_iterable(coordinator.tick(now_ms) for now_ms in (0, 10**9))) == []
