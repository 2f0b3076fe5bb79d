"""Section 8 of the catalogue: shards that come, load, and go."""

from typing import Any

import pytest

from slackwater.group.coordinator import Coordinator
from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.records import CommittedOffset, GroupMetadata, StoredGroup, StoredMember, StoredOffset
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupLifecycle, GroupState, RebalanceFailed, Trigger
from slackwater.group.messages import (
    CommittedPartition,
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsResponse,
    DescribeGroups,
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    Heartbeat,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    ListGroups,
    ListGroupsResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
    SyncGroup,
    SyncGroupResponse,
)

from .room import GROUP, HOST, SESSION_MS, SHARD, Call, Room, offering, part_of, subscription

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def stored(name: str, *, rebalance_timeout_ms: int = 60_000, assignment: bytes = b"") -> StoredMember:
    """A member as an earlier coordinator wrote it."""
    return StoredMember(
        name, None, name, HOST, SESSION_MS, rebalance_timeout_ms, subscription("t"), assignment or part_of(name)
    )


# --- which shard ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("my-group", -1906497762),
        ("polygenelubricants", -(2**31)),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_groups_shard_is_the_java_hash_of_its_id(group_id: str, java_hash: int) -> None:
    for partitions in (1, 50, 7):
        coordinator = Coordinator(CoordinatorConfig(offsets_topic_num_partitions=partitions))
        expected = 0 if java_hash == -(2**31) else abs(java_hash) % partitions
        assert coordinator.offsets_partition_of(group_id) == expected


# --- loading ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("CO-03", "HB-08")
def test_responses_while_loading(room: Room) -> None:
    room.unload(1)
    room.leader_epoch = 2
    room.start_loading()
    loading = Error.COORDINATOR_LOAD_IN_PROGRESS

    assert room.ask(Heartbeat(GROUP, "a", None, 1)).answer == HeartbeatResponse(Error.NONE)
    assert room.ask(SyncGroup(GROUP, "a", None, 1)).answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert room.member("a").ask_to_join().answer.error is loading
    assert room.ask(LeaveGroup(GROUP, (LeavingMember("a"),))).answer == LeaveGroupResponse(loading)
    assert room.ask(OffsetCommit(GROUP, "", None, -1, (OffsetToCommit("t", 0, 1),))).answer == OffsetCommitResponse(
        (CommittedPartition("t", 0, loading),)
    )
    assert room.ask(OffsetFetch((GroupToFetch(GROUP, None),))).answer == OffsetFetchResponse(
        (FetchedGroup(GROUP, loading),)
    )
    assert room.ask(OffsetDelete(GROUP, (("t", 0),))).answer == OffsetDeleteResponse(loading)
    (described,) = room.ask(DescribeGroups((GROUP,))).answer.groups
    assert (described.group_id, described.error, described.members) == (GROUP, loading, ())
    assert room.ask(DeleteGroups((GROUP,))).answer == DeleteGroupsResponse((DeletedGroup(GROUP, loading),))


@pytest.mark.proves("CO-04")
def test_list_groups_fails_while_a_shard_loads(room: Room) -> None:
    room.commit_simply(1)
    room.unload(1)
    room.leader_epoch = 2
    room.start_loading()

    assert room.ask(ListGroups()).answer == ListGroupsResponse(Error.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.proves("CO-04")
def test_list_groups_skips_shards_that_are_elsewhere(room: Room) -> None:
    room.commit_simply(1)
    room.unload(1)

    assert room.ask(ListGroups()).answer == ListGroupsResponse(Error.NONE)


def test_shard_that_is_elsewhere_is_not_coordinated_here(room: Room) -> None:
    room.unload(1)
    elsewhere = Error.NOT_COORDINATOR

    assert room.ask(Heartbeat(GROUP, "a", None, 1)).answer == HeartbeatResponse(elsewhere)
    assert room.ask(SyncGroup(GROUP, "a", None, 1)).answer == SyncGroupResponse(elsewhere)
    assert room.member("a").ask_to_join().answer.error is elsewhere
    assert room.ask(OffsetCommit(GROUP, "", None, -1, (OffsetToCommit("t", 0, 1),))).answer == OffsetCommitResponse(
        (CommittedPartition("t", 0, elsewhere),)
    )
    assert room.ask(OffsetDelete(GROUP, (("t", 0),))).answer == OffsetDeleteResponse(elsewhere)
    (described,) = room.ask(DescribeGroups((GROUP,))).answer.groups
    assert (described.group_id, described.error) == (GROUP, elsewhere)
    assert room.ask(DeleteGroups((GROUP,))).answer == DeleteGroupsResponse((DeletedGroup(GROUP, elsewhere),))


def test_join_to_unavailable_partition_echoes_no_id(room: Room) -> None:
    a = room.member("a")
    a.id = "a-from-before"
    room.unload(1)
    assert a.ask_to_join().answer == JoinGroupResponse(Error.NOT_COORDINATOR)
    room.leader_epoch = 2
    room.start_loading()

    assert a.ask_to_join().answer == JoinGroupResponse(Error.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.proves("CO-06")
def test_last_record_of_each_key_is_what_is_loaded(room: Room) -> None:
    room.log = [
        GroupMetadata(GROUP, StoredGroup("consumer", 1, "range", "x", 0, (stored("x"),))),
        CommittedOffset(GROUP, "t", 0, StoredOffset(1, -1, "", 0)),
        GroupMetadata("gone", StoredGroup("consumer", 5, None, None, 0, ())),
        CommittedOffset("gone", "t", 0, StoredOffset(1, -1, "", 0)),
        CommittedOffset(GROUP, "t", 0, StoredOffset(2, 4, "two", room.now_ms)),
        CommittedOffset(GROUP, "u", 0, StoredOffset(3, -1, "", room.now_ms)),
        GroupMetadata(GROUP, StoredGroup("consumer", 7, "range", "b", room.now_ms, (stored("a"), stored("b")))),
        GroupMetadata("empty", StoredGroup("consumer", 9, None, None, room.now_ms, ())),
        CommittedOffset(GROUP, "u", 0, None),
        CommittedOffset("gone", "t", 0, None),
        GroupMetadata("gone", None),
    ]
    room.restart()

    group = room.group
    assert (group.state, group.generation_id, group.leader_id, group.protocol_name) == (S, 7, "b", "range")
    assert (group.protocol_type, set(group.members)) == ("consumer", {"a", "b"})
    empty = room.coordinator.groups["empty"]
    assert (empty.state, empty.generation_id, empty.protocol_type, empty.leader_id) == (E, 9, "consumer", None)
    assert set(room.coordinator.groups) == {GROUP, "empty"}
    assert room.fetch() == (FetchedOffset("t", 0, 2, 4, "two", Error.NONE),)


@pytest.mark.proves("CO-06")
def test_failover_goes_unnoticed_by_members(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.commit(5)
    before = room.events.mark()
    room.restart()

    assert [a.heartbeat(), b.heartbeat()] == [Error.NONE, Error.NONE]
    assert a.commit(6).answer.partitions == (CommittedPartition("t", 0, Error.NONE),)
    assert b.sync().answer == b.synced_answer()
    assert b.join().answer == b.joined_answer(generation=1, leader=a.id)
    assert (room.state, room.generation, room.offset()) == (S, 1, 6)
    assert room.rebalances(before) == []
    (loaded,) = room.events.since(before, EventKind.GROUP_LOADED)
    assert (loaded.group, loaded.generation, loaded.state_after) == (GROUP, 1, S)
    assert isinstance(loaded.detail, GroupLifecycle)
    assert loaded.detail.members == 2


@pytest.mark.proves("CO-06", "JG-06")
def test_only_selected_protocol_survives_failover(room: Room) -> None:
    both = offering("range", "sticky")
    a, b = room.settled("a", "b", protocols=both)
    room.restart()

    assert room.member("c", protocols=offering("sticky")).ask_to_join().answer == JoinGroupResponse(
        Error.INCONSISTENT_GROUP_PROTOCOL
    )
    assert b.join().parked, "what it offers is more than what is known of it"
    assert room.state is PR
    a.join()
    assert room.state is CR
    assert room.member("c", protocols=offering("sticky")).ask_to_join().answer.error is Error.MEMBER_ID_REQUIRED


@pytest.mark.proves("JG-27")
def test_stored_rebalance_timeout_minus_1_is_session_timeout(room: Room) -> None:
    members = (stored("a", rebalance_timeout_ms=-1), stored("b", rebalance_timeout_ms=-1))
    room.log = [GroupMetadata(GROUP, StoredGroup("consumer", 1, "range", "a", room.now_ms, members))]
    room.restart()
    a, b = room.member("a", rebalance_timeout_ms=-1), room.member("b")
    a.id, a.generation = "a", 1
    b.id, b.generation = "b", 1
    a.join()
    room.pass_ms(SESSION_MS - 1, beating=[b])
    assert room.state is PR
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (CR, {"a"})


@pytest.mark.proves("CO-06", "EX-01")
def test_group_with_offsets_only_loads_as_simple_group(room: Room) -> None:
    room.log = [CommittedOffset(GROUP, "t", 0, StoredOffset(2, -1, "", room.now_ms))]
    room.restart()

    assert (room.state, room.group.protocol_type, room.generation) == (E, None, 0)


@pytest.mark.proves("CO-07")
def test_loaded_group_that_is_too_large_rebalances_at_once() -> None:
    room = Room(group_max_size=1)
    members = (stored("a"), stored("b"))
    room.log = [GroupMetadata(GROUP, StoredGroup("consumer", 4, "range", "a", room.now_ms, members))]
    before = room.events.mark()
    room.restart()

    assert (room.state, room.generation, room.member_ids) == (PR, 4, {"a", "b"})
    ((trigger, _),) = room.rebalances(before)
    assert trigger is Trigger.OVER_CAPACITY


@pytest.mark.proves("CO-07")
def test_loaded_group_of_exactly_the_limit_does_not_rebalance() -> None:
    room = Room(group_max_size=2)
    members = (stored("a"), stored("b"))
    room.log = [GroupMetadata(GROUP, StoredGroup("consumer", 4, "range", "a", room.now_ms, members))]
    room.restart()

    assert room.state is S


# --- unloading --------------------------------------------------------------------------------------------------


@pytest.mark.proves("CO-08")
def test_unload_fails_parked_joins(room: Room) -> None:
    a, _ = room.settled("a", "b")
    c = room.member("c")
    joining = [a.join(), c.join()]
    before = room.events.mark()
    room.unload(1)

    assert [call.answer for call in joining] == [
        JoinGroupResponse(Error.NOT_COORDINATOR, member_id=a.id),
        JoinGroupResponse(Error.NOT_COORDINATOR, member_id=c.id),
    ]
    assert dict(room.coordinator.groups) == {}
    (unloaded,) = room.events.since(before, EventKind.GROUP_UNLOADED)
    assert (unloaded.group, unloaded.state_after) == (GROUP, GroupState.DEAD)
    (failed,) = room.events.since(before, EventKind.REBALANCE_FAILED)
    assert isinstance(failed.detail, RebalanceFailed)
    assert failed.detail.error == "NOT_COORDINATOR"


@pytest.mark.proves("CO-08")
def test_unload_fails_joins_in_initial_delay(room: Room) -> None:
    a = room.member("a")
    joining = a.join()
    room.unload(None)

    assert joining.answer == JoinGroupResponse(Error.NOT_COORDINATOR, member_id=a.id)


@pytest.mark.proves("CO-08")
def test_unload_fails_parked_syncs(room: Room) -> None:
    a, b = room.member("a"), room.member("b")
    a.join()
    b.join()
    room.end_initial_delay()
    room.hold_writes()
    syncing = [b.sync(), a.sync()]
    room.unload(1)

    assert [call.answer for call in syncing] == [SyncGroupResponse(Error.NOT_COORDINATOR)] * 2
    room.release_writes(Error.NOT_LEADER_OR_FOLLOWER)
    assert [len(call.answers) for call in syncing] == [1, 1]


@pytest.mark.proves("CO-08")
@pytest.mark.parametrize("outcome", [Error.NONE, Error.NOT_LEADER_OR_FOLLOWER])
def test_unload_fails_requests_with_pending_writes_once(room: Room, outcome: Error) -> None:
    (a,) = room.settled("a", static=True)
    room.hold_writes()
    calls: list[Call[Any]] = [
        a.commit(1),
        room.commit_simply(1, group_id="simple"),
        room.ask(OffsetFetch((GroupToFetch(GROUP, None),), require_stable=True)),
        a.restarted().join(),
    ]
    assert all(call.parked for call in calls)
    room.unload(1)
    room.release_writes(outcome)

    assert [len(call.answers) for call in calls] == [1, 1, 1, 1]
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("CO-08")
def test_unloading_turns_all_timers_off(room: Room) -> None:
    room.settled("a")
    room.member("b").ask_to_join()
    room.commit_simply(1, group_id="simple")
    room.unload(1)
    before = room.events.mark()
    room.pass_ms(10_000_000)

    assert room.coordinator.next_due_ms() is None
    assert room.events.since(before) == []


@pytest.mark.proves("CO-08")
def test_shard_that_comes_back_knows_what_the_log_knows(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.commit(5)
    room.unload(1)
    room.leader_epoch = 2
    room.load()

    assert [a.heartbeat(), b.heartbeat()] == [Error.NONE, Error.NONE]
    assert room.offset() == 5


@pytest.mark.proves("CO-09")
@pytest.mark.parametrize("stage", ["preparing", "completing"])
def test_unfinished_rebalance_is_lost_with_its_coordinator(room: Room, stage: str) -> None:
    a, b = room.settled("a", "b")
    a.join()
    if stage == "completing":
        b.join()
        assert room.generation == 2
    room.restart()

    assert (room.state, room.generation, room.member_ids) == (S, 1, {a.id, b.id})
    if stage == "completing":
        assert b.sync().answer == SyncGroupResponse(Error.ILLEGAL_GENERATION)
        assert b.heartbeat() is Error.ILLEGAL_GENERATION


@pytest.mark.proves("CO-09")
def test_member_of_the_lost_generation_only_is_unknown(room: Room) -> None:
    (a,) = room.settled("a")
    b = room.member("b")
    b.join()
    a.join()
    room.restart()

    assert b.sync().answer == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert a.sync().answer == SyncGroupResponse(Error.ILLEGAL_GENERATION)


@pytest.mark.proves("CO-09")
def test_pending_members_are_lost_on_failover(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    room.restart()

    assert dict(room.group.pending) == {}
    assert b.ask_to_join().answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=b.id)


@pytest.mark.proves("CO-10")
def test_unloading_with_an_older_leader_epoch_is_ignored(room: Room) -> None:
    room.leader_epoch = 5
    room.restart()
    (a,) = room.settled("a")
    room.unload(3)

    assert a.heartbeat() is Error.NONE
    room.unload(7)
    assert a.heartbeat() is Error.NOT_COORDINATOR


@pytest.mark.proves("CO-10")
def test_loading_with_an_older_leader_epoch_is_ignored(room: Room) -> None:
    room.leader_epoch = 5
    room.restart()
    (a,) = room.settled("a")
    before = room.snapshot()
    room.do(room.coordinator.load(SHARD, 3, room.now_ms))

    assert room.snapshot() == before
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("CO-10")
def test_same_leader_epoch_neither_loads_nor_unloads_again(room: Room) -> None:
    room.leader_epoch = 5
    room.restart()
    (a,) = room.settled("a")
    before = room.snapshot()
    room.do(room.coordinator.load(SHARD, room.leader_epoch, room.now_ms))
    room.do(room.coordinator.unload(SHARD, room.leader_epoch, room.now_ms))

    assert room.snapshot() == before
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("CO-10")
def test_loading_with_a_newer_leader_epoch_starts_over(room: Room) -> None:
    a, _ = room.settled("a", "b")
    joining = a.join()
    room.leader_epoch = 3
    room.load()

    assert joining.answer == JoinGroupResponse(Error.NOT_COORDINATOR, member_id=a.id)
    assert (room.state, room.generation) == (S, 1)
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("CO-08", "CO-10")
def test_unloading_without_an_epoch_is_obeyed(room: Room) -> None:
    (a,) = room.settled("a")
    room.unload(None)

    assert a.heartbeat() is Error.NOT_COORDINATOR


def test_acknowledged_state_survives_restart(room: Room) -> None:
    a, b = room.settled("a", "b")
    for offset in range(20):
        a.commit(offset)
    c = room.member("c")
    c.join()
    room.rebalance(a, b)
    c.sync()
    room.restart()
    room.restart()

    assert room.offset() == 19
    described = room.describe()
    assert {member.member_id: member.assignment for member in described.members} == {
        member.id: part_of(member.id) for member in (a, b, c)
    }
    assert (room.state, room.generation, room.group.leader_id) == (S, 2, a.id)
