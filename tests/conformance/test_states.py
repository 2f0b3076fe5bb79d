"""Section 1 of the catalogue: the states of a classic group, and what moves it from one to the next."""

import pytest

from slackwater.group.coordinator.records import CommittedOffset, GroupMetadata, StoredGroup
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GenerationFormed, GroupState, RebalanceCompleted, Trigger
from slackwater.group.messages import (
    CommittedPartition,
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
    OffsetToCommit,
    SyncGroup,
    SyncGroupResponse,
)

from .room import GROUP, REBALANCE_MS, SESSION_MS, Call, Member, Room, offering

E = GroupState.EMPTY
IR = GroupState.INITIAL_REBALANCE
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE
D = GroupState.DEAD

LEGAL = {
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


def dying(room: Room) -> Member:
    """A group of one former member whose tombstones are on their way: its object is Dead."""
    (a,) = room.settled("a")
    a.commit(5)
    a.leave()
    room.hold_writes()
    room.ask(DeleteGroups((GROUP,)))
    assert room.state is D
    return a


@pytest.mark.proves("ST-01")
def test_group_uses_only_allowed_transitions(room: Room) -> None:
    seen: list[GroupState] = []

    def look() -> None:
        if not seen or seen[-1] is not room.state:
            seen.append(room.state)

    a = room.member("a")
    a.ask_to_join()
    look()
    a.join()
    look()
    room.end_initial_delay()
    look()
    a.sync()
    look()
    b = room.member("b")
    b.join()
    look()
    a.join()
    look()
    room.sync(a, b)
    look()
    b.leave()
    look()
    a.leave()
    look()
    room.hold_writes()
    room.ask(DeleteGroups((GROUP,)))
    look()
    room.release_writes()

    assert seen == [E, IR, CR, S, PR, CR, S, PR, E, D]
    assert GROUP not in room.coordinator.groups
    assert set(room.events.moves()) <= LEGAL


@pytest.mark.proves("ST-02", "EX-01")
def test_empty_state_timestamp_starts_retention(room: Room) -> None:
    (a,) = room.settled("a")
    room.pass_ms(5_000)
    a.leave()
    emptied_ms = room.now_ms

    *_, record = room.log
    assert record == GroupMetadata(GROUP, StoredGroup("consumer", 2, None, None, emptied_ms, ()))


@pytest.mark.proves("ST-02")
def test_stable_generation_timestamp_is_write_time(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()
    formed_ms = room.now_ms
    room.pass_ms(2_000)
    a.sync()

    *_, record = room.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert record.value.state_timestamp_ms == formed_ms


@pytest.mark.proves("ST-03", "JG-04")
def test_new_group_is_empty_in_generation_0(room: Room) -> None:
    room.member("a").ask_to_join()

    group = room.group
    assert (group.state, group.generation_id, group.protocol_type, group.protocol_name) == (E, 0, None, None)
    assert (group.leader_id, dict(group.members)) == (None, {})
    (created,) = room.events.of(EventKind.GROUP_CREATED)
    assert (created.group, created.generation) == (GROUP, 0)


@pytest.mark.proves("ST-04")
def test_first_member_fixes_protocol_type_and_leader(room: Room) -> None:
    a = room.member("a", protocol_type="connect", protocols=offering("default"))
    a.join()
    room.member("b", protocol_type="connect", protocols=offering("default")).join()

    assert room.group.protocol_type == "connect"
    assert room.group.leader_id == a.id


@pytest.mark.proves("ST-04")
def test_protocol_type_survives_emptying(room: Room) -> None:
    (a,) = room.settled("a")
    a.leave()

    assert (room.state, room.group.protocol_type, room.group.leader_id) == (E, "consumer", None)
    assert room.listed() == [ListedGroup(GROUP, "consumer", "Empty", "classic")]


@pytest.mark.proves("ST-04")
def test_emptied_group_takes_new_protocol_type(room: Room) -> None:
    (a,) = room.settled("a")
    a.leave()
    room.member("b", protocol_type="connect", protocols=offering("default")).join()

    assert room.group.protocol_type == "connect"


@pytest.mark.proves("ST-05")
def test_first_join_starts_initial_delay(room: Room) -> None:
    a = room.member("a")
    joining = a.join()

    assert joining.parked
    assert room.state is IR
    assert room.rebalances() == [(Trigger.MEMBER_JOIN, a.id)]
    (started,) = room.events.of(EventKind.REBALANCE_STARTED)
    assert (started.state_before, started.state_after) == (E, IR)


@pytest.mark.proves("ST-06")
def test_rebalance_starts_from_stable(room: Room) -> None:
    a, _ = room.settled("a", "b")
    before = room.events.mark()
    c = room.member("c")
    c.join()

    assert (room.state, room.generation) == (PR, 1)
    assert room.rebalances(before) == [(Trigger.MEMBER_JOIN, c.id)]
    assert a.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("ST-06")
def test_rebalance_starts_from_completing_rebalance(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()
    assert room.state is CR
    before = room.events.mark()
    b = room.member("b")
    b.join()

    assert (room.state, room.generation) == (PR, 1)
    assert room.rebalances(before) == [(Trigger.MEMBER_JOIN, b.id)]


@pytest.mark.proves("ST-06")
def test_trigger_during_rebalance_only_ends_join_phase(room: Room) -> None:
    a, b, c = room.settled("a", "b", "c")
    c.leave()
    before = room.events.mark()
    a.join()
    assert room.state is PR
    b.leave()

    assert (room.state, room.generation, room.member_ids) == (CR, 2, {a.id})
    assert room.rebalances(before) == []


@pytest.mark.proves("ST-07", "JG-28", "JG-32")
def test_join_phase_forms_generation_and_selects_protocol(room: Room) -> None:
    a, b = room.settled("a", "b")
    first, started_ms = room.member("c"), room.now_ms
    joining = [first.join()]
    room.pass_ms(700)
    joining += [a.join(), b.join()]

    assert (room.state, room.generation, room.group.protocol_name) == (CR, 2, "range")
    leader_answer = next(call.answer for call in joining if call.answer.member_id == room.group.leader_id)
    assert set(leader_answer.members) == {a.as_listed(), b.as_listed(), first.as_listed()}
    (*_, formed) = room.events.of(EventKind.GENERATION_FORMED)
    assert (formed.generation, formed.members, formed.time_ms) == (2, 3, started_ms + 700)
    assert formed.detail == GenerationFormed(leader=a.id, protocol="range", static_members=0, join_phase_ms=700)


@pytest.mark.proves("ST-07", "SG-11")
def test_sync_timer_is_the_rebalance_timeout(room: Room) -> None:
    a = room.member("a", rebalance_timeout_ms=20_000)
    a.join()
    room.end_initial_delay()
    room.pass_ms(19_999, beating=[a])
    assert room.state is CR
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (E, set())


@pytest.mark.proves("ST-07", "JG-26")
def test_sync_timer_is_longest_rebalance_timeout(room: Room) -> None:
    (a,) = room.settled("a", rebalance_timeout_ms=20_000)
    patient = room.member("patient", rebalance_timeout_ms=100_000)
    patient.join()
    a.join()
    assert room.state is CR
    room.pass_ms(99_999, beating=[a, patient])
    assert (room.state, room.member_ids) == (CR, {a.id, patient.id})
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (E, set())


@pytest.mark.proves("ST-08")
def test_join_phase_without_members_writes_empty_group(room: Room) -> None:
    a, b = room.settled("a", "b")
    b.leave()
    room.pass_ms(REBALANCE_MS - 1, beating=[a])
    assert (room.state, room.generation) == (PR, 1)
    room.pass_ms(1)

    assert (room.state, room.generation, room.group.protocol_name) == (E, 2, None)
    assert room.log[-1] == GroupMetadata(GROUP, StoredGroup("consumer", 2, None, None, room.now_ms, ()))
    (emptied,) = room.events.of(EventKind.GROUP_EMPTIED)
    assert (emptied.generation, emptied.time_ms) == (2, room.now_ms)


@pytest.mark.proves("ST-09", "SG-06")
def test_group_is_stable_after_assignment_is_written(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()
    started_ms = room.events.of(EventKind.REBALANCE_STARTED)[0].time_ms
    room.hold_writes()
    syncing = a.sync()
    assert syncing.parked
    assert room.state is CR
    assert room.events.of(EventKind.REBALANCE_COMPLETED) == []
    room.release_writes()

    assert syncing.answer == a.synced_answer()
    assert room.state is S
    (completed,) = room.events.of(EventKind.REBALANCE_COMPLETED)
    assert completed.generation == 1
    assert completed.detail == RebalanceCompleted(duration_ms=room.now_ms - started_ms)


@pytest.mark.proves("ST-10")
def test_trigger_while_completing_fails_parked_syncs(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    b.join()
    assert room.state is CR
    syncing = b.sync()
    room.member("c").join()

    assert syncing.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert room.state is PR
    assert [member.assignment for member in room.describe().members] == [b"", b"", b""]


@pytest.mark.proves("ST-11", "LG-09")
def test_last_leave_empties_stable_group_at_once(room: Room) -> None:
    (a,) = room.settled("a")
    before = room.events.mark()
    leaving = a.leave()

    assert leaving.answer == LeaveGroupResponse(Error.NONE, (LeftMember(a.id, None, Error.NONE),))
    assert (room.state, room.generation) == (E, 2)
    story = room.events.since(before, EventKind.MEMBER_LEFT, EventKind.REBALANCE_STARTED, EventKind.GROUP_EMPTIED)
    assert [event.kind for event in story] == [
        EventKind.MEMBER_LEFT,
        EventKind.REBALANCE_STARTED,
        EventKind.GROUP_EMPTIED,
    ]
    assert room.rebalances(before) == [(Trigger.MEMBER_LEAVE, a.id)]


@pytest.mark.proves("ST-11")
def test_last_leave_empties_group_with_pending_member(room: Room) -> None:
    (a,) = room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    a.leave()

    assert (room.state, room.generation) == (E, 2)
    assert set(room.group.pending) == {b.id}


@pytest.mark.proves("ST-11")
def test_id_issued_before_the_group_emptied_may_still_join_it(room: Room) -> None:
    (a,) = room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    a.leave()
    b.join()
    room.end_initial_delay()

    assert (room.state, room.generation, room.member_ids) == (CR, 3, {b.id})


@pytest.mark.proves("ST-12", "HB-02", "LG-03")
def test_dead_group_is_coordinator_not_available(room: Room) -> None:
    a = dying(room)
    offsets = (OffsetToCommit("t", 0, 9), OffsetToCommit("t", 1, 9))

    newcomer: Call[JoinGroupResponse] = room.member("b").ask_to_join()
    assert newcomer.answer == JoinGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert a.ask_to_join().answer == JoinGroupResponse(Error.COORDINATOR_NOT_AVAILABLE, member_id=a.id)
    assert room.ask(SyncGroup(GROUP, a.id, None, 1)).answer == SyncGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert room.ask(Heartbeat(GROUP, a.id, None, 1)).answer == HeartbeatResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert room.ask(LeaveGroup(GROUP, (LeavingMember(a.id),))).answer == LeaveGroupResponse(
        Error.COORDINATOR_NOT_AVAILABLE
    )
    assert room.ask(OffsetCommit(GROUP, "", None, -1, offsets)).answer == OffsetCommitResponse(
        (
            CommittedPartition("t", 0, Error.COORDINATOR_NOT_AVAILABLE),
            CommittedPartition("t", 1, Error.COORDINATOR_NOT_AVAILABLE),
        )
    )
    assert room.state is D


@pytest.mark.proves("ST-12", "OF-01")
def test_dead_group_has_no_offsets(room: Room) -> None:
    dying(room)

    assert room.fetch(("t", 0)) == (FetchedOffset("t", 0, -1, -1, "", Error.NONE),)
    assert room.fetch() == ()


@pytest.mark.proves("ST-12")
def test_dead_group_is_not_found_by_deletions(room: Room) -> None:
    dying(room)

    assert room.ask(DeleteGroups((GROUP,))).answer == DeleteGroupsResponse(
        (DeletedGroup(GROUP, Error.GROUP_ID_NOT_FOUND),)
    )
    assert room.ask(OffsetDelete(GROUP, (("t", 0),))).answer == OffsetDeleteResponse(Error.GROUP_ID_NOT_FOUND)


@pytest.mark.proves("ST-13", "OC-01", "AD-03")
def test_group_that_only_commits_is_simple(room: Room) -> None:
    room.commit_simply(42)

    group = room.group
    assert (group.state, group.generation_id, group.protocol_type, dict(group.members)) == (E, 0, None, {})
    assert room.listed() == [ListedGroup(GROUP, "", "Empty", "classic")]
    assert [type(record) for record in room.log] == [CommittedOffset]
    assert [event.kind for event in room.events.all] == [EventKind.GROUP_CREATED]


@pytest.mark.proves("ST-13")
def test_simple_group_may_become_a_group_with_members(room: Room) -> None:
    room.commit_simply(42)
    room.settled("a")

    assert (room.state, room.group.protocol_type, room.offset()) == (S, "consumer", 42)


@pytest.mark.proves("SE-02")
def test_sessions_are_counted_while_a_generation_completes(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()
    room.pass_ms(SESSION_MS)

    assert (room.state, room.generation) == (E, 2)
