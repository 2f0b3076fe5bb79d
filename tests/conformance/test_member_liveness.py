"""Heartbeats, the session and the poll timer: CL-02 … CL-11, CL-40."""

import pytest

from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.events import CoordinatorChanged, EventKind, EventSource, PollOverrun, RequestRefused, Trigger
from slackwater.group.member import Callback, FencedInstanceId, MemberConfig, MemberState
from slackwater.group.messages import (
    FindCoordinator,
    FindCoordinatorResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    LeaveGroup,
    LeaveGroupResponse,
    SyncGroup,
)

from .member_harness import NODE, MemberHarness, tps

UNJOINED, PREPARING, COMPLETING, STABLE = MemberState


# --- heartbeat timing -------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-02")
def test_heartbeats_start_with_join_response() -> None:
    member = MemberHarness().find()
    member.advance_ms(60_000).tick()
    assert not member.ever_sent(Heartbeat), "no heartbeat while JoinGroup is pending"
    member.join_ok(1)
    assert member.state is COMPLETING
    member.advance_ms(2_999).tick()
    assert not member.ever_sent(Heartbeat)
    member.advance_ms(1).tick()
    heartbeat = member.sent(Heartbeat)
    assert (heartbeat.group_id, heartbeat.member_id, heartbeat.generation_id) == ("orders", "m1", 1)


@pytest.mark.proves("CL-02")
def test_join_response_resets_all_timers() -> None:
    member = MemberHarness(session_timeout_ms=10_000, max_poll_interval_ms=20_000).find()
    member.advance_ms(19_000).join_ok(1)
    assert member.machine.next_due_ms() == member.now_ms + 3_000
    member.advance_ms(9_999).tick()
    assert not member.events_of(EventKind.SESSION_LOST)
    member.respond(HeartbeatResponse(Error.NONE)).advance_ms(9_999).tick()
    assert not member.events_of(EventKind.POLL_OVERRUN)
    member.respond(HeartbeatResponse(Error.NONE)).advance_ms(2).tick()
    assert member.events_of(EventKind.POLL_OVERRUN)


@pytest.mark.proves("CL-03")
@pytest.mark.parametrize("interval_ms", [10_000, 10_001])
def test_heartbeat_interval_of_session_timeout_is_rejected(interval_ms: int) -> None:
    with pytest.raises(UsageError, match=r"heartbeat\.interval\.ms = \d+ must be lower than session\.timeout\.ms"):
        MemberConfig(group_id="g", client_id="c", session_timeout_ms=10_000, heartbeat_interval_ms=interval_ms)


# --- order of checks --------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-04")
def test_session_without_response_keeps_generation() -> None:
    member = MemberHarness().settle("t-0")
    member.advance_ms(45_000).tick()
    assert member.coordinator() is None
    assert (member.state, member.machine.generation_id, member.machine.member_id) == (STABLE, 1, "m1")
    assert member.sends(FindCoordinator), "the lookup starts in the same tick"
    assert [event.kind for event in member.events[-2:]] == [EventKind.SESSION_LOST, EventKind.COORDINATOR_LOST]
    assert member.events[-2].detail == RequestRefused("session timed out without receiving a heartbeat response", 1)
    member.respond(NODE).tick()
    assert member.sent(Heartbeat).generation_id == 1
    assert not member.needs_rejoin()


@pytest.mark.proves("CL-04")
def test_poll_timer_is_ignored_without_coordinator() -> None:
    member = MemberHarness(max_poll_interval_ms=10_000).settle("t-0")
    member.heartbeat(Error.NOT_COORDINATOR)
    member.advance_ms(60_000).tick()
    assert not member.events_of(EventKind.POLL_OVERRUN)
    member.respond(NODE).tick()
    assert member.events_of(EventKind.POLL_OVERRUN)
    assert member.sends(LeaveGroup)


@pytest.mark.proves("CL-04")
def test_poll_timer_is_checked_before_heartbeat() -> None:
    member = MemberHarness(max_poll_interval_ms=3_000).settle("t-0")
    member.advance_ms(3_000).tick()
    assert member.sends(LeaveGroup)
    assert not member.ever_sent(Heartbeat)


@pytest.mark.proves("CL-04")
def test_coordinator_lookup_is_retried_after_backoff() -> None:
    member = MemberHarness().settle("t-0")
    member.heartbeat(Error.NOT_COORDINATOR).tick()
    for wait_ms in (100, 200, 400):
        member.respond(FindCoordinatorResponse(Error.COORDINATOR_NOT_AVAILABLE))
        assert member.machine.next_due_ms() == member.now_ms + wait_ms
        member.advance_ms(wait_ms - 1).tick()
        assert not member.sends(FindCoordinator)
        member.advance_ms(1).tick()
    member.fail(FindCoordinator)
    assert member.machine.next_due_ms() == member.now_ms + 800


@pytest.mark.proves("CL-05")
def test_failed_heartbeat_is_retried_with_backoff() -> None:
    member = MemberHarness().settle("t-0").advance_ms(3_000).tick()
    for wait_ms in (100, 200, 400, 800, 1_000):
        member.respond(HeartbeatResponse(Error.UNKNOWN_SERVER_ERROR))
        assert member.machine.next_due_ms() == member.now_ms + wait_ms
        member.advance_ms(wait_ms).tick()
        assert member.sends(Heartbeat)
    member.respond(HeartbeatResponse(Error.NONE))
    assert member.machine.next_due_ms() == member.now_ms + 3_000
    assert {event.kind for event in member.events} >= {EventKind.HEARTBEAT_REFUSED}


@pytest.mark.proves("CL-05")
def test_rebalance_in_progress_extends_session() -> None:
    member = MemberHarness(session_timeout_ms=10_000).settle("t-0")
    for _ in range(10):
        member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert not member.events_of(EventKind.SESSION_LOST)
    assert member.state is STABLE
    assert len(member.events_of(EventKind.JOIN_REQUESTED)) == 1, "one event for all heartbeats"


@pytest.mark.proves("CL-05")
def test_heartbeat_without_response_loses_coordinator() -> None:
    member = MemberHarness().settle("t-0").advance_ms(3_000).tick()
    member.fail(Heartbeat)
    assert member.coordinator() is None
    assert not member.disconnects, "the connection is already closed"
    member.tick().respond(NODE).advance_ms(100).tick()
    assert member.sends(Heartbeat)


# --- poll timeout -----------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-06")
def test_poll_timeout_leaves_group_and_loses_partitions() -> None:
    member = MemberHarness(max_poll_interval_ms=10_000).settle("t-0 t-1")
    member.take_callbacks()
    for _ in range(3):
        member.heartbeat()
    member.advance_ms(1_500).tick()
    leave = member.sent(LeaveGroup)
    assert [(leaver.member_id, leaver.reason) for leaver in leave.members] == [
        ("m1", "consumer poll timeout has expired.")
    ]
    assert (member.state, member.machine.generation_id, member.machine.member_id) == (UNJOINED, -1, "")
    (overrun,) = member.events_of(EventKind.POLL_OVERRUN)
    assert overrun.detail == PollOverrun(10_000, 500)
    assert (overrun.trigger, overrun.source, overrun.member, overrun.generation) == (
        Trigger.POLL_TIMEOUT,
        EventSource.MEMBER,
        "m1",
        1,
    )
    assert not member.take_callbacks(), "the listener is called only in poll"
    assert member.owned() == tps("t-0 t-1")
    member.respond(LeaveGroupResponse(Error.NONE)).poll()
    assert member.take_callbacks() == [(Callback.LOST, tps("t-0 t-1"))]
    assert member.owned() == ()
    request = member.sent(JoinGroup)
    assert (request.member_id, request.reason) == ("", "consumer pro-actively leaving the group")


@pytest.mark.proves("CL-06")
def test_poll_timer_runs_while_sync_is_pending() -> None:
    member = MemberHarness(max_poll_interval_ms=10_000).find().join_ok(1)
    member.advance_ms(10_000).tick()
    assert member.sends(LeaveGroup)
    assert member.state is UNJOINED
    member.sync_ok("t-0").poll()
    assert member.owned() == ()
    assert member.sends(JoinGroup)


@pytest.mark.proves("CL-06")
def test_regular_polls_prevent_poll_timeout() -> None:
    member = MemberHarness(max_poll_interval_ms=10_000).settle("t-0")
    for _ in range(10):
        member.heartbeat().poll()
    assert not member.ever_sent(LeaveGroup)
    assert member.state is STABLE


@pytest.mark.proves("CL-07")
def test_static_member_sends_no_leave_on_poll_timeout() -> None:
    member = MemberHarness(max_poll_interval_ms=10_000, group_instance_id="i1").settle("t-0")
    member.take_callbacks()
    member.advance_ms(10_000).tick()
    assert not member.ever_sent(LeaveGroup)
    assert (member.state, member.machine.member_id) == (UNJOINED, "")
    member.poll()
    assert member.take_callbacks() == [(Callback.LOST, tps("t-0"))]
    request = member.sent(JoinGroup)
    assert (request.member_id, request.group_instance_id) == ("", "i1")


# --- heartbeat errors -------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-08")
def test_rebalance_in_progress_rejoins_at_next_poll() -> None:
    member = MemberHarness().settle("t-0")
    member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert member.state is STABLE
    assert member.needs_rejoin()
    assert not member.sends(JoinGroup)
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert not member.sends(JoinGroup)
    member.poll()
    assert member.sent(JoinGroup).reason == "group is already rebalancing"
    member.advance_ms(10_000).tick()
    assert not member.sends(Heartbeat)


@pytest.mark.proves("CL-08")
def test_rebalancing_member_ignores_rebalance_in_progress() -> None:
    member = MemberHarness().find().join_ok(1)
    member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert member.state is COMPLETING
    assert member.sends(SyncGroup)
    member.sync_ok("t-0").poll()
    assert not member.needs_rejoin()


@pytest.mark.proves("CL-09")
def test_illegal_generation_keeps_member_id() -> None:
    member = MemberHarness().settle("t-0")
    member.take_callbacks()
    member.heartbeat(Error.ILLEGAL_GENERATION)
    assert (member.state, member.machine.generation_id, member.machine.member_id) == (UNJOINED, -1, "m1")
    assert member.events_of(EventKind.HEARTBEAT_REFUSED)[0].detail == RequestRefused("ILLEGAL_GENERATION", 1)
    member.poll()
    assert member.take_callbacks() == [(Callback.LOST, tps("t-0"))]
    request = member.sent(JoinGroup)
    assert (request.member_id, request.reason) == ("m1", "encountered ILLEGAL_GENERATION from HEARTBEAT response")


@pytest.mark.proves("CL-09")
def test_unknown_member_resets_generation_and_member_id() -> None:
    member = MemberHarness().settle("t-0").heartbeat(Error.UNKNOWN_MEMBER_ID)
    assert (member.state, member.machine.generation_id, member.machine.member_id) == (UNJOINED, -1, "")
    assert member.poll().sent(JoinGroup).member_id == ""


@pytest.mark.proves("CL-09")
@pytest.mark.parametrize("error", [Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID])
def test_response_of_older_generation_is_ignored(error: Error) -> None:
    member = MemberHarness(group_instance_id="i1").settle("t-0")
    member.advance_ms(3_000).tick()
    member.execute(member.machine.enforce_rebalance("", member.now_ms)).poll().join_ok(2)
    member.respond(HeartbeatResponse(error))
    assert (member.state, member.machine.generation_id, member.machine.member_id) == (COMPLETING, 2, "m1")
    assert not member.poll().raised


@pytest.mark.proves("CL-10")
def test_fenced_instance_raises_at_next_poll() -> None:
    member = MemberHarness(group_instance_id="i1").settle("t-0")
    member.heartbeat(Error.FENCED_INSTANCE_ID)
    assert not member.raised
    assert member.machine.next_due_ms() is None
    member.poll()
    (raised,) = member.raised
    assert isinstance(raised, FencedInstanceId)
    assert not member.ever_sent(LeaveGroup)


@pytest.mark.proves("CL-11")
@pytest.mark.parametrize("error", [Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE])
def test_heartbeat_to_wrong_node_finds_coordinator(error: Error) -> None:
    member = MemberHarness().settle("t-0").heartbeat(error)
    assert member.coordinator() is None
    assert member.disconnects
    member.tick().respond(FindCoordinatorResponse(Error.NONE, 2, "other", 9093)).advance_ms(100).tick()
    assert member.sent(Heartbeat).generation_id == 1
    assert member.coordinator() == (2, "other", 9093)
    assert not member.poll().sends(JoinGroup)
    lost, discovered = member.events_of(EventKind.COORDINATOR_LOST, EventKind.COORDINATOR_FOUND)[1:]
    assert lost.detail == CoordinatorChanged("broker:9092 (id: 2147483646 rack: null)", f"error response {error.name}")
    assert discovered.detail == CoordinatorChanged("other:9093 (id: 2147483645 rack: null)")


@pytest.mark.proves("CL-40")
def test_coordinator_has_separate_connection() -> None:
    member = MemberHarness()
    member.poll()
    assert not member.send_of(FindCoordinator).to_coordinator
    member.respond(FindCoordinatorResponse(Error.NONE, 7, "broker", 9092)).poll()
    node = member.coordinator()
    assert node is not None
    assert node.connection_id == 2**31 - 1 - 7
    assert member.send_of(JoinGroup).to_coordinator


@pytest.mark.proves("CL-04")
@pytest.mark.parametrize("error", [Error.GROUP_AUTHORIZATION_FAILED, Error.INVALID_GROUP_ID])
def test_fatal_coordinator_lookup_error_is_raised(error: Error) -> None:
    member = MemberHarness().poll()
    member.respond(FindCoordinatorResponse(error)).poll()
    (raised,) = member.raised
    assert isinstance(raised, BrokerError)
    assert raised.error is error
