"""The clocks of a process: wall time for timestamps, monotonic time for timers.

Invariants:
- Timestamps are wall time, so that they mean the same to clients, to people and after a restart. The wall clock may be
  changed in either direction (NTP, suspend, by hand).
- Timers use a monotonic clock, so a change of the wall clock expires no session. It starts at wall time, which makes
  its values readable; it is never compared with a timestamp.
"""

import time
from typing import Protocol


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
