"""The three timers of a member: when to beat, when its session is over, when its application has stopped polling.

Rules kept here
- The two kinds of life are checked apart (KIP-62): the session says whether the process lives, the poll timer whether
  it makes progress.
- A timer is over when `now_ms` has reached its deadline.
- A heartbeat is due an interval after the last one was *sent*, answered or not; after a failure it is due after an
  exponential backoff instead (CL-05).
"""

from typing import Final

NEVER_SENT: Final = -1


def backoff_ms(attempts: int, first_ms: int, most_ms: int) -> int:
    """How long to wait before the next try, after `attempts` earlier ones failed: doubling, with an upper bound.

    Kafka adds 20 % of chance, so that many clients do not come back at once. A shell that wants it delays its calls.
    """
    return min(first_ms << min(attempts, 30), most_ms)


class HeartbeatTimers:
    """Deadlines in milliseconds; nothing here fires by itself."""

    __slots__ = (
        "_backoff_max_ms",
        "_backoff_ms",
        "_failures",
        "_interval_ms",
        "_max_poll_ms",
        "_session_ms",
        "beat_due_ms",
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
        self.beat_due_ms = 0
        self.session_due_ms = 0
        self.poll_due_ms = 0

    def reset(self, now_ms: int) -> None:
        """Start all three anew, as a join answer does (CL-02)."""
        self._failures = 0
        self.beat_due_ms = now_ms + self._interval_ms
        self.session_due_ms = now_ms + self._session_ms
        self.poll_due_ms = now_ms + self._max_poll_ms

    def polled(self, now_ms: int) -> None:
        """The application polls."""
        self.poll_due_ms = now_ms + self._max_poll_ms

    def coordinator_found(self, now_ms: int) -> None:
        """A newly found coordinator is given a whole session to answer in."""
        self.session_due_ms = now_ms + self._session_ms

    def sent(self, now_ms: int) -> None:
        """A heartbeat leaves."""
        self.last_sent_ms = now_ms
        self.beat_due_ms = now_ms + self._interval_ms

    def received(self, now_ms: int) -> None:
        """A good answer arrived."""
        self._failures = 0
        self.session_due_ms = now_ms + self._session_ms

    def failed(self, now_ms: int) -> None:
        """A heartbeat failed: try again soon, and less soon each time (CL-05)."""
        self.beat_due_ms = now_ms + backoff_ms(self._failures, self._backoff_ms, self._backoff_max_ms)
        self._failures += 1

    def session_expired(self, now_ms: int) -> bool:
        """Whether no good answer came for a whole session timeout."""
        return now_ms >= self.session_due_ms

    def poll_expired(self, now_ms: int) -> bool:
        """Whether the application has not polled for max.poll.interval.ms."""
        return now_ms >= self.poll_due_ms

    def overrun_ms(self, now_ms: int) -> int:
        """By how much the application is late."""
        return now_ms - self.poll_due_ms

    def beat_due(self, now_ms: int) -> bool:
        """Whether the next heartbeat should be sent."""
        return now_ms >= self.beat_due_ms
