"""Joining and syncing: CL-01, CL-12 … CL-18, CL-41."""

import pytest

from slackwater.group.errors import BrokerError, Error
from slackwater.group.member import Callback, FencedInstanceId, GroupMaxSizeReached, MemberState, Wakeup
from slackwater.group.messages import (
    MAX_INT,
    FindCoordinator,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    SyncGroup,
    SyncGroupResponse,
)

from .member_harness import COOPERATIVE, NODE, MemberHarness, tps

UNJOINED, PREPARING, COMPLETING, STABLE = MemberState


def joining_member(**settings: object) -> MemberHarness:
    """Return a member with a pending JoinGroup."""
    return MemberHarness(**settings).find()  # type: ignore[arg-type]


def syncing_member(**settings: object) -> MemberHarness:
    """Return a member of generation 5 with a pending SyncGroup."""
    return joining_member(**settings).join_ok(5)


# --- first join -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-01")
def test_member_states_from_unjoined_to_stable() -> None:
    member = MemberHarness()
    assert member.state is UNJOINED
    member.find()
    assert member.state is PREPARING
    member.join_ok(1)
    assert member.state is COMPLETING
    member.sync_ok("t-0")
    assert member.state is STABLE
    member.poll()
    assert member.owned() == tps("t-0")
    assert member.take_callbacks() == [(Callback.ASSIGNED, tps("t-0"))]


@pytest.mark.proves("CL-01")
def test_join_request_has_protocols_and_timeouts() -> None:
    member = joining_member(session_timeout_ms=10_000, max_poll_interval_ms=70_000, client_rack="r1")
    request = member.sent(JoinGroup)
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 70_000)
    assert (request.protocol_type, request.protocols[0].name) == ("consumer", "range")
    assert (request.client_id, request.member_id, request.group_instance_id) == ("c1", "", None)
    subscription = member.sent_subscription()
    assert (subscription.topics, subscription.rack_id, subscription.generation_id, subscription.version) == (
        ("t",),
        "r1",
        -1,
        3,
    )


# --- JoinGroup errors -------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-12")
def test_loading_coordinator_is_retried_with_backoff() -> None:
    member = joining_member()
    for wait_ms in (100, 200, 400, 800, 1_000, 1_000):
        member.respond(JoinGroupResponse(Error.COORDINATOR_LOAD_IN_PROGRESS)).poll()
        assert not member.sends(JoinGroup)
        assert member.machine.next_poll_ms() == member.now_ms + wait_ms
        member.advance_ms(wait_ms - 1).poll()
        assert not member.sends(JoinGroup)
        member.advance_ms(1).poll()
        assert member.sends(JoinGroup)
    assert member.coordinator() is not None


@pytest.mark.proves("CL-12")
def test_unknown_member_rejoins_without_id() -> None:
    member = MemberHarness().settle()
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll()
    assert member.sent(JoinGroup).member_id == "m1"
    member.respond(JoinGroupResponse(Error.UNKNOWN_MEMBER_ID))
    assert member.state is UNJOINED
    member.poll()
    assert member.sent(JoinGroup).member_id == ""


@pytest.mark.proves("CL-12")
def test_unknown_member_error_of_old_generation_is_ignored() -> None:
    member = MemberHarness().settle()
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll()
    member.execute(member.machine.unsubscribe(member.now_ms))
    member.execute(member.machine.subscribe(["u"], member.now_ms)).poll()
    assert len(member.sends(JoinGroup)) == 1, "the old request is still pending"
    member.respond(JoinGroupResponse(Error.UNKNOWN_MEMBER_ID)).poll()
    assert member.sent(JoinGroup).reason == "rebalance failed due to UnknownMemberIdException"


@pytest.mark.proves("CL-12")
def test_member_id_required_rejoins_with_given_id() -> None:
    member = joining_member()
    member.respond(JoinGroupResponse(Error.MEMBER_ID_REQUIRED, "m7")).poll()
    request = member.sent(JoinGroup)
    assert (request.member_id, request.reason) == ("m7", "need to re-join with the given member-id: m7")
    assert member.machine.metrics(member.now_ms)["failed-rebalance-total"] == 1


@pytest.mark.proves("CL-12")
def test_join_with_rebalance_in_progress_is_retried() -> None:
    member = joining_member()
    member.respond(JoinGroupResponse(Error.REBALANCE_IN_PROGRESS)).poll()
    assert member.sent(JoinGroup).reason == "rebalance failed due to RebalanceInProgressException"


@pytest.mark.proves("CL-12")
@pytest.mark.parametrize("error", [Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE])
def test_join_to_wrong_node_finds_coordinator(error: Error) -> None:
    member = joining_member()
    member.respond(JoinGroupResponse(error))
    assert member.coordinator() is None
    assert member.disconnects
    member.poll()
    assert not member.sends(JoinGroup)
    member.respond(NODE).advance_ms(100).poll()
    assert member.sends(JoinGroup)


@pytest.mark.proves("CL-13")
@pytest.mark.parametrize(
    "error",
    [
        Error.FENCED_INSTANCE_ID,
        Error.INCONSISTENT_GROUP_PROTOCOL,
        Error.INVALID_SESSION_TIMEOUT,
        Error.INVALID_GROUP_ID,
        Error.GROUP_AUTHORIZATION_FAILED,
        Error.GROUP_MAX_SIZE_REACHED,
        Error.UNSUPPORTED_VERSION,
        Error.UNKNOWN_SERVER_ERROR,
        Error.ILLEGAL_GENERATION,
    ],
)
def test_other_join_errors_are_raised_at_next_poll(error: Error) -> None:
    member = joining_member(group_instance_id="i1")
    member.respond(JoinGroupResponse(error))
    assert not member.raised
    assert member.machine.next_poll_ms() == 0
    member.poll()
    (raised,) = member.raised
    assert isinstance(raised, BrokerError)
    assert raised.error is error
    assert not member.sends(JoinGroup)
    member.poll()
    assert member.sends(JoinGroup), "the next poll joins again"


@pytest.mark.proves("CL-13")
def test_messages_of_fatal_join_errors() -> None:
    fenced = (
        joining_member(group_instance_id="i1").respond(JoinGroupResponse(Error.FENCED_INSTANCE_ID)).poll().raised[0]
    )
    assert isinstance(fenced, FencedInstanceId)
    assert "'i1'" in str(fenced)
    full = joining_member().respond(JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)).poll().raised[0]
    assert isinstance(full, GroupMaxSizeReached)
    assert str(full) == "Consumer group orders already has the configured maximum number of members."


@pytest.mark.proves("CL-13")
def test_group_of_other_protocol_type_is_rejected() -> None:
    member = joining_member()
    member.respond(JoinGroupResponse(Error.NONE, "m1", 1, "connect", "range", "m0")).poll()
    assert isinstance(member.raised[0], BrokerError)
    assert member.raised[0].error is Error.INCONSISTENT_GROUP_PROTOCOL


# --- SyncGroup errors -------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-14")
def test_sync_with_rebalance_in_progress_rejoins() -> None:
    member = syncing_member(assignors=COOPERATIVE)
    member.respond(SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)).poll()
    assert member.sent(JoinGroup).member_id == "m1"
    assert member.sent_subscription().generation_id == 5


@pytest.mark.proves("CL-14")
def test_sync_of_unknown_member_resets_generation_and_id() -> None:
    member = syncing_member()
    member.respond(SyncGroupResponse(Error.UNKNOWN_MEMBER_ID))
    assert (member.state, member.machine.generation_id, member.machine.member_id) == (UNJOINED, -1, "")
    assert member.poll().sent(JoinGroup).member_id == ""


@pytest.mark.proves("CL-14")
def test_sync_of_illegal_generation_keeps_member_id() -> None:
    member = syncing_member()
    member.respond(SyncGroupResponse(Error.ILLEGAL_GENERATION))
    assert (member.state, member.machine.generation_id, member.machine.member_id) == (UNJOINED, -1, "m1")
    assert member.poll().sent(JoinGroup).member_id == "m1"


@pytest.mark.proves("CL-14")
@pytest.mark.parametrize("error", [Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE])
def test_sync_to_wrong_node_finds_coordinator_and_rejoins(error: Error) -> None:
    member = syncing_member()
    member.respond(SyncGroupResponse(error)).poll()
    assert member.coordinator() is None
    member.respond(NODE).advance_ms(100).poll()
    assert member.sent(JoinGroup).member_id == "m1"


@pytest.mark.proves("CL-14")
@pytest.mark.parametrize(
    "error",
    [
        Error.FENCED_INSTANCE_ID,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.GROUP_AUTHORIZATION_FAILED,
        Error.INCONSISTENT_GROUP_PROTOCOL,
        Error.UNKNOWN_SERVER_ERROR,
    ],
)
def test_other_sync_errors_are_fatal(error: Error) -> None:
    member = syncing_member(group_instance_id="i1")
    member.respond(SyncGroupResponse(error)).poll()
    (raised,) = member.raised
    assert isinstance(raised, BrokerError)
    assert raised.error is error


@pytest.mark.proves("CL-14")
@pytest.mark.parametrize("response", [{"protocol_type": "connect"}, {"protocol_name": "roundrobin"}])
def test_sync_for_another_protocol_is_fatal(response: dict[str, str]) -> None:
    member = syncing_member().sync_ok("t-0", **response).poll()
    (raised,) = member.raised
    assert isinstance(raised, BrokerError)
    assert raised.error is Error.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.proves("CL-15")
def test_assignment_of_cleared_generation_fails_rebalance() -> None:
    member = syncing_member()
    member.advance_ms(3_000).tick().respond(HeartbeatResponse(Error.UNKNOWN_MEMBER_ID))
    member.sync_ok("t-0")
    assert member.state is UNJOINED
    assert member.poll().sent(JoinGroup).member_id == ""
    assert member.owned() == ()
    assert member.machine.metrics(member.now_ms)["failed-rebalance-total"] == 1


@pytest.mark.proves("CL-15")
def test_assignment_of_cleared_generation_is_dropped_at_poll() -> None:
    member = syncing_member().sync_ok("t-0")
    member.advance_ms(3_000).tick().respond(HeartbeatResponse(Error.ILLEGAL_GENERATION)).poll()
    assert not member.take_callbacks()
    assert member.sent(JoinGroup).reason == (
        "rebalance failed since the generation/state was modified by heartbeat thread to "
        "Generation{generationId=-1, memberId='m1', protocol=null}/UNJOINED before the rebalance callback triggered"
    )


@pytest.mark.proves("CL-14", "CL-15")
def test_sync_error_of_old_generation_keeps_member_id() -> None:
    member = syncing_member()
    member.advance_ms(3_000).tick().respond(HeartbeatResponse(Error.ILLEGAL_GENERATION))
    member.respond(SyncGroupResponse(Error.UNKNOWN_MEMBER_ID))
    assert member.machine.member_id == "m1"


# --- timeouts and repeated polls --------------------------------------------------------------------------------------


@pytest.mark.proves("CL-16")
@pytest.mark.parametrize(
    ("request_ms", "max_poll_ms", "timeout_ms"),
    [(30_000, 300_000, 305_000), (30_000, 1_000, 30_000), (30_000, MAX_INT, MAX_INT), (1, MAX_INT - 10, MAX_INT - 10)],
)
def test_join_request_timeout_covers_rebalance(request_ms: int, max_poll_ms: int, timeout_ms: int) -> None:
    member = joining_member(request_timeout_ms=request_ms, max_poll_interval_ms=max_poll_ms)
    assert member.send_of(JoinGroup).timeout_ms == timeout_ms


@pytest.mark.proves("CL-17")
def test_poll_reuses_pending_join() -> None:
    member = MemberHarness().settle("t-0")
    member.take_callbacks()
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll().poll().poll()
    assert member.take_callbacks() == [(Callback.REVOKED, tps("t-0"))]
    assert len(member.sends(JoinGroup)) == 1
    member.join_ok(2).poll()
    assert len(member.sends(SyncGroup)) == 1
    member.respond(SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)).poll()
    assert not member.take_callbacks(), "the second join belongs to the same rebalance"


@pytest.mark.proves("CL-17")
def test_interrupted_completion_continues_at_next_poll() -> None:
    member = MemberHarness(assignors=COOPERATIVE).settle("t-0 t-1")
    member.take_callbacks()
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll().join_ok(2).sync_ok("t-1 t-2")
    member.listener_throws = [Wakeup()]
    member.poll()
    assert member.take_callbacks() == [(Callback.REVOKED, tps("t-0"))]
    assert member.owned() == tps("t-0 t-1")
    member.listener_throws = [None, Wakeup()]
    member.poll()
    assert member.take_callbacks() == [(Callback.REVOKED, tps("t-0")), (Callback.ASSIGNED, tps("t-2"))]
    assert not member.sends(JoinGroup)
    member.poll()
    assert member.take_callbacks() == [(Callback.ASSIGNED, ())], "the assigned partitions are already owned"
    assert member.owned() == tps("t-1 t-2")
    assert not member.raised
    assert member.sends(JoinGroup), "the rejoin after the revocation"


@pytest.mark.proves("CL-18")
@pytest.mark.parametrize("kind", [JoinGroup, SyncGroup])
def test_disconnect_while_rebalancing_keeps_member_id(kind: type[JoinGroup] | type[SyncGroup]) -> None:
    member = MemberHarness().settle()
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll()
    if kind is SyncGroup:
        member.join_ok(2)
    member.fail(kind)
    assert member.coordinator() is None
    member.poll().respond(NODE).advance_ms(100).poll()
    request = member.sent(JoinGroup)
    assert (request.member_id, request.reason) == ("m1", "rebalance failed due to DisconnectException")


@pytest.mark.proves("CL-18")
def test_requests_to_lost_coordinator_fail() -> None:
    member = syncing_member()
    member.advance_ms(3_000).tick().respond(HeartbeatResponse(Error.NOT_COORDINATOR))
    assert member.needs_rejoin()
    member.sync_ok("t-0")
    assert member.state is COMPLETING, "the late response is ignored"
    member.poll().respond(NODE).advance_ms(100).poll()
    assert member.sent(JoinGroup).member_id == "m1"


# --- join reason ------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-41")
def test_join_reason_is_last_cause_of_255_characters() -> None:
    member = MemberHarness()
    member.find()
    assert member.sent(JoinGroup).reason == ""
    member.join_ok(1).sync_ok("t-0").poll()
    member.execute(member.machine.enforce_rebalance("x" * 300, member.now_ms)).poll()
    assert member.sent(JoinGroup).reason == "x" * 255
    member.respond(JoinGroupResponse(Error.REBALANCE_IN_PROGRESS)).poll()
    assert member.sent(JoinGroup).reason == "rebalance failed due to RebalanceInProgressException"
    member.join_ok(2).sync_ok("t-0").poll()
    member.execute(member.machine.enforce_rebalance("", member.now_ms)).poll()
    assert member.sent(JoinGroup).reason == "rebalance enforced by user"


@pytest.mark.proves("CL-01")
def test_join_waits_for_first_poll() -> None:
    member = MemberHarness()
    member.tick().advance_ms(60_000).tick()
    assert not member.all_sent
    member.poll()
    assert member.sends(FindCoordinator)
    member.respond(NODE).tick()
    assert not member.sends(JoinGroup)
    assert not member.sends(Heartbeat)


@pytest.mark.proves("CL-12")
def test_join_response_after_leave_is_ignored() -> None:
    member = joining_member()
    member.execute(member.machine.unsubscribe(member.now_ms))
    member.join_ok(1)
    assert not member.sends(SyncGroup)
    assert member.state is UNJOINED
    assert not member.sends(LeaveGroup), "a member without an id does not leave"
