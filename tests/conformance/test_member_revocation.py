"""Revoked, lost and assigned partitions, and leaving: CL-07, CL-19 … CL-24, CL-31, CL-32."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, PartitionsChanged, Trigger
from slackwater.group.member import Callback, ListenerFailed, MemberState, OffsetAndMetadata
from slackwater.group.messages import (
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    LeaveGroup,
    LeaveGroupResponse,
    OffsetCommit,
    SyncGroupResponse,
)

from .member_harness import COOPERATIVE, NODE, MemberHarness, at, commit_response, tps

REVOKED, ASSIGNED, LOST = Callback


def about_to_rejoin(partitions: str = "t-0 t-1", **settings: object) -> MemberHarness:
    """Return a stable member that got REBALANCE_IN_PROGRESS and has not polled since."""
    member = MemberHarness(**settings).settle(partitions)  # type: ignore[arg-type]
    member.take_callbacks()
    return member.heartbeat(Error.REBALANCE_IN_PROGRESS)


# --- preparation, eager -----------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-19")
def test_eager_member_revokes_all_before_join() -> None:
    member = about_to_rejoin()
    member.slow_listener = True
    member.poll()
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]
    assert member.owned() == tps("t-0 t-1"), "the listener can still commit"
    assert not member.sends(JoinGroup)
    member.advance_ms(250).listener_done()
    assert member.owned() == ()
    assert member.sent_subscription().owned_partitions == ()
    (event,) = member.events_of(EventKind.PARTITIONS_REVOKED)
    assert event.detail == PartitionsChanged(tps("t-0 t-1"), 250)


@pytest.mark.proves("CL-19")
def test_eager_member_gets_empty_revocation() -> None:
    member = about_to_rejoin("").poll()
    assert member.take_callbacks() == [(REVOKED, ())]


@pytest.mark.proves("CL-19")
def test_consumed_offsets_are_committed_before_revocation() -> None:
    member = about_to_rejoin(enable_auto_commit=True)
    member.machine.set_consumed({tps("t-0")[0]: OffsetAndMetadata(42)})
    member.poll()
    commit = member.sent(OffsetCommit)
    assert [(entry.topic, entry.partition, entry.offset) for entry in commit.offsets] == [("t", 0, 42)]
    assert (commit.generation_id, commit.member_id) == (1, "m1")
    assert not member.take_callbacks()
    member.poll()
    assert not member.take_callbacks(), "the callback waits for the response"
    member.respond(commit_response()).poll()
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]
    assert member.sends(JoinGroup)


@pytest.mark.proves("CL-19")
def test_commit_is_retried_before_revocation() -> None:
    member = about_to_rejoin(enable_auto_commit=True)
    member.machine.set_consumed(at("t-0"))
    member.poll().respond(commit_response(Error.COORDINATOR_LOAD_IN_PROGRESS)).poll()
    assert member.machine.next_poll_ms() == member.now_ms + 100
    member.advance_ms(99).poll()
    assert not member.sends(OffsetCommit)
    member.advance_ms(1).poll().respond(commit_response()).poll()
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]
    assert len(member.ever_sent(OffsetCommit)) == 2


@pytest.mark.proves("CL-19")
def test_failed_commit_does_not_block_rebalance() -> None:
    member = about_to_rejoin(enable_auto_commit=True)
    member.machine.set_consumed(at("t-0"))
    member.poll().respond(commit_response(Error.OFFSET_METADATA_TOO_LARGE)).poll()
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]
    assert not member.raised


@pytest.mark.proves("CL-19")
def test_commit_without_response_delays_join_by_timeout() -> None:
    member = about_to_rejoin(enable_auto_commit=True, max_poll_interval_ms=20_000)
    member.machine.set_consumed(at("t-0"))
    member.poll()
    assert member.machine.next_poll_ms() == member.now_ms + 20_000
    member.advance_ms(19_999).poll()
    assert not member.take_callbacks()
    member.advance_ms(1).poll()
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]


@pytest.mark.proves("CL-20")
def test_eager_member_fetches_nothing_during_last_commit() -> None:
    member = about_to_rejoin(enable_auto_commit=True)
    member.machine.set_consumed(at("t-0"))
    assert member.machine.fetchable == frozenset(tps("t-0 t-1"))
    member.poll()
    assert member.machine.fetchable == frozenset()
    assert member.owned() == tps("t-0 t-1")
    member.respond(commit_response()).poll().join_ok(2).sync_ok("t-0").poll()
    assert member.machine.fetchable == frozenset(tps("t-0"))


@pytest.mark.proves("CL-20")
def test_cooperative_member_continues_fetching() -> None:
    member = about_to_rejoin(enable_auto_commit=True, assignors=COOPERATIVE)
    member.machine.set_consumed(at("t-0"))
    member.poll()
    assert member.sends(OffsetCommit)
    assert member.machine.fetchable == frozenset(tps("t-0 t-1"))


# --- preparation, cooperative and lost --------------------------------------------------------------------------------


@pytest.mark.proves("CL-21")
def test_cooperative_member_keeps_partitions_while_joining() -> None:
    member = about_to_rejoin(assignors=COOPERATIVE).poll()
    assert not member.take_callbacks()
    assert member.owned() == tps("t-0 t-1")
    subscription = member.sent_subscription()
    assert (subscription.owned_partitions, subscription.generation_id) == (tps("t-0 t-1"), 1)


@pytest.mark.proves("CL-21")
def test_cooperative_member_revokes_unsubscribed_topics() -> None:
    member = MemberHarness(topics=("t", "u"), assignors=COOPERATIVE).settle("t-0 u-0 u-1")
    member.take_callbacks()
    member.execute(member.machine.subscribe(["t"], member.now_ms)).poll()
    assert member.take_callbacks() == [(REVOKED, tps("u-0 u-1"))]
    assert member.sent_subscription().owned_partitions == tps("t-0")


@pytest.mark.proves("CL-22")
@pytest.mark.parametrize("assignors", [None, COOPERATIVE])
@pytest.mark.parametrize("error", [Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION])
def test_partitions_of_lost_generation_are_lost(error: Error, assignors: object) -> None:
    settings = {} if assignors is None else {"assignors": assignors}
    member = MemberHarness(enable_auto_commit=True, **settings).settle("t-0 t-1")  # type: ignore[arg-type]
    member.take_callbacks()
    member.machine.set_consumed(at("t-0"))
    member.heartbeat(error).poll()
    assert member.take_callbacks() == [(LOST, tps("t-0 t-1"))]
    assert member.owned() == ()
    assert not member.ever_sent(OffsetCommit), "another member may have committed later offsets"


@pytest.mark.proves("CL-22")
def test_lost_callback_is_skipped_without_partitions() -> None:
    member = MemberHarness().settle("")
    member.take_callbacks()
    member.heartbeat(Error.UNKNOWN_MEMBER_ID).poll()
    assert not member.take_callbacks()
    assert member.sends(JoinGroup)


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-23")
def test_cooperative_member_revokes_adds_and_rejoins() -> None:
    member = about_to_rejoin(assignors=COOPERATIVE).poll().join_ok(2).sync_ok("t-1 t-2").poll()
    assert member.take_callbacks() == [(REVOKED, tps("t-0")), (ASSIGNED, tps("t-2"))]
    assert member.owned() == tps("t-1 t-2")
    request = member.sent(JoinGroup)
    assert request.reason == "need to revoke partitions and re-join"
    assert (member.sent_subscription().owned_partitions, member.sent_subscription().generation_id) == (
        tps("t-1 t-2"),
        2,
    )
    event = member.events_of(EventKind.JOIN_REQUESTED)[-1]
    assert event.trigger is Trigger.COOPERATIVE_FOLLOWUP
    assert event.detail is not None
    assert "need to revoke partitions [t-0] as indicated by the current assignment" in str(event.detail)


@pytest.mark.proves("CL-23")
def test_assigned_callback_runs_with_empty_assignment() -> None:
    member = about_to_rejoin(assignors=COOPERATIVE).poll().join_ok(2).sync_ok("t-0 t-1").poll()
    assert member.take_callbacks() == [(ASSIGNED, ())]
    assert not member.sends(JoinGroup)
    assert not member.needs_rejoin()


@pytest.mark.proves("CL-24")
def test_assignment_outside_subscription_is_dropped() -> None:
    member = MemberHarness(topics=("t", "u")).find().join_ok(1)
    member.execute(member.machine.subscribe(["t"], member.now_ms))
    member.sync_ok("t-0 u-0").poll()
    assert member.owned() == ()
    assert not any(callback is ASSIGNED for callback, _ in member.take_callbacks())
    assert member.sent(JoinGroup).reason == "received assignment does not match the current subscription"


# --- failing listeners ------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-31")
def test_first_listener_error_is_raised_after_all_callbacks() -> None:
    member = about_to_rejoin(assignors=COOPERATIVE).poll().join_ok(2).sync_ok("t-1 t-2")
    first, second = ValueError("first"), ValueError("second")
    member.listener_throws = [first, second]
    member.poll()
    assert member.take_callbacks() == [(REVOKED, tps("t-0")), (ASSIGNED, tps("t-2"))]
    (raised,) = member.raised
    assert isinstance(raised, ListenerFailed)
    assert raised.__cause__ is first
    assert member.owned() == tps("t-1 t-2")
    member.poll()
    assert member.take_callbacks() == [(ASSIGNED, ())], "the completion is repeated, as in the Java client"
    assert member.sends(JoinGroup)


@pytest.mark.proves("CL-31")
def test_failing_revocation_listener_still_revokes() -> None:
    member = about_to_rejoin()
    member.listener_throws = [ValueError("no")]
    member.poll()
    assert member.owned() == ()
    assert len(member.raised) == 1
    assert not member.sends(JoinGroup)
    member.poll()
    assert member.sends(JoinGroup)
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))], "the listener is called once"


# --- leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-32")
def test_unsubscribe_revokes_and_leaves() -> None:
    member = MemberHarness().settle("t-0 t-1")
    member.take_callbacks()
    member.slow_listener = True
    member.execute(member.machine.unsubscribe(member.now_ms))
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]
    assert not member.sends(LeaveGroup), "the listener runs first and can commit"
    member.listener_done()
    (leaver,) = member.sent(LeaveGroup).members
    assert leaver == ("m1", None, "the consumer unsubscribed from all topics")
    assert member.state is MemberState.UNJOINED
    member.fail(LeaveGroup)
    member.advance_ms(60_000).poll().tick()
    assert len(member.ever_sent(LeaveGroup)) == 1, "the leave request is not retried"
    assert not member.sends(JoinGroup)


@pytest.mark.proves("CL-32")
def test_close_revokes_leaves_and_waits_for_response() -> None:
    member = MemberHarness().settle("t-0 t-1")
    member.take_callbacks()
    member.execute(member.machine.close(member.now_ms))
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]
    (leaver,) = member.sent(LeaveGroup).members
    assert leaver == ("m1", None, "the consumer is being closed")
    assert not member.closed()
    member.respond(LeaveGroupResponse(Error.COORDINATOR_LOAD_IN_PROGRESS))
    assert member.closed()
    assert len(member.ever_sent(LeaveGroup)) == 1


@pytest.mark.proves("CL-32")
@pytest.mark.parametrize("operation", ["unsubscribe", "close"])
def test_leave_during_rebalance_loses_partitions(operation: str) -> None:
    reset = MemberHarness().settle("t-0").heartbeat(Error.UNKNOWN_MEMBER_ID)
    rebalancing = about_to_rejoin("t-0", assignors=COOPERATIVE).poll()
    for member in (reset, rebalancing):
        member.take_callbacks()
        member.execute(getattr(member.machine, operation)(member.now_ms))
        assert member.take_callbacks() == [(LOST, tps("t-0"))]
    assert not reset.ever_sent(LeaveGroup)
    assert rebalancing.sends(LeaveGroup)


@pytest.mark.proves("CL-32")
def test_leave_without_partitions_runs_no_callback() -> None:
    member = MemberHarness().settle("")
    member.take_callbacks()
    member.execute(member.machine.close(member.now_ms))
    assert not member.take_callbacks()
    assert member.sends(LeaveGroup)


@pytest.mark.proves("CL-07", "CL-32")
@pytest.mark.parametrize("operation", ["unsubscribe", "close"])
def test_static_member_leaves_without_leave_group(operation: str) -> None:
    member = MemberHarness(group_instance_id="i1").settle("t-0")
    member.take_callbacks()
    member.execute(getattr(member.machine, operation)(member.now_ms))
    assert member.take_callbacks() == [(REVOKED, tps("t-0"))]
    assert not member.ever_sent(LeaveGroup)
    assert member.state is MemberState.UNJOINED
    assert member.closed() is (operation == "close")


@pytest.mark.proves("CL-32")
def test_closed_member_ignores_responses_and_timers() -> None:
    member = MemberHarness().settle("t-0").advance_ms(3_000).tick()
    heartbeat = member.send_of(Heartbeat)
    member.execute(member.machine.close(member.now_ms)).advance_ms(30_000)
    assert member.machine.next_due_ms() == member.now_ms
    member.tick()
    assert member.closed(), "close waits for the LeaveGroup response until the timeout"
    machine, now_ms = member.machine, member.now_ms
    assert machine.on_response(heartbeat.request_id, HeartbeatResponse(Error.UNKNOWN_MEMBER_ID), now_ms) == []
    assert machine.on_request_failed(heartbeat.request_id, now_ms) == machine.poll(now_ms) == machine.tick(now_ms) == []
    assert machine.on_metadata({}, now_ms) == machine.on_listener_done(now_ms) == machine.close(now_ms) == []
    assert machine.next_due_ms() is machine.next_poll_ms() is None


@pytest.mark.proves("CL-32")
def test_unsubscribed_member_can_rejoin_without_id() -> None:
    member = MemberHarness().settle("t-0")
    member.execute(member.machine.unsubscribe(member.now_ms)).respond(LeaveGroupResponse(Error.NONE))
    member.execute(member.machine.subscribe(["u"], member.now_ms)).poll()
    assert member.sent(JoinGroup).member_id == ""
    member.settle("u-0", 3)
    assert member.owned() == tps("u-0")


@pytest.mark.proves("CL-22")
def test_generation_loss_during_sync_loses_partitions_first() -> None:
    member = about_to_rejoin("t-0", assignors=COOPERATIVE).poll().join_ok(2)
    member.heartbeat(Error.UNKNOWN_MEMBER_ID).poll()
    assert member.take_callbacks() == [(LOST, tps("t-0"))]
    assert not member.sends(JoinGroup), "the old SyncGroup is still pending"
    member.respond(SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)).poll()
    assert member.sent(JoinGroup).member_id == ""


@pytest.mark.proves("CL-19")
def test_revocation_waits_for_coordinator() -> None:
    member = about_to_rejoin("t-0").advance_ms(3_000).tick()
    member.respond(HeartbeatResponse(Error.NOT_COORDINATOR)).poll()
    assert not member.take_callbacks()
    member.respond(NODE).poll()
    assert member.take_callbacks() == [(REVOKED, tps("t-0"))]


# --- missed generations -----------------------------------------------------------------------------------------------


def test_static_member_that_missed_generation_loses_partitions() -> None:
    """A deliberate difference: Java would revoke t-1, and a commit in the listener would carry the new generation."""
    member = MemberHarness(assignors=COOPERATIVE, group_instance_id="i1").settle("t-0 t-1", generation_id=1)
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll()
    member.take_callbacks()
    member.join_ok(3).sync_ok("t-0").poll()
    assert member.take_callbacks() == [(Callback.LOST, tps("t-0 t-1")), (Callback.ASSIGNED, tps("t-0"))]
    assert member.owned() == tps("t-0")


def test_static_member_in_every_generation_keeps_partitions() -> None:
    member = MemberHarness(assignors=COOPERATIVE, group_instance_id="i1").settle("t-0 t-1", generation_id=1)
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll()
    member.take_callbacks()
    member.join_ok(2).sync_ok("t-0").poll()
    assert member.take_callbacks() == [(Callback.REVOKED, tps("t-1")), (Callback.ASSIGNED, ())]
