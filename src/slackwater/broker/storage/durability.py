"""When a write counts: when the operating system has it, or when the disk has it (`flush`).

Rules kept here
- With `flush=os` a write counts as soon as it was made.
- With `flush=always` it counts when an fsync that began after it has ended. One runs at a time, in a thread; whoever
  writes meanwhile shares the next one. Outcomes are told in the order of the writes.
- A log whose fsync failed refuses everything from then on, and so do those who waited for it.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from slackwater.broker.storage.log.flush import DirtyLogs, Flush
from slackwater.broker.storage.log.partition_log import PartitionLog

# Told when a write counts, with the logs whose data may be lost.
OnDurable = Callable[[frozenset[PartitionLog]], None]
_NONE: frozenset[PartitionLog] = frozenset()


class RunInThread(Protocol):
    """How work that blocks is done: in a thread; `done` is called afterwards on the loop."""

    def __call__(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        """Begin the work."""
        ...


class Durability:
    """What was written and does not count yet."""

    def __init__(self, *, always: bool, in_thread: RunInThread) -> None:
        self.flushes = DirtyLogs()
        self._always = always
        self._in_thread = in_thread
        self._waiting: list[OnDurable] = []
        self._running: list[OnDurable] | None = None

    def written(self, logs: Iterable[PartitionLog], settled: OnDurable) -> None:
        """These logs were written."""
        for log in logs:
            self.flushes.mark(log)
        if self._always:
            self._waiting.append(settled)
        else:
            settled(_NONE)

    def flush_pending(self) -> None:
        """Begin to flush, unless a flush is under way: then its end begins the next."""
        if self._running is None and self._waiting:
            self._running, self._waiting = self._waiting, []
            flush = self.flushes.take()
            if flush is None:
                self._settle(_NONE)
            else:
                self._in_thread(flush.run, lambda: self._flushed(flush))

    def flush_rolled(self) -> None:
        """Flush the segments that are not written any more, so that a start need not scan them."""
        if not self._always and (flush := self.flushes.take(rolled_only=True)) is not None:
            self._in_thread(flush.run, lambda: self._note(flush))

    def _flushed(self, flush: Flush) -> None:
        self._settle(self._note(flush))

    @staticmethod
    def _note(flush: Flush) -> frozenset[PartitionLog]:
        return frozenset(log for log in flush.settle() if isinstance(log, PartitionLog))

    def _settle(self, failed: frozenset[PartitionLog]) -> None:
        waited, self._running = self._running or [], None
        for settled in waited:
            settled(failed)
        self.flush_pending()
