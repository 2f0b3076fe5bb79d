"""Section 1 of the catalogue: the states of a classic group and their transitions."""

import pytest

from slackwater.group.coordinator.records import CommittedOffset, GroupMetadata, StoredGroup
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GenerationFormed, GroupState, RebalanceCompleted, Trigger
from slackwater.group.messages import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsResponse,
    FetchedOffset,
    Heartbeat,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    ListedGroup,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetResult,
    OffsetToCommit,
    SyncGroup,
    SyncGroupResponse,
)

from .coordinator_harness import GROUP, REBALANCE_MS, SESSION_MS, Call, CoordinatorHarness, Member, join_protocols

E = GroupState.EMPTY
IR = GroupState.INITIAL_REBALANCE
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE
D = GroupState.DEAD

ALLOWED_TRANSITIONS = {
    (E, IR),
    (E, PR),
    (E, D),
    (IR, CR),
    (IR, E),
    (IR, D),
    (PR, CR),
    (PR, E),
    (PR, D),
    (CR, S),
    (CR, PR),
    (CR, D),
    (S, PR),
    (S, D),
    (D, D),
}


def dead_group(harness: CoordinatorHarness) -> Member:
    """Return the former member of a dead group, whose tombstones are not written yet."""
    (a,) = harness.stable_group("a")
    a.commit(5)
    a.leave()
    harness.hold_writes()
    harness.send(DeleteGroups((GROUP,)))
    assert harness.state is D
    return a


@pytest.mark.proves("ST-01")
def test_group_uses_only_allowed_transitions(harness: CoordinatorHarness) -> None:
    states: list[GroupState] = []

    def record_state() -> None:
        if not states or states[-1] is not harness.state:
            states.append(harness.state)

    a = harness.member("a")
    a.send_join()
    record_state()
    a.join()
    record_state()
    harness.end_initial_delay()
    record_state()
    a.sync()
    record_state()
    b = harness.member("b")
    b.join()
    record_state()
    a.join()
    record_state()
    harness.sync(a, b)
    record_state()
    b.leave()
    record_state()
    a.leave()
    record_state()
    harness.hold_writes()
    harness.send(DeleteGroups((GROUP,)))
    record_state()
    harness.release_writes()

    assert states == [E, IR, CR, S, PR, CR, S, PR, E, D]
    assert GROUP not in harness.coordinator.groups
    assert set(harness.events.moves()) <= ALLOWED_TRANSITIONS


@pytest.mark.proves("ST-02", "EX-01")
def test_empty_state_timestamp_starts_retention(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    harness.advance_ms(5_000)
    a.leave()
    emptied_ms = harness.now_ms

    *_, record = harness.log
    assert record == GroupMetadata(GROUP, StoredGroup("consumer", 2, None, None, emptied_ms, ()))


@pytest.mark.proves("ST-02")
def test_stable_generation_timestamp_is_write_time(harness: CoordinatorHarness) -> None:
    (a,) = harness.completing_group("a")
    formed_ms = harness.now_ms
    harness.advance_ms(2_000)
    a.sync()

    *_, record = harness.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert record.value.state_timestamp_ms == formed_ms


@pytest.mark.proves("ST-03", "JG-04")
def test_new_group_is_empty_in_generation_0(harness: CoordinatorHarness) -> None:
    harness.member("a").send_join()

    group = harness.group
    assert (group.state, group.generation_id, group.protocol_type, group.protocol_name) == (E, 0, None, None)
    assert (group.leader_id, dict(group.members)) == (None, {})
    (created,) = harness.events.of(EventKind.GROUP_CREATED)
    assert (created.group, created.generation) == (GROUP, 0)


@pytest.mark.proves("ST-04")
def test_first_member_fixes_protocol_type_and_leader(harness: CoordinatorHarness) -> None:
    a = harness.member("a", protocol_type="connect", protocols=join_protocols("default"))
    a.join()
    harness.member("b", protocol_type="connect", protocols=join_protocols("default")).join()

    assert harness.group.protocol_type == "connect"
    assert harness.group.leader_id == a.id


@pytest.mark.proves("ST-04")
def test_protocol_type_survives_emptying(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.leave()

    assert (harness.state, harness.group.protocol_type, harness.group.leader_id) == (E, "consumer", None)
    assert harness.listed() == [ListedGroup(GROUP, "consumer", "Empty", "classic")]


@pytest.mark.proves("ST-04")
def test_emptied_group_takes_new_protocol_type(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.leave()
    harness.member("b", protocol_type="connect", protocols=join_protocols("default")).join()

    assert harness.group.protocol_type == "connect"


@pytest.mark.proves("ST-05")
def test_first_join_starts_initial_delay(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    join_call = a.join()

    assert join_call.parked
    assert harness.state is IR
    assert harness.rebalances() == [(Trigger.MEMBER_JOIN, a.id)]
    (started,) = harness.events.of(EventKind.REBALANCE_STARTED)
    assert (started.state_before, started.state_after) == (E, IR)


@pytest.mark.proves("ST-06")
def test_rebalance_starts_from_stable(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b")
    before = harness.events.mark()
    c = harness.member("c")
    c.join()

    assert (harness.state, harness.generation) == (PR, 1)
    assert harness.rebalances(before) == [(Trigger.MEMBER_JOIN, c.id)]
    assert a.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("ST-06")
def test_rebalance_starts_from_completing_rebalance(harness: CoordinatorHarness) -> None:
    harness.completing_group("a")
    before = harness.events.mark()
    b = harness.member("b")
    b.join()

    assert (harness.state, harness.generation) == (PR, 1)
    assert harness.rebalances(before) == [(Trigger.MEMBER_JOIN, b.id)]


@pytest.mark.proves("ST-06")
def test_trigger_during_rebalance_only_ends_join_phase(harness: CoordinatorHarness) -> None:
    a, b, c = harness.stable_group("a", "b", "c")
    c.leave()
    before = harness.events.mark()
    a.join()
    assert harness.state is PR
    b.leave()

    assert (harness.state, harness.generation, harness.member_ids) == (CR, 2, {a.id})
    assert harness.rebalances(before) == []


@pytest.mark.proves("ST-07", "JG-28", "JG-32")
def test_join_phase_forms_generation_and_selects_protocol(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    c, started_ms = harness.member("c"), harness.now_ms
    join_calls = [c.join()]
    harness.advance_ms(700)
    join_calls += [a.join(), b.join()]

    assert (harness.state, harness.generation, harness.group.protocol_name) == (CR, 2, "range")
    leader_response = next(call.response for call in join_calls if call.response.member_id == harness.group.leader_id)
    assert set(leader_response.members) == {a.as_listed(), b.as_listed(), c.as_listed()}
    (*_, formed) = harness.events.of(EventKind.GENERATION_FORMED)
    assert (formed.generation, formed.members, formed.time_ms) == (2, 3, started_ms + 700)
    assert formed.detail == GenerationFormed(leader=a.id, protocol="range", static_members=0, join_phase_ms=700)


@pytest.mark.proves("ST-07", "SG-11")
def test_sync_timer_is_the_rebalance_timeout(harness: CoordinatorHarness) -> None:
    a = harness.member("a", rebalance_timeout_ms=20_000)
    a.join()
    harness.end_initial_delay()
    harness.advance_ms(19_999, heartbeating=[a])
    assert harness.state is CR
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (E, set())


@pytest.mark.proves("ST-07", "JG-26")
def test_sync_timer_is_longest_rebalance_timeout(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a", rebalance_timeout_ms=20_000)
    b = harness.member("b", rebalance_timeout_ms=100_000)
    b.join()
    a.join()
    assert harness.state is CR
    harness.advance_ms(99_999, heartbeating=[a, b])
    assert (harness.state, harness.member_ids) == (CR, {a.id, b.id})
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (E, set())


@pytest.mark.proves("ST-08")
def test_join_phase_without_members_writes_empty_group(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    b.leave()
    harness.advance_ms(REBALANCE_MS - 1, heartbeating=[a])
    assert (harness.state, harness.generation) == (PR, 1)
    harness.advance_ms(1)

    assert (harness.state, harness.generation, harness.group.protocol_name) == (E, 2, None)
    assert harness.log[-1] == GroupMetadata(GROUP, StoredGroup("consumer", 2, None, None, harness.now_ms, ()))
    (emptied,) = harness.events.of(EventKind.GROUP_EMPTIED)
    assert (emptied.generation, emptied.time_ms) == (2, harness.now_ms)


@pytest.mark.proves("ST-09", "SG-06")
def test_group_is_stable_after_assignment_is_written(harness: CoordinatorHarness) -> None:
    (a,) = harness.completing_group("a")
    started_ms = harness.events.of(EventKind.REBALANCE_STARTED)[0].time_ms
    harness.hold_writes()
    sync_call = a.sync()
    assert sync_call.parked
    assert harness.state is CR
    assert harness.events.of(EventKind.REBALANCE_COMPLETED) == []
    harness.release_writes()

    assert sync_call.response == a.expected_sync_response()
    assert harness.state is S
    (completed,) = harness.events.of(EventKind.REBALANCE_COMPLETED)
    assert completed.generation == 1
    assert completed.detail == RebalanceCompleted(duration_ms=harness.now_ms - started_ms)


@pytest.mark.proves("ST-10")
def test_trigger_while_completing_fails_parked_syncs(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    b.join()
    assert harness.state is CR
    sync_call = b.sync()
    harness.member("c").join()

    assert sync_call.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert harness.state is PR
    assert [member.assignment for member in harness.describe().members] == [b"", b"", b""]


@pytest.mark.proves("ST-11", "LG-09")
def test_last_leave_empties_stable_group_at_once(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    before = harness.events.mark()
    leave_call = a.leave()

    assert leave_call.response == LeaveGroupResponse(Error.NONE, (LeftMember(a.id, None, Error.NONE),))
    assert (harness.state, harness.generation) == (E, 2)
    events = harness.events.since(before, EventKind.MEMBER_LEFT, EventKind.REBALANCE_STARTED, EventKind.GROUP_EMPTIED)
    assert [event.kind for event in events] == [
        EventKind.MEMBER_LEFT,
        EventKind.REBALANCE_STARTED,
        EventKind.GROUP_EMPTIED,
    ]
    assert harness.rebalances(before) == [(Trigger.MEMBER_LEAVE, a.id)]


@pytest.mark.proves("ST-11")
def test_last_leave_empties_group_with_pending_member(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    a.leave()

    assert (harness.state, harness.generation) == (E, 2)
    assert set(harness.group.pending_members) == {b.id}


@pytest.mark.proves("ST-11")
def test_pending_id_can_join_emptied_group(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    a.leave()
    b.join()
    harness.end_initial_delay()

    assert (harness.state, harness.generation, harness.member_ids) == (CR, 3, {b.id})


@pytest.mark.proves("ST-12", "HB-02", "LG-03")
def test_dead_group_is_coordinator_not_available(harness: CoordinatorHarness) -> None:
    a = dead_group(harness)
    offsets = (OffsetToCommit("t", 0, 9), OffsetToCommit("t", 1, 9))

    new_member: Call[JoinGroupResponse] = harness.member("b").send_join()
    assert new_member.response == JoinGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert a.send_join().response == JoinGroupResponse(Error.COORDINATOR_NOT_AVAILABLE, member_id=a.id)
    assert harness.send(SyncGroup(GROUP, a.id, None, 1)).response == SyncGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert harness.send(Heartbeat(GROUP, a.id, None, 1)).response == HeartbeatResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert harness.send(LeaveGroup(GROUP, (LeavingMember(a.id),))).response == LeaveGroupResponse(
        Error.COORDINATOR_NOT_AVAILABLE
    )
    assert harness.send(OffsetCommit(GROUP, "", None, -1, offsets)).response == OffsetCommitResponse(
        (
            OffsetResult("t", 0, Error.COORDINATOR_NOT_AVAILABLE),
            OffsetResult("t", 1, Error.COORDINATOR_NOT_AVAILABLE),
        )
    )
    assert harness.state is D


@pytest.mark.proves("ST-12", "OF-01")
def test_dead_group_has_no_offsets(harness: CoordinatorHarness) -> None:
    dead_group(harness)

    assert harness.fetch(("t", 0)) == (FetchedOffset("t", 0, -1, -1, "", Error.NONE),)
    assert harness.fetch() == ()


@pytest.mark.proves("ST-12")
def test_dead_group_is_not_found_by_deletions(harness: CoordinatorHarness) -> None:
    dead_group(harness)

    assert harness.send(DeleteGroups((GROUP,))).response == DeleteGroupsResponse(
        (DeletedGroup(GROUP, Error.GROUP_ID_NOT_FOUND),)
    )
    assert harness.send(OffsetDelete(GROUP, (("t", 0),))).response == OffsetDeleteResponse(Error.GROUP_ID_NOT_FOUND)


@pytest.mark.proves("ST-13", "OC-01", "AD-03")
def test_group_that_only_commits_is_simple(harness: CoordinatorHarness) -> None:
    harness.commit_simple(42)

    group = harness.group
    assert (group.state, group.generation_id, group.protocol_type, dict(group.members)) == (E, 0, None, {})
    assert harness.listed() == [ListedGroup(GROUP, "", "Empty", "classic")]
    assert [type(record) for record in harness.log] == [CommittedOffset]
    assert [event.kind for event in harness.events.all] == [EventKind.GROUP_CREATED]


@pytest.mark.proves("ST-13")
def test_simple_group_can_get_members(harness: CoordinatorHarness) -> None:
    harness.commit_simple(42)
    harness.stable_group("a")

    assert (harness.state, harness.group.protocol_type, harness.offset()) == (S, "consumer", 42)


@pytest.mark.proves("SE-02")
def test_session_expires_while_completing(harness: CoordinatorHarness) -> None:
    harness.completing_group("a")
    harness.advance_ms(SESSION_MS)

    assert (harness.state, harness.generation) == (E, 2)
