"""Fetches that wait for records, and consumers that sleep meanwhile.

Rules kept here
- Nobody polls. A wait is looked at when one of its partitions grew or went away, and ends there or when its time is up.
- A wait that has ended, or whose connection is gone, leaves nothing behind: not in its partitions, not in the timers.
- Waits that end at about the same time end together, in one turn: a thousand idle consumers cost a timer now and then,
  not one each, and what they ask next comes together as well. A wait may take a tenth longer for it, and 50 ms at
  most; never less. Only an answer without news is late: an append ends a wait at once.
- Whoever fails at its end disturbs neither the others nor the append that woke it.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, Protocol

from slackwater.broker.connection import RequestContext
from slackwater.broker.storage.topics import Partition

log = logging.getLogger("slackwater.broker.fetch")
_SHARES: Final = 10
_LONGEST_SHARE_S: Final = 0.05
_NOBODY: Final = -1


class Timed(Protocol):
    """What waits until its time is up."""

    bucket: float

    def finish(self) -> RequestContext | None:
        """The time is up; what was answered past its connection, and is not counted yet. Nothing may be raised."""
        ...


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

    at: float
    waits: dict[Timed, None]
    timer: asyncio.TimerHandle


class FetchWaits:
    """All waits of a broker: one for each owner, which is a connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, answered: Callable[[Sequence[RequestContext]], None] = lambda calls: None
    ) -> None:
        self._loop = loop
        self._answered = answered
        self._waits: dict[Hashable, Wait] = {}
        self._buckets: dict[float, _Bucket] = {}
        self._last: _Bucket  # that somebody was put into
        self._last_at = 0.0
        self._last_ms = _NOBODY

    def __len__(self) -> int:
        return sum(len(bucket.waits) for bucket in self._buckets.values())

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
            partition.waiters[wait.woken] = None
        self.begin(wait, wait_ms)

    def drop(self, owner: Hashable, wait: Wait | None = None) -> bool:
        """Forget the wait of an owner, or only this one of it; False if there is none."""
        known = self._waits.get(owner)
        if known is None or (wait is not None and wait is not known):
            return False
        del self._waits[owner]
        for partition in known.partitions:
            partition.waiters.pop(known.woken, None)
        self.cancel(known)
        return True

    def begin(self, wait: Timed, wait_ms: int) -> None:
        """Finish this when its time is up."""
        now = self._loop.time()
        if now == self._last_at and wait_ms == self._last_ms:
            bucket = self._last  # of those who came in this turn and wait as long
        else:
            bucket = self._last = self._bucket(now, wait_ms)
            self._last_at, self._last_ms = now, wait_ms
        wait.bucket = bucket.at
        bucket.waits[wait] = None

    def cancel(self, wait: Timed) -> None:
        """Do not finish this, if its time is not up yet."""
        bucket = self._buckets.get(wait.bucket)
        if bucket is not None and wait in bucket.waits:
            del bucket.waits[wait]
            if not bucket.waits:
                self._take(bucket.at).timer.cancel()

    def _bucket(self, now: float, wait_ms: int) -> _Bucket:
        wait_s = wait_ms / 1000
        share_s = min(wait_s / _SHARES, _LONGEST_SHARE_S)
        at = ((now + wait_s) // share_s + 1) * share_s
        bucket = self._buckets.get(at)
        if bucket is None:
            bucket = self._buckets[at] = _Bucket(at, {}, self._loop.call_at(at, self._time_is_up, at))
        return bucket

    def _take(self, at: float) -> _Bucket:
        self._last_ms = _NOBODY
        return self._buckets.pop(at)

    def _time_is_up(self, at: float) -> None:
        uncounted = [call for wait in self._take(at).waits if (call := wait.finish()) is not None]
        if uncounted:
            self._answered(uncounted)
