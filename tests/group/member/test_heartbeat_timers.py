"""The heartbeat, session and poll timers of a member."""

import pytest

from slackwater.group.member.heartbeat_timers import NEVER_SENT, HeartbeatTimers, backoff_ms


@pytest.fixture
def timers() -> HeartbeatTimers:
    """Timers of 10, 3 and 30 seconds, started at 0."""
    started = HeartbeatTimers(
        session_ms=10_000, interval_ms=3_000, max_poll_ms=30_000, backoff_ms=100, backoff_max_ms=1_000
    )
    started.reset(0)
    return started


def test_timer_expires_at_its_deadline(timers: HeartbeatTimers) -> None:
    assert not timers.is_heartbeat_due(2_999)
    assert timers.is_heartbeat_due(3_000)
    assert not timers.is_session_expired(9_999)
    assert timers.is_session_expired(10_000)
    assert not timers.is_poll_expired(29_999)
    assert timers.is_poll_expired(30_000)
    assert timers.poll_overrun_ms(30_500) == 500


def test_poll_and_response_restart_only_their_timer(timers: HeartbeatTimers) -> None:
    timers.on_poll(5_000)
    assert (timers.heartbeat_due_ms, timers.session_due_ms, timers.poll_due_ms) == (3_000, 10_000, 35_000)
    timers.on_success(6_000)
    assert (timers.heartbeat_due_ms, timers.session_due_ms, timers.poll_due_ms) == (3_000, 16_000, 35_000)
    timers.on_coordinator_found(7_000)
    assert (timers.heartbeat_due_ms, timers.session_due_ms, timers.poll_due_ms) == (3_000, 17_000, 35_000)


def test_heartbeat_interval_starts_at_last_send(timers: HeartbeatTimers) -> None:
    assert timers.last_sent_ms == NEVER_SENT
    timers.sent(3_100)
    assert (timers.last_sent_ms, timers.heartbeat_due_ms) == (3_100, 6_100)


def test_failures_double_backoff_until_success(timers: HeartbeatTimers) -> None:
    waits = []
    for _ in range(6):
        timers.failed(0)
        waits.append(timers.heartbeat_due_ms)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    timers.on_success(0)
    timers.failed(0)
    assert timers.heartbeat_due_ms == 100


def test_backoff_never_overflows() -> None:
    assert backoff_ms(10**6, 100, 1_000) == 1_000
    assert backoff_ms(5, 0, 1_000) == 0
