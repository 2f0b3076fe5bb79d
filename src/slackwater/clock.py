"""The clock of a process: wall time at the start, monotonic afterwards.

Invariants:
- Timers and timestamps share one clock. It starts at wall time, so that timestamps are meaningful to people and after a
  restart. It is monotonic, so that a jump of the wall clock expires no session.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since 1970 that never decrease."""

    def now_ms(self) -> int:
        """Return the current time."""
        ...


class AnchoredClock:
    """The system clock, monotonic since the process started."""

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
        """Advance the clock."""
        self._now_ms += length_ms
