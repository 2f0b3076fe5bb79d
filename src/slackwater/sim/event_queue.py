"""The virtual clock of the simulator: a queue of actions in order of time.

Invariants:
- Actions of the same millisecond run in the order in which they were added.
- The simulator never reads a real clock: the same seed gives the same run on any machine.
"""

from collections.abc import Callable
from heapq import heappop, heappush

Action = Callable[[], None]

MAX_STEPS_PER_MS = 5_000


class NoProgressError(Exception):
    """Actions keep adding actions for the same millisecond."""


class EventQueue:
    """A heap of actions and the current time."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.steps = 0
        self._heap: list[tuple[int, int, Action]] = []
        self._added = 0

    def at(self, time_ms: int, action: Action) -> None:
        """Run `action` at `time_ms`, or now if that is past."""
        self._added += 1
        heappush(self._heap, (max(time_ms, self.now_ms), self._added, action))

    def after(self, delay_ms: int, action: Action) -> None:
        """Run `action` after `delay_ms`."""
        self.at(self.now_ms + delay_ms, action)

    def run_until(self, time_ms: int) -> None:
        """Run every action up to and including `time_ms`."""
        heap = self._heap
        steps = 0
        while heap and heap[0][0] <= time_ms:
            at_ms, _, action = heappop(heap)
            steps = steps + 1 if at_ms == self.now_ms else 0
            if steps > MAX_STEPS_PER_MS:
                raise NoProgressError(f"{steps} steps at {at_ms} ms, and time does not move on")
            self.now_ms = at_ms
            self.steps += 1
            action()
        self.now_ms = time_ms
