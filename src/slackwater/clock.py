"""A process's time: wall time at its start, and from then on only forward.

Rules kept here
- Timers and stamps share one clock. It starts at wall time, so that what is stamped means something to people and to
  the next start; it runs on monotonically, so that a wall clock that jumps expires nobody.
- A test may bring its own.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since 1970 that never go back."""

    def now_ms(self) -> int:
        """The time."""
        ...


class AnchoredClock:
    """The real one."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Wall time at the start, plus what has passed since."""
        return (self._offset_ns + time.monotonic_ns()) // 1_000_000


class ManualClock:
    """A clock that stands still until told otherwise."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time as it was last set."""
        return self._now_ms

    def advance_ms(self, length_ms: int) -> None:
        """Move on."""
        self._now_ms += length_ms
