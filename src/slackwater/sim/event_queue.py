"""The virtual clock: what is to happen, in order of time, and nothing else moves time on.

Rules kept here
- Things planned for the same millisecond happen in the order in which they were planned.
- Nothing here, or on top of it, looks at a real clock: the same seed gives the same run on any machine.
"""

from collections.abc import Callable
from heapq import heappop, heappush

Action = Callable[[], None]

MAX_STEPS_PER_MS = 5_000


class NoProgressError(Exception):
    """Somebody keeps planning something for this very moment."""


class EventQueue:
    """A heap of planned actions and the current time."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.steps = 0
        self._heap: list[tuple[int, int, Action]] = []
        self._planned = 0

    def at(self, time_ms: int, action: Action) -> None:
        """Plan `action` for `time_ms`, or for now if that is past."""
        self._planned += 1
        heappush(self._heap, (max(time_ms, self.now_ms), self._planned, action))

    def after(self, delay_ms: int, action: Action) -> None:
        """Plan `action` for `delay_ms` from now."""
        self.at(self.now_ms + delay_ms, action)

    def run_until(self, time_ms: int) -> None:
        """Let everything happen that is planned up to and including `time_ms`."""
        heap = self._heap
        here = 0
        while heap and heap[0][0] <= time_ms:
            at_ms, _, action = heappop(heap)
            here = here + 1 if at_ms == self.now_ms else 0
            if here > MAX_STEPS_PER_MS:
                raise NoProgressError(f"{here} steps at {at_ms} ms, and time does not move on")
            self.now_ms = at_ms
            self.steps += 1
            action()
        self.now_ms = time_ms
