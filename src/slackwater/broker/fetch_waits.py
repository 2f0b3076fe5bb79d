"""Fetches that wait for records, and consumers that sleep meanwhile.

Rules kept here
- Nobody polls. A wait is looked at when one of its partitions grew or went away, and ends there or when its time is up.
- A wait that has ended, or whose connection is gone, leaves nothing behind: not in its partitions, not in the timers.
- Waits that end at about the same time end together, in one turn: a thousand idle consumers cost a timer now and then,
  not one each. A wait may take a sixteenth longer for it, never less.
- Whoever fails at its end disturbs neither the others nor the append that woke it.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from slackwater.broker.topics import Partition

log = logging.getLogger("slackwater.broker.fetch")
_SHARES: Final = 16


class Wait:
    """One fetch that waits; `end` is called once, unless it is dropped."""

    __slots__ = ("_end", "_enough", "_waits", "bucket", "owner", "partitions", "woken")

    def __init__(
        self,
        waits: "FetchWaits",
        owner: Hashable,
        partitions: Sequence[Partition],
        enough: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        self._waits = waits
        self._enough = enough
        self._end = end
        self.owner = owner
        self.partitions = partitions
        self.bucket = 0.0
        self.woken = self.wake  # one object, for partitions to know it by

    def wake(self) -> None:
        """A partition grew, or went away."""
        if self._enough():
            self.finish()

    def finish(self) -> None:
        """End it now, unless it was dropped by whoever ended just before it."""
        if not self._waits.drop(self.owner, self):
            return
        try:
            self._end()
        except Exception:
            log.exception("A fetch that waited failed.")


class _Bucket(NamedTuple):
    """Waits that end together."""

    waits: dict[Wait, None]
    timer: asyncio.TimerHandle


class FetchWaits:
    """All waits of a broker: one for each owner, which is a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waits: dict[Hashable, Wait] = {}
        self._buckets: dict[float, _Bucket] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def park(
        self,
        owner: Hashable,
        partitions: Sequence[Partition],
        wait_ms: int,
        *,
        enough: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        """Call `end` when `enough` holds after something was appended to a partition, or when the time is up."""
        self.drop(owner)
        wait = self._waits[owner] = Wait(self, owner, partitions, enough, end)
        for partition in partitions:
            partition.waiting[wait.woken] = None
        share_s = wait_ms / 1000 / _SHARES
        wait.bucket = at = (self._loop.time() // share_s + _SHARES + 1) * share_s
        bucket = self._buckets.get(at)
        if bucket is None:
            bucket = self._buckets[at] = _Bucket({}, self._loop.call_at(at, self._time_is_up, at))
        bucket.waits[wait] = None

    def drop(self, owner: Hashable, wait: Wait | None = None) -> bool:
        """Forget the wait of an owner, or only this one of it; False if there is none."""
        known = self._waits.get(owner)
        if known is None or (wait is not None and wait is not known):
            return False
        del self._waits[owner]
        for partition in known.partitions:
            partition.waiting.pop(known.woken, None)
        bucket = self._buckets.get(known.bucket)
        if bucket is not None:
            del bucket.waits[known]
            if not bucket.waits:
                bucket.timer.cancel()
                del self._buckets[known.bucket]
        return True

    def _time_is_up(self, at: float) -> None:
        for wait in self._buckets.pop(at).waits:
            wait.finish()
