"""KIP-394: ids that were issued and not used yet (JG-08 … JG-14)."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberIdTimeout, MemberLeft, Trigger
from slackwater.group.messages import (
    Heartbeat,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroup,
    SyncGroupResponse,
)

from .room import GROUP, SESSION_MS, Room

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


@pytest.mark.proves("JG-08")
def test_join_without_id_gets_an_id(room: Room) -> None:
    a, _ = room.settled("a", "b")
    before = room.events.mark()
    c = room.member("c")
    answer = c.ask_to_join().answer

    assert answer == JoinGroupResponse(Error.MEMBER_ID_REQUIRED, member_id=c.id)
    assert c.id.startswith("c-uuid-")
    assert (room.state, room.generation, set(room.group.pending)) == (S, 1, {c.id})
    assert c.id not in room.member_ids
    assert a.heartbeat() is Error.NONE
    (issued,) = room.events.since(before)
    assert (issued.kind, issued.member, issued.client) == (EventKind.MEMBER_ID_ISSUED, c.id, "c")
    assert issued.detail == MemberIdTimeout(SESSION_MS)


@pytest.mark.proves("JG-08", "JG-10")
def test_pending_member_expires_after_session_timeout(room: Room) -> None:
    (a,) = room.settled("a", session_timeout_ms=60_000)
    b = room.member("b", session_timeout_ms=7_000)
    b.ask_to_join()
    room.pass_ms(6_999)
    assert set(room.group.pending) == {b.id}
    before = room.events.mark()
    room.pass_ms(1)

    assert dict(room.group.pending) == {}
    assert room.state is S
    (expired,) = room.events.since(before)
    assert (expired.kind, expired.member) == (EventKind.PENDING_MEMBER_EXPIRED, b.id)
    assert expired.detail == MemberIdTimeout(7_000)
    assert b.ask_to_join().answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=b.id)
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("JG-09")
def test_pending_member_joins_and_starts_rebalance(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    before = room.events.mark()
    joining = b.ask_to_join()

    assert joining.parked
    assert (room.state, dict(room.group.pending)) == (PR, {})
    assert b.id in room.member_ids
    assert room.rebalances(before) == [(Trigger.MEMBER_JOIN, b.id)]


@pytest.mark.proves("JG-09", "JG-24")
def test_pending_timer_does_not_expire_member(room: Room) -> None:
    (a,) = room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    room.pass_ms(5_000, beating=[a])
    b.ask_to_join()
    room.pass_ms(SESSION_MS, beating=[a])

    assert room.member_ids == {a.id, b.id}


@pytest.mark.proves("JG-10", "JG-11", "JG-28")
def test_join_phase_waits_for_an_issued_id_until_it_expires(room: Room) -> None:
    (a,) = room.settled("a")
    silent = room.member("silent", session_timeout_ms=7_000)
    silent.ask_to_join()
    joining = a.join()
    assert joining.parked
    assert (room.state, room.member_ids) == (PR, {a.id})
    room.pass_ms(6_999)
    assert joining.parked
    room.pass_ms(1)

    assert joining.answer == a.joined_answer(generation=2, leader=a.id, members=[a])
    assert room.state is CR


@pytest.mark.proves("JG-11")
def test_join_phase_ends_when_pending_member_joins(room: Room) -> None:
    (a,) = room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    joining = a.join()
    assert joining.parked
    waiting = room.coordinator.waiting_for(GROUP)
    assert waiting is not None
    assert waiting.waiting_for == (b.id,)
    b.ask_to_join()

    assert joining.answer.error is Error.NONE
    assert (room.state, room.member_ids) == (CR, {a.id, b.id})


@pytest.mark.proves("JG-11", "JG-28")
def test_join_phase_timer_ends_wait_for_pending_member(room: Room) -> None:
    (a,) = room.settled("a", rebalance_timeout_ms=8_000)
    pending = room.member("pending", session_timeout_ms=60_000)
    pending.ask_to_join()
    joining = a.join()
    room.pass_ms(8_000)

    assert joining.answer.error is Error.NONE
    assert (room.state, set(room.group.pending)) == (CR, {pending.id})


@pytest.mark.proves("JG-12")
def test_issued_ids_do_not_count_towards_the_size_limit() -> None:
    room = Room(group_max_size=2)
    room.settled("a")
    issued = [room.member(f"m{number}").ask_to_join().answer.error for number in range(5)]

    assert issued == [Error.MEMBER_ID_REQUIRED] * 5
    assert len(room.group.pending) == 5


@pytest.mark.proves("JG-13")
def test_static_member_needs_no_pending_id(room: Room) -> None:
    a = room.member("a", instance="desk-1")
    joining = a.ask_to_join()

    assert joining.parked
    assert room.member_ids == {"desk-1-uuid-1"}
    assert dict(room.group.pending) == {}


@pytest.mark.proves("JG-14")
def test_pending_member_with_instance_id_is_server_error(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    before = room.snapshot()
    b.instance = "desk-2"

    assert b.ask_to_join().answer == JoinGroupResponse(Error.UNKNOWN_SERVER_ERROR)
    assert room.snapshot() == before


@pytest.mark.proves("HB-01")
def test_issued_id_is_no_member_yet(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    b.ask_to_join()

    assert room.ask(Heartbeat(GROUP, b.id, None, 1)).answer == HeartbeatResponse(Error.UNKNOWN_MEMBER_ID)
    assert room.ask(SyncGroup(GROUP, b.id, None, 1)).answer == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)


@pytest.mark.proves("LG-07")
def test_issued_id_that_leaves_an_empty_group_is_forgotten(room: Room) -> None:
    a = room.member("a")
    a.ask_to_join()
    before = room.events.mark()

    assert a.leave().answer == LeaveGroupResponse(Error.NONE, (LeftMember(a.id, None, Error.NONE),))
    assert (room.state, room.generation, dict(room.group.pending)) == (E, 0, {})
    (left,) = room.events.since(before)
    assert (left.kind, left.member) == (EventKind.MEMBER_LEFT, a.id)
    assert isinstance(left.detail, MemberLeft)
    assert left.detail.pending


@pytest.mark.proves("LG-07")
def test_issued_id_that_leaves_may_end_the_join_phase(room: Room) -> None:
    (a,) = room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    joining = a.join()
    assert joining.parked
    b.leave()

    assert joining.answer == a.joined_answer(generation=2, leader=a.id, members=[a])
    assert room.state is CR


@pytest.mark.proves("LG-07")
def test_pending_member_leaving_stable_group_rebalances(room: Room) -> None:
    a, b = room.settled("a", "b")
    c = room.member("c")
    c.ask_to_join()
    before = room.events.mark()

    assert c.leave().answer == LeaveGroupResponse(Error.NONE, (LeftMember(c.id, None, Error.NONE),))
    assert room.state is PR
    assert [a.heartbeat(), b.heartbeat()] == [Error.REBALANCE_IN_PROGRESS] * 2
    assert room.rebalances(before) == [(Trigger.MEMBER_LEAVE, c.id)]


@pytest.mark.proves("LG-07")
def test_pending_member_leaving_fails_parked_syncs(room: Room) -> None:
    a, b = room.member("a"), room.member("b")
    a.join()
    b.join()
    room.end_initial_delay()
    c = room.member("c")
    c.ask_to_join()
    syncing = b.sync()
    assert room.state is CR
    c.leave()

    assert syncing.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert room.state is PR


@pytest.mark.proves("LG-07", "LG-06")
def test_pending_member_leaves_with_unknown_instance_id(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    leaving = room.ask(LeaveGroup(GROUP, (LeavingMember(b.id, "desk-9"),)))

    assert leaving.answer == LeaveGroupResponse(Error.NONE, (LeftMember(b.id, "desk-9", Error.NONE),))
    assert dict(room.group.pending) == {}
