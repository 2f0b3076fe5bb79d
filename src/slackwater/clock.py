"""The clocks of a process: wall time for timestamps, monotonic time for timers.

Invariants:
- Timestamps are wall time, so that they mean the same to clients, to people and after a restart. The wall clock may be
  changed in either direction (NTP, suspend, by hand).
- Timers use a monotonic clock, so a change of the wall clock expires no session. It starts at wall time, which makes
  its values readable; it is never compared with a timestamp.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

MAX_STEP_MS: Final = 2_000


class Clock(Protocol):
    """Milliseconds since 1970."""

    def now_ms(self) -> int:
        """Return the current time."""
        ...


class WallClock:
    """The system clock."""

    def now_ms(self) -> int:
        """Return the wall time."""
        return time.time_ns() // 1_000_000


class AnchoredClock:
    """Never decreases: wall time at the start of the process plus the time elapsed since."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Return the wall time at the start plus the time elapsed since."""
        return (self._offset_ns + time.monotonic_ns()) // 1_000_000


class StallTolerantClock:
    """An anchored clock that counts a stall of the process, such as SIGSTOP, as MAX_STEP_MS.

    The timers of others must not expire because this process could not serve them. Call `now_ms` more often than every
    MAX_STEP_MS while a timer is running; otherwise idle time counts as a stall.
    """

    def __init__(self, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._monotonic_ns = monotonic_ns
        self._last_ns = monotonic_ns()
        self._offset_ns = time.time_ns() - self._last_ns

    def now_ms(self) -> int:
        """Return the wall time at the start plus the time elapsed since, without stalls."""
        now_ns = self._monotonic_ns()
        if (stalled_ns := now_ns - self._last_ns - MAX_STEP_MS * 1_000_000) > 0:
            self._offset_ns -= stalled_ns
        self._last_ns = now_ns
        return (self._offset_ns + now_ns) // 1_000_000


class ManualClock:
    """A clock for tests that changes only in `advance_ms`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time."""
        return self._now_ms

    def advance_ms(self, length_ms: int) -> None:
        """Advance the clock, or set it back if `length_ms` is negative."""
        self._now_ms += length_ms
