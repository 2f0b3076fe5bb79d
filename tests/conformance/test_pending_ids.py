"""KIP-394: pending members (JG-08 … JG-14)."""

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

from .coordinator_harness import GROUP, SESSION_MS, CoordinatorHarness

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


@pytest.mark.proves("JG-08")
def test_join_without_id_gets_an_id(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b")
    before = harness.events.mark()
    c = harness.member("c")
    response = c.send_join().response

    assert response == JoinGroupResponse(Error.MEMBER_ID_REQUIRED, member_id=c.id)
    assert c.id.startswith("c-uuid-")
    assert (harness.state, harness.generation, set(harness.group.pending_members)) == (S, 1, {c.id})
    assert c.id not in harness.member_ids
    assert a.heartbeat() is Error.NONE
    (issued,) = harness.events.since(before)
    assert (issued.kind, issued.member, issued.client) == (EventKind.MEMBER_ID_ISSUED, c.id, "c")
    assert issued.detail == MemberIdTimeout(SESSION_MS)


@pytest.mark.proves("JG-08", "JG-10")
def test_pending_member_expires_after_session_timeout(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a", session_timeout_ms=60_000)
    b = harness.member("b", session_timeout_ms=7_000)
    b.send_join()
    harness.advance_ms(6_999)
    assert set(harness.group.pending_members) == {b.id}
    before = harness.events.mark()
    harness.advance_ms(1)

    assert dict(harness.group.pending_members) == {}
    assert harness.state is S
    (expired,) = harness.events.since(before)
    assert (expired.kind, expired.member) == (EventKind.PENDING_MEMBER_EXPIRED, b.id)
    assert expired.detail == MemberIdTimeout(7_000)
    assert b.send_join().response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=b.id)
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("JG-09")
def test_pending_member_joins_and_starts_rebalance(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    before = harness.events.mark()
    join_call = b.send_join()

    assert join_call.parked
    assert (harness.state, dict(harness.group.pending_members)) == (PR, {})
    assert b.id in harness.member_ids
    assert harness.rebalances(before) == [(Trigger.MEMBER_JOIN, b.id)]


@pytest.mark.proves("JG-09", "JG-24")
def test_pending_timer_does_not_expire_member(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    harness.advance_ms(5_000, heartbeating=[a])
    b.send_join()
    harness.advance_ms(SESSION_MS, heartbeating=[a])

    assert harness.member_ids == {a.id, b.id}


@pytest.mark.proves("JG-10", "JG-11", "JG-28")
def test_join_phase_waits_for_pending_id_until_it_expires(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    pending = harness.member("pending", session_timeout_ms=7_000)
    pending.send_join()
    join_call = a.join()
    assert join_call.parked
    assert (harness.state, harness.member_ids) == (PR, {a.id})
    harness.advance_ms(6_999)
    assert join_call.parked
    harness.advance_ms(1)

    assert join_call.response == a.expected_join_response(generation=2, leader=a.id, members=[a])
    assert harness.state is CR


@pytest.mark.proves("JG-11")
def test_join_phase_ends_when_pending_member_joins(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    join_call = a.join()
    assert join_call.parked
    waiting = harness.coordinator.waiting_for(GROUP)
    assert waiting is not None
    assert waiting.waiting_for == (b.id,)
    b.send_join()

    assert join_call.response.error is Error.NONE
    assert (harness.state, harness.member_ids) == (CR, {a.id, b.id})


@pytest.mark.proves("JG-11", "JG-28")
def test_join_phase_timer_ends_wait_for_pending_member(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a", rebalance_timeout_ms=8_000)
    pending = harness.member("pending", session_timeout_ms=60_000)
    pending.send_join()
    join_call = a.join()
    harness.advance_ms(8_000)

    assert join_call.response.error is Error.NONE
    assert (harness.state, set(harness.group.pending_members)) == (CR, {pending.id})


@pytest.mark.proves("JG-12")
def test_pending_ids_do_not_count_towards_size_limit() -> None:
    harness = CoordinatorHarness(group_max_size=2)
    harness.stable_group("a")
    errors = [harness.member(f"m{number}").send_join().response.error for number in range(5)]

    assert errors == [Error.MEMBER_ID_REQUIRED] * 5
    assert len(harness.group.pending_members) == 5


@pytest.mark.proves("JG-13")
def test_static_member_needs_no_pending_id(harness: CoordinatorHarness) -> None:
    a = harness.member("a", instance="desk-1")
    join_call = a.send_join()

    assert join_call.parked
    assert harness.member_ids == {"desk-1-uuid-1"}
    assert dict(harness.group.pending_members) == {}


@pytest.mark.proves("JG-14")
def test_pending_member_with_instance_id_is_server_error(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    before = harness.snapshot()
    b.instance = "desk-2"

    assert b.send_join().response == JoinGroupResponse(Error.UNKNOWN_SERVER_ERROR)
    assert harness.snapshot() == before


@pytest.mark.proves("HB-01")
def test_pending_id_is_not_a_member(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    b.send_join()

    assert harness.send(Heartbeat(GROUP, b.id, None, 1)).response == HeartbeatResponse(Error.UNKNOWN_MEMBER_ID)
    assert harness.send(SyncGroup(GROUP, b.id, None, 1)).response == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)


@pytest.mark.proves("LG-07")
def test_pending_id_that_leaves_empty_group_is_removed(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    a.send_join()
    before = harness.events.mark()

    assert a.leave().response == LeaveGroupResponse(Error.NONE, (LeftMember(a.id, None, Error.NONE),))
    assert (harness.state, harness.generation, dict(harness.group.pending_members)) == (E, 0, {})
    (left,) = harness.events.since(before)
    assert (left.kind, left.member) == (EventKind.MEMBER_LEFT, a.id)
    assert isinstance(left.detail, MemberLeft)
    assert left.detail.pending


@pytest.mark.proves("LG-07")
def test_leaving_pending_id_can_end_join_phase(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    join_call = a.join()
    assert join_call.parked
    b.leave()

    assert join_call.response == a.expected_join_response(generation=2, leader=a.id, members=[a])
    assert harness.state is CR


@pytest.mark.proves("LG-07")
def test_pending_member_leaving_stable_group_rebalances(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    c = harness.member("c")
    c.send_join()
    before = harness.events.mark()

    assert c.leave().response == LeaveGroupResponse(Error.NONE, (LeftMember(c.id, None, Error.NONE),))
    assert harness.state is PR
    assert [a.heartbeat(), b.heartbeat()] == [Error.REBALANCE_IN_PROGRESS] * 2
    assert harness.rebalances(before) == [(Trigger.MEMBER_LEAVE, c.id)]


@pytest.mark.proves("LG-07")
def test_pending_member_leaving_fails_parked_syncs(harness: CoordinatorHarness) -> None:
    _, b = harness.completing_group("a", "b")
    c = harness.member("c")
    c.send_join()
    sync_call = b.sync()
    assert harness.state is CR
    c.leave()

    assert sync_call.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert harness.state is PR


@pytest.mark.proves("LG-07", "LG-06")
def test_pending_member_leaves_with_unknown_instance_id(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    leave_call = harness.send(LeaveGroup(GROUP, (LeavingMember(b.id, "desk-9"),)))

    assert leave_call.response == LeaveGroupResponse(Error.NONE, (LeftMember(b.id, "desk-9", Error.NONE),))
    assert dict(harness.group.pending_members) == {}
