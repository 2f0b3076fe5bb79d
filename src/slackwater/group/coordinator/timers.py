"""Timers without a clock.

Rules kept here
- Moving a timer to a later time is one assignment: a heartbeat moves a deadline and touches no heap.
- A timer has at most one live heap entry, at or before its deadline. When that entry comes up early, because the
  deadline moved on in the meantime, it is put back at the deadline; a cancelled timer's entry is dropped.
- Entries of cancelled timers, which hold their owners in memory, are never more than those of live ones by much: a heap
  that has doubled is swept.
- Timers due at the same time fire in the order in which they were armed, so a run can be repeated exactly.
"""

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

NEVER: Final = 1 << 62
SMALL: Final = 256  # entries; a smaller heap is not worth a sweep

_Owner = TypeVar("_Owner")


class Timer(Generic[_Owner]):
    """One deadline; `owner` is what it belongs to."""

    __slots__ = ("armed_ms", "deadline_ms", "owner")

    def __init__(self, owner: _Owner) -> None:
        self.owner = owner
        self.deadline_ms = NEVER
        self.armed_ms = NEVER

    def cancel(self) -> None:
        """Never fire, unless armed again."""
        self.deadline_ms = NEVER


class Timers(Generic[_Owner]):
    """All timers of a coordinator, in one lazy heap."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer[_Owner]]] = []
        self._armed = 0
        self._sweep_at = SMALL

    def arm(self, timer: Timer[_Owner], deadline_ms: int) -> None:
        """Fire `timer` at `deadline_ms`, whatever was set before."""
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.armed_ms:
            self._push(timer, deadline_ms)

    def next_due_ms(self) -> int | None:
        """A time at or before which nothing fires; exact unless deadlines moved since."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def may_be_due(self, now_ms: int) -> bool:
        """Whether something may fire at `now_ms`; never wrong when it says no."""
        return bool(self._heap) and self._heap[0][0] <= now_ms

    def pop(self, now_ms: int) -> Timer[_Owner] | None:
        """The next timer due at or before `now_ms`, disarmed; None when there is none."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        timer = heappop(self._heap)[2]
        timer.deadline_ms = timer.armed_ms = NEVER
        return timer

    def _push(self, timer: Timer[_Owner], deadline_ms: int) -> None:
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        timer.armed_ms = deadline_ms
        self._armed += 1
        heappush(self._heap, (deadline_ms, self._armed, timer))

    def _sweep(self) -> None:
        """Drop what will never fire; the heap's order is that of its entries, whichever are left."""
        live = []
        for entry in self._heap:
            at_ms, _, timer = entry
            if at_ms != timer.armed_ms:
                continue
            if timer.deadline_ms == NEVER:
                timer.armed_ms = NEVER
            else:
                live.append(entry)
        heapify(live)
        self._heap[:] = live
        self._sweep_at = max(SMALL, 2 * len(live))

    def _settle(self) -> None:
        """Bring the heap to where its first entry is a live timer at its true deadline."""
        heap = self._heap
        while heap:
            at_ms, _, timer = heap[0]
            if at_ms == timer.armed_ms:
                if at_ms == timer.deadline_ms:
                    return
                heappop(heap)
                timer.armed_ms = NEVER
                if timer.deadline_ms != NEVER:
                    self._push(timer, timer.deadline_ms)
            else:
                heappop(heap)  # an older entry of a timer that was armed again for an earlier time
