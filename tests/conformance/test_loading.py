"""Section 8 of the catalogue: loading and unloading partitions."""

from typing import Any

import pytest

from slackwater.group.coordinator import Coordinator
from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.records import CommittedOffset, GroupMetadata, StoredGroup, StoredMember, StoredOffset
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupLifecycle, GroupState, RebalanceFailed, Trigger
from slackwater.group.messages import (
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
    OffsetResult,
    OffsetToCommit,
    SyncGroup,
    SyncGroupResponse,
)

from .coordinator_harness import (
    GROUP,
    HOST,
    OFFSETS_PARTITION,
    SESSION_MS,
    Call,
    CoordinatorHarness,
    assignment_of,
    join_protocols,
    subscription,
)

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def stored(name: str, *, rebalance_timeout_ms: int = 60_000, assignment: bytes = b"") -> StoredMember:
    """Return a member record as an earlier coordinator wrote it."""
    return StoredMember(
        name, None, name, HOST, SESSION_MS, rebalance_timeout_ms, subscription("t"), assignment or assignment_of(name)
    )


# --- offsets partitions -----------------------------------------------------------------------------------------------


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
def test_offsets_partition_is_java_hash_of_group_id(group_id: str, java_hash: int) -> None:
    for partitions in (1, 50, 7):
        coordinator = Coordinator(CoordinatorConfig(offsets_topic_num_partitions=partitions))
        expected = 0 if java_hash == -(2**31) else abs(java_hash) % partitions
        assert coordinator.offsets_partition_of(group_id) == expected


# --- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CO-03", "HB-08")
def test_responses_while_loading(harness: CoordinatorHarness) -> None:
    harness.unload(1)
    harness.leader_epoch = 2
    harness.start_loading()
    loading = Error.COORDINATOR_LOAD_IN_PROGRESS

    assert harness.send(Heartbeat(GROUP, "a", None, 1)).response == HeartbeatResponse(Error.NONE)
    assert harness.send(SyncGroup(GROUP, "a", None, 1)).response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert harness.member("a").send_join().response.error is loading
    assert harness.send(LeaveGroup(GROUP, (LeavingMember("a"),))).response == LeaveGroupResponse(loading)
    assert harness.send(
        OffsetCommit(GROUP, "", None, -1, (OffsetToCommit("t", 0, 1),))
    ).response == OffsetCommitResponse((OffsetResult("t", 0, loading),))
    assert harness.send(OffsetFetch((GroupToFetch(GROUP, None),))).response == OffsetFetchResponse(
        (FetchedGroup(GROUP, loading),)
    )
    assert harness.send(OffsetDelete(GROUP, (("t", 0),))).response == OffsetDeleteResponse(loading)
    (described,) = harness.send(DescribeGroups((GROUP,))).response.groups
    assert (described.group_id, described.error, described.members) == (GROUP, loading, ())
    assert harness.send(DeleteGroups((GROUP,))).response == DeleteGroupsResponse((DeletedGroup(GROUP, loading),))


@pytest.mark.proves("CO-04")
def test_list_groups_fails_while_partition_loads(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.unload(1)
    harness.leader_epoch = 2
    harness.start_loading()

    assert harness.send(ListGroups()).response == ListGroupsResponse(Error.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.proves("CO-04")
def test_list_groups_skips_unloaded_partitions(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.unload(1)

    assert harness.send(ListGroups()).response == ListGroupsResponse(Error.NONE)


def test_unloaded_partition_is_not_coordinator(harness: CoordinatorHarness) -> None:
    harness.unload(1)
    error = Error.NOT_COORDINATOR

    assert harness.send(Heartbeat(GROUP, "a", None, 1)).response == HeartbeatResponse(error)
    assert harness.send(SyncGroup(GROUP, "a", None, 1)).response == SyncGroupResponse(error)
    assert harness.member("a").send_join().response.error is error
    assert harness.send(
        OffsetCommit(GROUP, "", None, -1, (OffsetToCommit("t", 0, 1),))
    ).response == OffsetCommitResponse((OffsetResult("t", 0, error),))
    assert harness.send(OffsetDelete(GROUP, (("t", 0),))).response == OffsetDeleteResponse(error)
    (described,) = harness.send(DescribeGroups((GROUP,))).response.groups
    assert (described.group_id, described.error) == (GROUP, error)
    assert harness.send(DeleteGroups((GROUP,))).response == DeleteGroupsResponse((DeletedGroup(GROUP, error),))


def test_join_to_unavailable_partition_echoes_no_id(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    a.id = "a-from-before"
    harness.unload(1)
    assert a.send_join().response == JoinGroupResponse(Error.NOT_COORDINATOR)
    harness.leader_epoch = 2
    harness.start_loading()

    assert a.send_join().response == JoinGroupResponse(Error.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.proves("CO-06")
def test_load_uses_last_record_of_each_key(harness: CoordinatorHarness) -> None:
    harness.log = [
        GroupMetadata(GROUP, StoredGroup("consumer", 1, "range", "x", 0, (stored("x"),))),
        CommittedOffset(GROUP, "t", 0, StoredOffset(1, -1, "", 0)),
        GroupMetadata("deleted", StoredGroup("consumer", 5, None, None, 0, ())),
        CommittedOffset("deleted", "t", 0, StoredOffset(1, -1, "", 0)),
        CommittedOffset(GROUP, "t", 0, StoredOffset(2, 4, "two", harness.now_ms)),
        CommittedOffset(GROUP, "u", 0, StoredOffset(3, -1, "", harness.now_ms)),
        GroupMetadata(GROUP, StoredGroup("consumer", 7, "range", "b", harness.now_ms, (stored("a"), stored("b")))),
        GroupMetadata("empty", StoredGroup("consumer", 9, None, None, harness.now_ms, ())),
        CommittedOffset(GROUP, "u", 0, None),
        CommittedOffset("deleted", "t", 0, None),
        GroupMetadata("deleted", None),
    ]
    harness.restart()

    group = harness.group
    assert (group.state, group.generation_id, group.leader_id, group.protocol_name) == (S, 7, "b", "range")
    assert (group.protocol_type, set(group.members)) == ("consumer", {"a", "b"})
    empty = harness.coordinator.groups["empty"]
    assert (empty.state, empty.generation_id, empty.protocol_type, empty.leader_id) == (E, 9, "consumer", None)
    assert set(harness.coordinator.groups) == {GROUP, "empty"}
    assert harness.fetch() == (FetchedOffset("t", 0, 2, 4, "two", Error.NONE),)


@pytest.mark.proves("CO-06")
def test_failover_keeps_members_without_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.commit(5)
    before = harness.events.mark()
    harness.restart()

    assert [a.heartbeat(), b.heartbeat()] == [Error.NONE, Error.NONE]
    assert a.commit(6).response.partitions == (OffsetResult("t", 0, Error.NONE),)
    assert b.sync().response == b.expected_sync_response()
    assert b.join().response == b.expected_join_response(generation=1, leader=a.id)
    assert (harness.state, harness.generation, harness.offset()) == (S, 1, 6)
    assert harness.rebalances(before) == []
    (loaded,) = harness.events.since(before, EventKind.GROUP_LOADED)
    assert (loaded.group, loaded.generation, loaded.state_after) == (GROUP, 1, S)
    assert isinstance(loaded.detail, GroupLifecycle)
    assert loaded.detail.members == 2


@pytest.mark.proves("CO-06", "JG-06")
def test_only_selected_protocol_survives_failover(harness: CoordinatorHarness) -> None:
    both = join_protocols("range", "sticky")
    a, b = harness.stable_group("a", "b", protocols=both)
    harness.restart()

    assert harness.member("c", protocols=join_protocols("sticky")).send_join().response == JoinGroupResponse(
        Error.INCONSISTENT_GROUP_PROTOCOL
    )
    assert b.join().parked, "its protocols differ from the stored one"
    assert harness.state is PR
    a.join()
    assert harness.state is CR
    assert (
        harness.member("c", protocols=join_protocols("sticky")).send_join().response.error is Error.MEMBER_ID_REQUIRED
    )


@pytest.mark.proves("JG-27")
def test_stored_rebalance_timeout_minus_1_is_session_timeout(harness: CoordinatorHarness) -> None:
    members = (stored("a", rebalance_timeout_ms=-1), stored("b", rebalance_timeout_ms=-1))
    harness.log = [GroupMetadata(GROUP, StoredGroup("consumer", 1, "range", "a", harness.now_ms, members))]
    harness.restart()
    a, b = harness.member("a", rebalance_timeout_ms=-1), harness.member("b")
    a.id, a.generation = "a", 1
    b.id, b.generation = "b", 1
    a.join()
    harness.advance_ms(SESSION_MS - 1, heartbeating=[b])
    assert harness.state is PR
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (CR, {"a"})


@pytest.mark.proves("CO-06", "EX-01")
def test_group_with_offsets_only_loads_as_simple_group(harness: CoordinatorHarness) -> None:
    harness.log = [CommittedOffset(GROUP, "t", 0, StoredOffset(2, -1, "", harness.now_ms))]
    harness.restart()

    assert (harness.state, harness.group.protocol_type, harness.generation) == (E, None, 0)


@pytest.mark.proves("CO-07")
def test_oversized_loaded_group_rebalances() -> None:
    harness = CoordinatorHarness(group_max_size=1)
    members = (stored("a"), stored("b"))
    harness.log = [GroupMetadata(GROUP, StoredGroup("consumer", 4, "range", "a", harness.now_ms, members))]
    before = harness.events.mark()
    harness.restart()

    assert (harness.state, harness.generation, harness.member_ids) == (PR, 4, {"a", "b"})
    ((trigger, _),) = harness.rebalances(before)
    assert trigger is Trigger.OVER_CAPACITY


@pytest.mark.proves("CO-07")
def test_loaded_group_at_size_limit_is_stable() -> None:
    harness = CoordinatorHarness(group_max_size=2)
    members = (stored("a"), stored("b"))
    harness.log = [GroupMetadata(GROUP, StoredGroup("consumer", 4, "range", "a", harness.now_ms, members))]
    harness.restart()

    assert harness.state is S


# --- unloading --------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CO-08")
def test_unload_fails_parked_joins(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b")
    c = harness.member("c")
    join_calls = [a.join(), c.join()]
    before = harness.events.mark()
    harness.unload(1)

    assert [call.response for call in join_calls] == [
        JoinGroupResponse(Error.NOT_COORDINATOR, member_id=a.id),
        JoinGroupResponse(Error.NOT_COORDINATOR, member_id=c.id),
    ]
    assert dict(harness.coordinator.groups) == {}
    (unloaded,) = harness.events.since(before, EventKind.GROUP_UNLOADED)
    assert (unloaded.group, unloaded.state_after) == (GROUP, GroupState.DEAD)
    (failed,) = harness.events.since(before, EventKind.REBALANCE_FAILED)
    assert isinstance(failed.detail, RebalanceFailed)
    assert failed.detail.error == "NOT_COORDINATOR"


@pytest.mark.proves("CO-08")
def test_unload_fails_joins_in_initial_delay(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    join_call = a.join()
    harness.unload(None)

    assert join_call.response == JoinGroupResponse(Error.NOT_COORDINATOR, member_id=a.id)


@pytest.mark.proves("CO-08")
def test_unload_fails_parked_syncs(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    harness.hold_writes()
    sync_calls = [b.sync(), a.sync()]
    harness.unload(1)

    assert [call.response for call in sync_calls] == [SyncGroupResponse(Error.NOT_COORDINATOR)] * 2
    harness.release_writes(Error.NOT_LEADER_OR_FOLLOWER)
    assert [len(call.responses) for call in sync_calls] == [1, 1]


@pytest.mark.proves("CO-08")
@pytest.mark.parametrize("outcome", [Error.NONE, Error.NOT_LEADER_OR_FOLLOWER])
def test_unload_fails_requests_with_pending_writes_once(harness: CoordinatorHarness, outcome: Error) -> None:
    (a,) = harness.stable_group("a", static=True)
    harness.hold_writes()
    calls: list[Call[Any]] = [
        a.commit(1),
        harness.commit_simple(1, group_id="simple"),
        harness.send(OffsetFetch((GroupToFetch(GROUP, None),), require_stable=True)),
        a.restarted().join(),
    ]
    assert all(call.parked for call in calls)
    harness.unload(1)
    harness.release_writes(outcome)

    assert [len(call.responses) for call in calls] == [1, 1, 1, 1]
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("CO-08")
def test_unload_cancels_all_timers(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    harness.member("b").send_join()
    harness.commit_simple(1, group_id="simple")
    harness.unload(1)
    before = harness.events.mark()
    harness.advance_ms(10_000_000)

    assert harness.coordinator.next_due_ms() is None
    assert harness.events.since(before) == []


@pytest.mark.proves("CO-08")
def test_reload_restores_state_from_log(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.commit(5)
    harness.unload(1)
    harness.leader_epoch = 2
    harness.load()

    assert [a.heartbeat(), b.heartbeat()] == [Error.NONE, Error.NONE]
    assert harness.offset() == 5


@pytest.mark.proves("CO-09")
@pytest.mark.parametrize("stage", ["preparing", "completing"])
def test_failover_discards_unfinished_rebalance(harness: CoordinatorHarness, stage: str) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    if stage == "completing":
        b.join()
        assert harness.generation == 2
    harness.restart()

    assert (harness.state, harness.generation, harness.member_ids) == (S, 1, {a.id, b.id})
    if stage == "completing":
        assert b.sync().response == SyncGroupResponse(Error.ILLEGAL_GENERATION)
        assert b.heartbeat() is Error.ILLEGAL_GENERATION


@pytest.mark.proves("CO-09")
def test_new_member_of_discarded_generation_is_unknown(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    b = harness.member("b")
    b.join()
    a.join()
    harness.restart()

    assert b.sync().response == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert a.sync().response == SyncGroupResponse(Error.ILLEGAL_GENERATION)


@pytest.mark.proves("CO-09")
def test_pending_members_are_lost_on_failover(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    harness.restart()

    assert dict(harness.group.pending_members) == {}
    assert b.send_join().response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=b.id)


@pytest.mark.proves("CO-10")
def test_unload_with_older_epoch_is_ignored(harness: CoordinatorHarness) -> None:
    harness.leader_epoch = 5
    harness.restart()
    (a,) = harness.stable_group("a")
    harness.unload(3)

    assert a.heartbeat() is Error.NONE
    harness.unload(7)
    assert a.heartbeat() is Error.NOT_COORDINATOR


@pytest.mark.proves("CO-10")
def test_load_with_older_epoch_is_ignored(harness: CoordinatorHarness) -> None:
    harness.leader_epoch = 5
    harness.restart()
    (a,) = harness.stable_group("a")
    before = harness.snapshot()
    harness.execute(harness.coordinator.load(OFFSETS_PARTITION, 3, harness.now_ms))

    assert harness.snapshot() == before
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("CO-10")
def test_load_and_unload_with_same_epoch_are_ignored(harness: CoordinatorHarness) -> None:
    harness.leader_epoch = 5
    harness.restart()
    (a,) = harness.stable_group("a")
    before = harness.snapshot()
    harness.execute(harness.coordinator.load(OFFSETS_PARTITION, harness.leader_epoch, harness.now_ms))
    harness.execute(harness.coordinator.unload(OFFSETS_PARTITION, harness.leader_epoch, harness.now_ms))

    assert harness.snapshot() == before
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("CO-10")
def test_load_with_newer_epoch_loads_again(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b")
    join_call = a.join()
    harness.leader_epoch = 3
    harness.load()

    assert join_call.response == JoinGroupResponse(Error.NOT_COORDINATOR, member_id=a.id)
    assert (harness.state, harness.generation) == (S, 1)
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("CO-08", "CO-10")
def test_unload_without_epoch_is_accepted(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    harness.unload(None)

    assert a.heartbeat() is Error.NOT_COORDINATOR


def test_acknowledged_state_survives_restart(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    for offset in range(20):
        a.commit(offset)
    c = harness.member("c")
    c.join()
    harness.rebalance(a, b)
    c.sync()
    harness.restart()
    harness.restart()

    assert harness.offset() == 19
    described = harness.describe()
    assert {member.member_id: member.assignment for member in described.members} == {
        member.id: assignment_of(member.id) for member in (a, b, c)
    }
    assert (harness.state, harness.generation, harness.group.leader_id) == (S, 2, a.id)
