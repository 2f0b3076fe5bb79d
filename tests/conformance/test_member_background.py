"""A member that joins in the background and holds partitions of a running batch."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind
from slackwater.group.member import Callback, CommitFailed, MemberState, RebalanceDriver
from slackwater.group.messages import (
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommit,
    SyncGroup,
)

from .member_harness import COOPERATIVE, EAGER, NODE, MemberHarness, at, commit_response, tps

REVOKED, ASSIGNED, LOST = Callback


def background(partitions: str = "t-0 t-1", **settings: object) -> MemberHarness:
    """Return a stable background member; it is cooperative by default."""
    defaults: dict[str, object] = {"driver": RebalanceDriver.BACKGROUND, "assignors": COOPERATIVE}
    member = MemberHarness(**(defaults | settings))  # type: ignore[arg-type]
    member.respond(NODE).join_ok(1).sync_ok(partitions)
    assert member.take_callbacks() == [(ASSIGNED, tps(partitions))]
    assert member.state is MemberState.STABLE
    return member


# --- without poll -----------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-01", "CL-08")
def test_background_member_joins_and_rejoins_without_poll() -> None:
    member = background()
    member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert member.sent(JoinGroup).reason == "group is already rebalancing"


@pytest.mark.proves("CL-16")
def test_background_rebalance_timeout_is_one_minute() -> None:
    member = background().heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert member.sent(JoinGroup).rebalance_timeout_ms == 60_000
    assert member.send_of(JoinGroup).timeout_ms == 65_000


@pytest.mark.proves("CL-06")
def test_background_member_has_no_poll_timer() -> None:
    member = background(max_poll_interval_ms=10_000)
    for _ in range(200):
        member.heartbeat()
    assert member.state is MemberState.STABLE
    assert not member.events_of(EventKind.POLL_OVERRUN)


@pytest.mark.proves("CL-12")
def test_background_member_retries_join_after_backoff() -> None:
    member = background().heartbeat(Error.REBALANCE_IN_PROGRESS)
    member.respond(JoinGroupResponse(Error.COORDINATOR_LOAD_IN_PROGRESS))
    assert member.machine.next_due_ms() == member.now_ms + 100
    member.advance_ms(100).tick()
    assert member.sends(JoinGroup)


@pytest.mark.proves("CL-13")
def test_background_member_stops_after_fatal_error() -> None:
    member = (
        background().heartbeat(Error.REBALANCE_IN_PROGRESS).respond(JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED))
    )
    assert len(member.raised) == 1
    member.advance_ms(60_000).tick().poll()
    assert not member.sends(JoinGroup)
    assert not member.sends(Heartbeat)
    assert member.machine.next_due_ms() is None
    member.execute(member.machine.subscribe(["t"], member.now_ms))
    assert member.sends(JoinGroup)


@pytest.mark.proves("CL-37")
def test_background_member_auto_commits_by_ticks() -> None:
    member = background(enable_auto_commit=True)
    member.machine.set_consumed(at("t-0"))
    member.advance_ms(5_000).tick()
    assert member.sends(OffsetCommit)


# --- cooperative revocation -------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-23")
def test_held_partition_does_not_block_rebalance() -> None:
    member = background("t-0 t-1 t-2")
    member.machine.hold(tps("t-0 t-1"))
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).join_ok(2).sync_ok("t-1")
    assert member.take_callbacks() == [(REVOKED, tps("t-2")), (ASSIGNED, ())]
    assert member.owned() == tps("t-0 t-1")
    assert member.machine.pending_revocation == frozenset(tps("t-0"))
    assert member.machine.fetchable == frozenset(tps("t-1"))
    assert member.sent_subscription().owned_partitions == tps("t-0 t-1"), (
        "a held partition stays claimed, so that the new owner does not get it yet"
    )
    member.join_ok(3).sync_ok("t-1")
    assert member.take_callbacks() == [(ASSIGNED, ())]
    assert member.state is MemberState.STABLE
    assert not member.needs_rejoin(), "the group is stable while the partition is held"
    assert member.machine.next_due_ms() == member.now_ms + 3_000


@pytest.mark.proves("CL-23")
def test_released_partition_is_revoked_with_rejoin() -> None:
    member = background("t-0 t-1")
    member.machine.hold(tps("t-0"))
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).join_ok(2).sync_ok("t-1")
    assert not member.sends(JoinGroup)
    member.take_callbacks()
    member.execute(member.machine.release(tps("t-0"), member.now_ms))
    assert member.take_callbacks() == [(REVOKED, tps("t-0"))]
    assert member.owned() == tps("t-1")
    request = member.sent(JoinGroup)
    assert request.reason == "need to revoke partitions and re-join"
    assert member.sent_subscription().owned_partitions == tps("t-1")


@pytest.mark.proves("CL-23")
def test_reassigned_held_partition_is_kept() -> None:
    member = background("t-0 t-1")
    member.machine.hold(tps("t-0"))
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).join_ok(2).sync_ok("t-1")
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).join_ok(3).sync_ok("t-0 t-1")
    assert member.machine.pending_revocation == frozenset()
    member.execute(member.machine.release(tps("t-0"), member.now_ms))
    assert not member.sends(JoinGroup)
    assert member.owned() == tps("t-0 t-1")


@pytest.mark.proves("CL-23")
def test_partition_released_during_rebalance_is_revoked_after() -> None:
    member = background("t-0 t-1")
    member.machine.hold(tps("t-0"))
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).join_ok(2).sync_ok("t-1")
    member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    member.take_callbacks()
    member.execute(member.machine.release(tps("t-0"), member.now_ms))
    assert not member.take_callbacks()
    member.join_ok(3).sync_ok("t-1")
    assert member.take_callbacks() == [(REVOKED, tps("t-0")), (ASSIGNED, ())]
    assert member.sends(JoinGroup)


@pytest.mark.proves("CL-22")
def test_held_partitions_are_lost_with_generation() -> None:
    member = background("t-0 t-1", enable_auto_commit=True)
    member.machine.hold(tps("t-0"))
    member.machine.set_consumed(at("t-0"))
    member.heartbeat(Error.UNKNOWN_MEMBER_ID)
    assert member.take_callbacks() == [(LOST, tps("t-0 t-1"))]
    assert member.owned() == ()
    assert not member.ever_sent(OffsetCommit)
    assert member.sends(JoinGroup), "held partitions of a lost generation do not delay the join"
    assert member.execute(member.machine.release(tps("t-0"), member.now_ms)).owned() == ()


@pytest.mark.proves("CL-32")
def test_close_does_not_wait_for_held_partitions() -> None:
    member = background("t-0")
    member.machine.hold(tps("t-0"))
    member.execute(member.machine.close(member.now_ms))
    assert member.take_callbacks() == [(REVOKED, tps("t-0"))]
    assert member.sends(LeaveGroup)


@pytest.mark.proves("CL-21")
def test_unsubscribed_held_topic_delays_join() -> None:
    member = MemberHarness(topics=("t", "u"), driver=RebalanceDriver.BACKGROUND, assignors=COOPERATIVE)
    member.respond(NODE).join_ok(1).sync_ok("t-0 u-0")
    member.take_callbacks()
    member.machine.hold(tps("t-0 u-0"))
    member.execute(member.machine.subscribe(["t"], member.now_ms))
    assert not member.take_callbacks()
    assert not member.sends(JoinGroup)
    assert member.machine.fetchable == frozenset(tps("t-0"))
    member.execute(member.machine.release(tps("u-0"), member.now_ms))
    assert member.take_callbacks() == [(REVOKED, tps("u-0"))]
    assert member.sent_subscription().owned_partitions == tps("t-0")


# --- eager revocation -------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-19")
def test_eager_background_member_delays_join_and_logs_it() -> None:
    member = background(assignors=EAGER)
    assert member.machine.eager_background_warning is not None
    assert "the whole group waits" in member.machine.eager_background_warning
    assert "54 s" in member.machine.eager_background_warning
    member.machine.hold(tps("t-0"))
    member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert not member.take_callbacks()
    assert not member.sends(JoinGroup)
    assert member.machine.fetchable == frozenset(), "partitions to be revoked are not fetched"
    member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert not member.sends(JoinGroup)
    member.execute(member.machine.release(tps("t-0"), member.now_ms))
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]
    assert member.sends(JoinGroup)


@pytest.mark.proves("CL-19")
def test_eager_background_member_joins_before_timeout() -> None:
    member = background(assignors=EAGER)
    member.machine.hold(tps("t-0"))
    member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    started_ms = member.now_ms
    while not member.sends(JoinGroup):
        due_ms = member.machine.next_due_ms()
        assert due_ms is not None
        member.advance_ms(due_ms - member.now_ms).tick()
        if member.sends(Heartbeat):
            member.respond(HeartbeatResponse(Error.REBALANCE_IN_PROGRESS))
    assert member.now_ms - started_ms == 54_000
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]


@pytest.mark.proves("CL-19")
def test_cooperative_member_does_not_delay_group() -> None:
    assert background().machine.eager_background_warning is None
    assert MemberHarness().machine.eager_background_warning is None


@pytest.mark.proves("CL-37")
def test_background_member_commits_before_it_revokes() -> None:
    member = background(assignors=EAGER, enable_auto_commit=True)
    member.machine.set_consumed(at("t-0"))
    member.heartbeat(Error.REBALANCE_IN_PROGRESS)
    assert not member.take_callbacks()
    member.respond(commit_response())
    assert member.take_callbacks() == [(REVOKED, tps("t-0 t-1"))]
    assert member.sends(JoinGroup)
    assert not member.sends(SyncGroup)


# --- commits across generations ---------------------------------------------------------------------------------------


def test_retried_commit_keeps_continuously_owned_partitions() -> None:
    member = background()
    member.execute(member.machine.commit(at("t-0", 10), member.now_ms, commit_id=1, sync=True))
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).join_ok(2).sync_ok("t-0 t-1")
    member.respond(commit_response(Error.COORDINATOR_LOAD_IN_PROGRESS)).advance_ms(1_000).tick()
    assert member.sent(OffsetCommit).generation_id == 2


def test_retried_commit_skips_lost_partitions() -> None:
    member = background()
    member.execute(member.machine.commit(at("t-0", 10), member.now_ms, commit_id=1, sync=True))
    member.heartbeat(Error.UNKNOWN_MEMBER_ID)
    assert member.take_callbacks()[-1] == (LOST, tps("t-0 t-1"))
    member.join_ok(2).sync_ok("t-0 t-1")
    member.respond(commit_response(Error.COORDINATOR_LOAD_IN_PROGRESS)).advance_ms(1_000).tick()
    assert not member.sends(OffsetCommit)
    (done,) = member.commits
    assert isinstance(done.error, CommitFailed)
    assert "t-0 was lost" in str(done.error)
