"""When a write is durable: when the operating system has it, or after an fsync (`flush`).

Invariants:
- With `flush=os` a write is durable at once.
- With `flush=always` a write is durable after an fsync that started after it. One fsync runs at a time, in a thread;
  writes made meanwhile share the next one. Callbacks run in the order of the writes.
- After a failed fsync the log rejects all appends, and the waiting appends fail.
- Without file descriptors for the files to flush, the writes wait until there are some.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from slackwater.broker.slices import RunInThread
from slackwater.broker.storage.log.flush import DirtyLogs, Flush
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.escaping import get_logger

# Called when a write is durable, with the logs whose data may be lost.
OnDurable = Callable[[frozenset[PartitionLog]], None]
RETRY_S: Final = 0.1
log = get_logger("slackwater.broker.storage")


class Durability:
    """Writes that are not yet durable."""

    def __init__(
        self,
        *,
        always: bool,
        in_thread: RunInThread,
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self.dirty_logs = DirtyLogs()
        self._always = always
        self.run_in_thread = in_thread
        self._call_later = call_later
        self._waiting: list[OnDurable] = []
        self._running: list[OnDurable] | None = None
        self._unflushed: set[int] = set()  # logs that the running flush must still flush
        self._failed: frozenset[PartitionLog] = frozenset()  # they reject all appends until the next start
        self._is_retrying = False

    def call_when_durable(self, logs: Iterable[PartitionLog], on_durable: OnDurable) -> None:
        """Call `on_durable` when the data written to these logs is durable, perhaps at once."""
        for written_log in logs:
            self.dirty_logs.mark(written_log)
        if self._always:
            self._waiting.append(on_durable)
        else:
            on_durable(self._failed)

    def flush_pending(self) -> None:
        """Start a flush, unless one is running; its completion starts the next."""
        if self._running is None and self._waiting:
            self._running, self._waiting = self._waiting, []
            self._unflushed = self.dirty_logs.ids()
            self._flush_next()

    def _flush_next(self) -> None:
        """Flush as many logs as there are descriptors for."""
        flush = self.dirty_logs.take()
        self._unflushed &= self.dirty_logs.ids()
        if flush is not None:
            self._is_retrying = False
            self.run_in_thread(flush.run, partial(self._flushed, flush))
        elif self._unflushed:
            if not self._is_retrying:
                log.warning("No file descriptor is left to flush logs (%d); their appends wait.", len(self._unflushed))
            self._is_retrying = True
            self._call_later(RETRY_S, self._flush_next)
        else:
            self._complete()

    def flush_rolled(self) -> None:
        """Flush closed segments, so that recovery does not have to scan them."""
        if not self._always and (flush := self.dirty_logs.take(rolled_only=True)) is not None:
            self.run_in_thread(flush.run, partial(self._report, flush))

    def _flushed(self, flush: Flush) -> None:
        self._report(flush)
        if self._unflushed:
            self._flush_next()
        else:
            self._complete()

    def _report(self, flush: Flush) -> None:
        self._failed |= {failed for failed in flush.complete() if isinstance(failed, PartitionLog)}

    def _complete(self) -> None:
        callbacks, self._running = self._running or [], None
        for on_durable in callbacks:
            on_durable(self._failed)
        self.flush_pending()
