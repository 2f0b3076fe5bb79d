"""The three timers of a member: heartbeat interval, session timeout and poll interval.

Invariants:
- Session and poll timer are independent (KIP-62): the session shows that the process is alive, the poll timer that it
  makes progress.
- A timer expires when `now_ms` reaches its deadline.
- A heartbeat is due one interval after the last one was *sent*; after a failure it is due after an exponential backoff
  instead (CL-05).
"""

from typing import Final

NEVER_SENT: Final = -1


def backoff_ms(attempts: int, initial_ms: int, max_ms: int) -> int:
    """The delay before the next attempt after `attempts` earlier failures: doubling, with an upper bound.

    Kafka adds 20 % jitter. A shell that needs jitter delays its calls.
    """
    return min(initial_ms << min(attempts, 30), max_ms)


class HeartbeatTimers:
    """Deadlines in milliseconds; the caller checks them."""

    __slots__ = (
        "_backoff_max_ms",
        "_backoff_ms",
        "_failures",
        "_interval_ms",
        "_max_poll_ms",
        "_session_ms",
        "heartbeat_due_ms",
        "last_sent_ms",
        "poll_due_ms",
        "session_due_ms",
    )

    def __init__(
        self, *, session_ms: int, interval_ms: int, max_poll_ms: int, backoff_ms: int, backoff_max_ms: int
    ) -> None:
        self._session_ms = session_ms
        self._interval_ms = interval_ms
        self._max_poll_ms = max_poll_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._failures = 0
        self.last_sent_ms = NEVER_SENT
        self.heartbeat_due_ms = 0
        self.session_due_ms = 0
        self.poll_due_ms = 0

    def reset(self, now_ms: int) -> None:
        """Restart all three timers, as a JoinGroup response does (CL-02)."""
        self._failures = 0
        self.heartbeat_due_ms = now_ms + self._interval_ms
        self.session_due_ms = now_ms + self._session_ms
        self.poll_due_ms = now_ms + self._max_poll_ms

    def on_poll(self, now_ms: int) -> None:
        """Restart the poll timer."""
        self.poll_due_ms = now_ms + self._max_poll_ms

    def on_coordinator_found(self, now_ms: int) -> None:
        """Give a newly found coordinator a whole session timeout to respond."""
        self.session_due_ms = now_ms + self._session_ms

    def sent(self, now_ms: int) -> None:
        """Restart the heartbeat interval when a heartbeat is sent."""
        self.last_sent_ms = now_ms
        self.heartbeat_due_ms = now_ms + self._interval_ms

    def on_success(self, now_ms: int) -> None:
        """Extend the session after a successful heartbeat response."""
        self._failures = 0
        self.session_due_ms = now_ms + self._session_ms

    def failed(self, now_ms: int) -> None:
        """Schedule the next heartbeat after a backoff (CL-05)."""
        self.heartbeat_due_ms = now_ms + backoff_ms(self._failures, self._backoff_ms, self._backoff_max_ms)
        self._failures += 1

    def is_session_expired(self, now_ms: int) -> bool:
        """Whether no successful response arrived for a whole session timeout."""
        return now_ms >= self.session_due_ms

    def is_poll_expired(self, now_ms: int) -> bool:
        """Whether the application has not polled for max.poll.interval.ms."""
        return now_ms >= self.poll_due_ms

    def poll_overrun_ms(self, now_ms: int) -> int:
        """How far the application exceeded max.poll.interval.ms."""
        return now_ms - self.poll_due_ms

    def is_heartbeat_due(self, now_ms: int) -> bool:
        """Whether the next heartbeat should be sent."""
        return now_ms >= self.heartbeat_due_ms
