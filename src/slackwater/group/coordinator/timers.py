"""Timers without a clock.

Invariants:
- Moving a timer to a later time is one assignment: a heartbeat sets a deadline and does not touch the heap.
- A timer has at most one live heap entry, at or before its deadline. An entry that comes up early is pushed again at
  the current deadline; the entry of a cancelled timer is dropped.
- Entries of cancelled timers keep their owners in memory; they are removed when the heap has doubled.
- Timers due at the same time fire in the order in which they were armed, so runs are reproducible.
"""

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

NEVER: Final = 1 << 62
MIN_COMPACT_SIZE: Final = 256

_Owner = TypeVar("_Owner")


class Timer(Generic[_Owner]):
    """One deadline of its `owner`."""

    __slots__ = ("armed_ms", "deadline_ms", "owner")

    def __init__(self, owner: _Owner) -> None:
        self.owner = owner
        self.deadline_ms = NEVER
        self.armed_ms = NEVER

    def cancel(self) -> None:
        """Cancel the timer; it can be armed again."""
        self.deadline_ms = NEVER


class Timers(Generic[_Owner]):
    """The timers of a coordinator, in one lazily updated heap."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer[_Owner]]] = []
        self._armed = 0
        self._compact_at = MIN_COMPACT_SIZE

    def __len__(self) -> int:
        """Return the number of heap entries, including stale ones."""
        return len(self._heap)

    def arm(self, timer: Timer[_Owner], deadline_ms: int) -> None:
        """Set the deadline of `timer`."""
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.armed_ms:
            self._push(timer, deadline_ms)

    def next_due_ms(self) -> int | None:
        """Return the earliest deadline, or None."""
        self._clean_top()
        return self._heap[0][0] if self._heap else None

    def may_be_due(self, now_ms: int) -> bool:
        """Whether a timer may be due at `now_ms`; False is always right."""
        return bool(self._heap) and self._heap[0][0] <= now_ms

    def pop(self, now_ms: int) -> Timer[_Owner] | None:
        """Remove and return the next timer due at or before `now_ms`, or None."""
        self._clean_top()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        timer = heappop(self._heap)[2]
        timer.deadline_ms = timer.armed_ms = NEVER
        return timer

    def _push(self, timer: Timer[_Owner], deadline_ms: int) -> None:
        if len(self._heap) >= self._compact_at:
            self._compact()
        timer.armed_ms = deadline_ms
        self._armed += 1
        heappush(self._heap, (deadline_ms, self._armed, timer))

    def _compact(self) -> None:
        """Remove the entries of cancelled and rearmed timers; the order of the others stays."""
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
        self._compact_at = max(MIN_COMPACT_SIZE, 2 * len(live))

    def _clean_top(self) -> None:
        """Remove or move entries until the first one is a live timer at its current deadline."""
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
                heappop(heap)  # a stale entry: the timer was armed again for an earlier time
