"""Fetches that wait for records.

Invariants:
- Nothing polls. A waiting fetch is checked when one of its partitions grows or is deleted, and ends then or at its
  deadline.
- A wait that has ended, or whose connection is closed, leaves nothing behind in its partitions and timers.
- Waits with close deadlines share one timer, so that a thousand idle consumers need few timers. A wait may take a tenth
  longer because of that, at most 50 ms, and never ends early. An append ends a wait at once.
- An exception at the end of one wait affects neither the other waits nor the append that ended it.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from slackwater.broker.storage.topics import Partition
from slackwater.escaping import get_logger

log = get_logger("slackwater.broker.fetch")
_SLOTS_PER_WAIT: Final = 10
_MAX_SLOT_S: Final = 0.05


class DelayedFetch:
    """One waiting fetch; `end` is called once, unless the wait is dropped."""

    __slots__ = ("_end", "_is_satisfied", "_waits", "deadline", "on_change", "owner", "partitions")

    def __init__(
        self,
        waits: "DelayedFetches",
        owner: Hashable,
        partitions: Sequence[Partition],
        deadline: float,
        is_satisfied: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        self._waits = waits
        self._is_satisfied = is_satisfied
        self._end = end
        self.owner = owner
        self.partitions = partitions
        self.deadline = deadline
        self.on_change = self.check  # one bound method, because partitions identify their listeners by it

    def check(self) -> None:
        """End the wait if there are enough records; called when a partition grew or was deleted."""
        if self._is_satisfied():
            self.finish()

    def finish(self) -> None:
        """End the wait, unless it was dropped."""
        if not self._waits.drop(self.owner, self):
            return
        try:
            self._end()
        except Exception:
            log.exception("A waiting fetch failed.")


class DelayedFetches:
    """All waiting fetches of a broker: one per owner, which is a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waits: dict[Hashable, DelayedFetch] = {}
        # By deadline: the waits that end then and their timer.
        self._slots: dict[float, tuple[dict[DelayedFetch, None], asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def add(
        self,
        owner: Hashable,
        partitions: Sequence[Partition],
        wait_ms: int,
        *,
        is_satisfied: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        """Call `end` when `is_satisfied` holds after a partition has changed, or when the time has passed."""
        self.drop(owner)
        wait_s = wait_ms / 1000
        slot_s = min(wait_s / _SLOTS_PER_WAIT, _MAX_SLOT_S)
        deadline = ((self._loop.time() + wait_s) // slot_s + 1) * slot_s
        wait = self._waits[owner] = DelayedFetch(self, owner, partitions, deadline, is_satisfied, end)
        for partition in partitions:
            partition.waiters[wait.on_change] = None
        slot = self._slots.get(deadline)
        if slot is None:
            slot = self._slots[deadline] = ({}, self._loop.call_at(deadline, self._expire, deadline))
        slot[0][wait] = None

    def drop(self, owner: Hashable, wait: DelayedFetch | None = None) -> bool:
        """Remove the wait of an owner, or only this wait; False if there is none."""
        known = self._waits.get(owner)
        if known is None or (wait is not None and wait is not known):
            return False
        del self._waits[owner]
        for partition in known.partitions:
            partition.waiters.pop(known.on_change, None)
        slot = self._slots.get(known.deadline)
        if slot is not None:
            waits, timer = slot
            waits.pop(known, None)
            if not waits:
                timer.cancel()
                del self._slots[known.deadline]
        return True

    def _expire(self, deadline: float) -> None:
        waits, _ = self._slots.pop(deadline)
        for wait in waits:
            wait.finish()
