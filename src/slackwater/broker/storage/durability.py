"""When a write is durable: when the operating system has it, or after an fsync (`flush`).

Invariants:
- With `flush=os` a write is durable at once.
- With `flush=always` a write is durable after an fsync that started after it. One fsync runs at a time, in a thread;
  writes made meanwhile share the next one. Callbacks run in the order of the writes.
- After a failed fsync the log rejects all appends, and the waiting appends fail.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from slackwater.broker.storage.log.flush import DirtyLogs, Flush
from slackwater.broker.storage.log.partition_log import PartitionLog

# Called when a write is durable, with the logs whose data may be lost.
OnDurable = Callable[[frozenset[PartitionLog]], None]
_NONE: frozenset[PartitionLog] = frozenset()


class RunInThread(Protocol):
    """Runs blocking work in a thread and then calls `done` on the loop."""

    def __call__(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        """Start the work."""
        ...


class Durability:
    """Writes that are not yet durable."""

    def __init__(self, *, always: bool, in_thread: RunInThread) -> None:
        self.dirty_logs = DirtyLogs()
        self._always = always
        self.run_in_thread = in_thread
        self._waiting: list[OnDurable] = []
        self._running: list[OnDurable] | None = None

    def written(self, logs: Iterable[PartitionLog], on_durable: OnDurable) -> None:
        """Add written logs; `on_durable` is called when the write is durable."""
        for log in logs:
            self.dirty_logs.mark(log)
        if self._always:
            self._waiting.append(on_durable)
        else:
            on_durable(_NONE)

    def flush_pending(self) -> None:
        """Start a flush, unless one is running; its completion starts the next."""
        if self._running is None and self._waiting:
            self._running, self._waiting = self._waiting, []
            flush = self.dirty_logs.take()
            if flush is None:
                self._complete(_NONE)
            else:
                self.run_in_thread(flush.run, lambda: self._flushed(flush))

    def flush_rolled(self) -> None:
        """Flush closed segments, so that recovery does not have to scan them."""
        if not self._always and (flush := self.dirty_logs.take(rolled_only=True)) is not None:
            self.run_in_thread(flush.run, lambda: self._report(flush))

    def _flushed(self, flush: Flush) -> None:
        self._complete(self._report(flush))

    @staticmethod
    def _report(flush: Flush) -> frozenset[PartitionLog]:
        return frozenset(log for log in flush.complete() if isinstance(log, PartitionLog))

    def _complete(self, failed: frozenset[PartitionLog]) -> None:
        callbacks, self._running = self._running or [], None
        for on_durable in callbacks:
            on_durable(failed)
        self.flush_pending()
