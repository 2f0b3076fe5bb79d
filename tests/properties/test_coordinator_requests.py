"""The coordinator keeps its invariants for random requests in random order.

Promises checked
- Nothing raises.
- No request is answered twice; when the log has caught up and enough time has passed, every request has been answered.
- Events tell only legal moves between states (ST-01), and every group is what its state says it is.
- Generations never go backwards in the life of a group.
- What the coordinator says of offsets is what its log says.
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
from slackwater.group.coordinator.effects import AppendRecords, Effect, PublishEvent, SendResponse
from slackwater.group.coordinator.records import CoordinatorRecord
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
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

SHARDS: Final = 2
LONG_MS: Final = 8_000_000  # longer than any session, rebalance and fixed timer drawn below, one after the other
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


# --- what is sent -----------------------------------------------------------------------------------------------

# Ids of members are drawn as numbers, and stand for ids the coordinator gave out: most nonsense worth sending is
# about somebody who exists.
STRANGERS: Final = ("", "stranger")

GOOD_PROTOCOLS: Final = (JoinProtocol("range", encode_subscription(Subscription(("t",)))),)

group_ids = st.sampled_from(["g", "g", "g", "h", "other", "", None])
live_group_ids = st.sampled_from(["g", "g", "g", "h", "other"])
numbers = st.integers(0, 7).map(lambda number: f"#{number}")
member_ids = st.one_of(numbers, numbers, st.sampled_from(STRANGERS))
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


# --- what happens besides ---------------------------------------------------------------------------------------


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

    shard: int
    epochs_on: int | None
    writes_fail_first: bool


class Load(NamedTuple):
    """Load a partition; loading finishes at once or later."""

    shard: int
    epochs_on: int
    at_once: bool


class Loaded(NamedTuple):
    """Finish loading a partition."""

    shard: int


class TopicsDeleted(NamedTuple):
    """Delete topics."""

    names: tuple[str, ...]


class Behave(NamedTuple):
    """Several times, every client of a group sends its next regular request, new members first."""

    group_id: str
    rounds: int
    newcomers: int


Step = Symbolic | Pass | Write | Hold | Unload | Load | Loaded | TopicsDeleted | Behave

write_errors = st.sampled_from(
    [Error.NONE] * 4 + [Error.NOT_ENOUGH_REPLICAS, Error.NOT_LEADER_OR_FOLLOWER, Error.MESSAGE_TOO_LARGE]
)
durations = st.sampled_from([0, 1, 999, 1_001, 2_999, 3_000, 5_000, 9_999, 10_000, 60_000, 300_000, 700_000])
shards = st.integers(0, SHARDS - 1)
happenings: SearchStrategy[Step] = st.one_of(
    st.builds(Pass, durations),
    st.builds(Pass, durations),
    st.builds(Write, st.integers(1, 5), write_errors),
    st.builds(Hold, st.booleans()),
    st.builds(Unload, shards, st.sampled_from([None, -1, 1, 2]), st.booleans()),
    st.builds(Load, shards, st.sampled_from([-1, 1, 2]), st.booleans()),
    st.builds(Loaded, shards),
    st.builds(TopicsDeleted, st.lists(topics, max_size=2).map(tuple)),
)
behaviour = st.builds(Behave, live_group_ids, st.integers(1, 4), st.integers(0, 2))
steps = st.lists(st.one_of(requests, requests, requests, behaviour, happenings), min_size=15, max_size=80)
configs = st.builds(
    CoordinatorConfig,
    offsets_topic_num_partitions=st.just(SHARDS),
    group_initial_rebalance_delay_ms=st.sampled_from([0, 3_000]),
    group_max_size=st.sampled_from([2**31 - 1, 1, 2]),
    offsets_retention_ms=st.sampled_from([604_800_000, 30_000]),
    offsets_retention_check_interval_ms=st.sampled_from([600_000, 10_000]),
    new_member_join_timeout_ms=st.sampled_from([300_000, 20_000]),
)


# --- the world around the coordinator ---------------------------------------------------------------------------


@dataclass(eq=False)
class Asked:
    """A request and its responses."""

    request: Request
    answers: list[Response] = field(default_factory=list)


class World:
    """A coordinator with its clock, logs and callers."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self.config = config
        self.coordinator = Coordinator(config)
        self.now_ms = 1_000_000
        self.logs: list[list[CoordinatorRecord]] = [[] for _ in range(SHARDS)]
        self.epochs = [0] * SHARDS
        self.owned = [True] * SHARDS
        self.loading = [False] * SHARDS
        self.asked: list[Asked] = []
        self.ids: list[str] = []
        self.holding = False
        self.writes: deque[AppendRecords] = deque()
        self.generations: dict[int, tuple[object, int]] = {}
        for shard in range(SHARDS):
            self.do(self.coordinator.load(shard, 0, self.now_ms))
            self.do(self.coordinator.finish_loading(shard, self.now_ms))

    # --- steps ---

    def take(self, step: Step) -> None:
        """Execute one step and check the invariants."""
        match step:
            case Symbolic():
                self.ask(self.resolved(step))
            case Pass(duration_ms):
                self.advance(self.now_ms + duration_ms)
            case Write(how_many, error):
                for _ in range(min(how_many, len(self.writes))):
                    self.finish_write(error)
            case Hold(holding):
                self.holding = holding
                self.catch_up()
            case Unload(shard, epochs_on, writes_fail_first):
                self.unload(shard, epochs_on, writes_fail_first)
            case Load(shard, epochs_on, at_once):
                self.load(shard, epochs_on, at_once)
            case Loaded(shard):
                self.finish_loading(shard)
            case TopicsDeleted(names):
                self.do(self.coordinator.on_topics_deleted(names, self.now_ms))
            case Behave(group_id, rounds, newcomers):
                self.behave(group_id, rounds, newcomers)
        self.look()

    def behave(self, group_id: str, rounds: int, newcomers: int) -> None:
        """New members join; then members join and sync as the group's state requires, and time advances."""
        join = JoinGroup(group_id, "", None, "consumer", GOOD_PROTOCOLS, 10_000, 60_000, "good")
        for _ in range(newcomers):
            self.ask(replace(join, uuid=f"u{len(self.asked)}", requires_known_member_id=False))
        for _ in range(rounds):
            group = self.coordinator.groups.get(group_id)
            if group is None:
                return
            for member in list(group.members.values()):
                ids = (member.member_id, member.group_instance_id)
                if group.state is PR:
                    self.ask(replace(join, member_id=ids[0], group_instance_id=ids[1]))
                elif group.state is CR:
                    parts = tuple((member_id, b"part") for member_id in group.members)
                    self.ask(SyncGroup(group_id, *ids, group.generation_id, assignments=parts))
                else:
                    self.ask(Heartbeat(group_id, *ids, group.generation_id))
            event(f"somebody behaved in {group.state}")
            self.advance(self.now_ms + 3_000)

    def resolved(self, step: Symbolic) -> Request:
        """Return the request with symbols replaced by existing ids and generations."""
        request = step.request
        match request:
            case JoinGroup():
                return replace(request, member_id=self.id_of(request.member_id), uuid=f"u{len(self.asked)}")
            case SyncGroup():
                parts = tuple((self.id_of(member_id), part) for member_id, part in request.assignments)
                return replace(
                    request,
                    member_id=self.id_of(request.member_id),
                    generation_id=self.generation_of(step.generation, request.group_id),
                    assignments=parts,
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

    def ask(self, request: Request) -> Asked:
        """Send a request."""
        asked = Asked(request)
        self.asked.append(asked)
        self.do(self.coordinator.handle(request, asked, self.now_ms))
        return asked

    def unload(self, shard: int, epochs_on: int | None, writes_fail_first: bool) -> None:
        """Unload a partition if the epoch is new enough."""
        goes = epochs_on is None or epochs_on > 0
        if goes and writes_fail_first:
            self.fail_writes_of(shard)
        epoch = None if epochs_on is None else self.epochs[shard] + epochs_on
        self.do(self.coordinator.unload(shard, epoch, self.now_ms))
        if goes:
            self.owned[shard] = self.loading[shard] = False
            self.epochs[shard] = self.epochs[shard] if epoch is None else epoch
            self.fail_writes_of(shard)

    def load(self, shard: int, epochs_on: int, at_once: bool) -> None:
        """Unload and load a partition."""
        if epochs_on < 0:
            if self.owned[shard]:  # whoever owns nothing has no epoch to compare with
                self.do(self.coordinator.load(shard, self.epochs[shard] + epochs_on, self.now_ms))
            return
        self.unload(shard, 1, writes_fail_first=True)
        self.epochs[shard] += epochs_on
        self.owned[shard] = self.loading[shard] = True
        self.do(self.coordinator.load(shard, self.epochs[shard], self.now_ms))
        for record in self.logs[shard]:
            self.coordinator.replay(shard, record)
        if at_once:
            self.finish_loading(shard)

    def finish_loading(self, shard: int) -> None:
        """Finish loading a partition."""
        if self.loading[shard]:
            self.loading[shard] = False
            self.do(self.coordinator.finish_loading(shard, self.now_ms))

    # --- effects ---

    def do(self, effects: list[Effect]) -> None:
        """Execute effects in order."""
        for effect in effects:
            match effect:
                case AppendRecords():
                    self.writes.append(effect)
                case SendResponse():
                    assert isinstance(effect.caller, Asked)
                    effect.caller.answers.append(effect.response)
                    assert len(effect.caller.answers) == 1, f"answered twice: {effect.caller}"
                    self.learn(effect.response)
                case PublishEvent(told):
                    before, after = told.state_before, told.state_after
                    if before is not None and after is not None and before is not after:
                        assert after in LEGAL[before], f"{before} to {after}: {told}"
        self.catch_up()

    def learn(self, response: Response) -> None:
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

    def fail_writes_of(self, shard: int) -> None:
        """Fail the pending writes of an unloaded partition; earlier writes of others succeed."""
        while any(append.offsets_partition == shard for append in self.writes):
            self.finish_write(Error.NOT_LEADER_OR_FOLLOWER if self.writes[0].offsets_partition == shard else Error.NONE)

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

    # --- promises ---

    def look(self) -> None:
        """Check that every group is consistent with its state and no generation decreased."""
        seen: dict[int, tuple[object, int]] = {}
        for group_id, group in self.coordinator.groups.items():
            members = group.members
            assert all(member.member_id == member_id for member_id, member in members.items())
            assert not set(members) & set(group.pending), "a member that is only pending"
            instances = [
                member.group_instance_id for member in members.values() if member.group_instance_id is not None
            ]
            assert len(instances) == len(set(instances)), "two members of one instance id"
            if group.state is E or group.state is D:
                assert not members, f"{group_id} is {group.state} with members"
            if group.state is CR or group.state is S:
                assert group.leader_id in members, f"{group_id} is {group.state} and led by {group.leader_id}"
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
        for shard in range(SHARDS):
            self.finish_loading(shard)
        self.advance(self.now_ms + LONG_MS)
        self.look()

    def unanswered(self) -> Iterator[Request]:
        """Return the requests without a response."""
        return (asked.request for asked in self.asked if not asked.answers)

    def offsets(self, coordinator: Coordinator) -> dict[str, tuple[FetchedOffset, ...]]:
        """Return all committed offsets of the owned partitions."""
        caller = Asked(OffsetFetch(tuple(GroupToFetch(group_id, None) for group_id in ("g", "h", "other", ""))))
        effects = coordinator.handle(caller.request, caller, self.now_ms)
        (answer,) = (effect.response for effect in effects if isinstance(effect, SendResponse))
        assert isinstance(answer, OffsetFetchResponse)
        return {
            str(group.group_id): tuple(sorted(group.offsets, key=str))
            for group in answer.groups
            if group.error is Error.NONE
        }


# --- the tests --------------------------------------------------------------------------------------------------

thorough = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@thorough
@given(configs, steps)
def test_coordinator_invariants_hold_for_any_requests(config: CoordinatorConfig, story: list[Step]) -> None:
    world = World(config)
    for step in story:
        world.take(step)
    for state in {group.state for group in world.coordinator.groups.values()}:
        event(f"a group ends {state}")
    world.finish()

    assert list(world.unanswered()) == []
    assert all(group.state is E for group in world.coordinator.groups.values()), "nobody was heard of for hours"


@thorough
@given(configs, steps)
def test_fetched_offsets_match_the_log(config: CoordinatorConfig, story: list[Step]) -> None:
    world = World(config)
    for step in story:
        world.take(step)
    world.holding = False
    world.catch_up()
    for shard in range(SHARDS):
        world.finish_loading(shard)
    known = world.offsets(world.coordinator)
    successor = Coordinator(config)
    for shard, log in enumerate(world.logs):
        successor.load(shard, 1_000, world.now_ms)
        for record in log:
            successor.replay(shard, record)
        successor.finish_loading(shard, world.now_ms)
    replayed = world.offsets(successor)

    assert known == {group_id: replayed[group_id] for group_id in known}


@thorough
@given(configs, st.lists(requests, max_size=30))
def test_coordinator_without_partitions_responds_at_once(config: CoordinatorConfig, story: list[Symbolic]) -> None:
    coordinator, callers = Coordinator(config), []
    for step in story:
        caller = Asked(step.request)
        callers.append(caller)
        effects = coordinator.handle(step.request, caller, 0)
        assert all(isinstance(effect, SendResponse) for effect in effects)
        caller.answers += [effect.response for effect in effects if isinstance(effect, SendResponse)]

    assert [len(caller.answers) for caller in callers] == [1] * len(callers)
    assert dict(coordinator.groups) == {}
    assert list(chain.from_iterable(coordinator.tick(now_ms) for now_ms in (0, 10**9))) == []
