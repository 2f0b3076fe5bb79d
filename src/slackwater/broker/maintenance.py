"""Periodic work of the broker: retention, compaction, flushing, the lock file, closing of idle connections.

Invariants:
- Nothing blocks the event loop for long: work on whole segments runs in the thread.
- Compaction cleans one log at a time.
- A damaged log is logged once and not cleaned until the next start. After a disk error a log is cleaned in the next
  run. A log that was deleted in the meantime is skipped.
- If another broker takes the lock of the data directory, appends are rejected until the broker is restarted.
"""

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.connection import Connection
from slackwater.broker.storage.log import cleaner
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError

log = get_logger("slackwater.broker.maintenance")
FLUSH_ROLLED_S: Final = 10.0
IDLE_CHECK_S: Final = 5.0
LOCK_CHECK_S: Final = 5.0


class Maintenance:
    """The periodic work of one broker."""

    def __init__(
        self,
        broker: BrokerState,
        connections: set[Connection],
        *,
        after_reading: Callable[[Callable[[], object]], object] = lambda work: work(),
    ) -> None:
        self._broker = broker
        self._connections = connections
        self._after_reading = after_reading
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._cleaning = False
        self._damaged: set[PartitionLog] = set()
        self._deferred: set[PartitionLog] = set()  # until the next run
        self._has_lock_problem = False

    def start(self) -> None:
        """Start the timers."""
        settings = self._broker.settings
        self._every(
            "retention", lambda: settings.number("log.retention.check.interval.ms") / 1000, self.delete_expired_segments
        )
        self._every("flush", lambda: FLUSH_ROLLED_S, self._broker.durability.flush_rolled)
        self._every("cleaner", lambda: max(settings.number("log.cleaner.backoff.ms") / 1000, 0.1), self.compact)
        self._every("lock", lambda: LOCK_CHECK_S, self.check_lock)
        self._every(
            "idle",
            lambda: min(IDLE_CHECK_S, settings.number("connections.max.idle.ms") / 2000),
            lambda: self._after_reading(self.close_idle),
        )

    def stop(self) -> None:
        """Stop the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def delete_expired_segments(self) -> None:
        """Delete expired segments."""
        now_ms = self._broker.clock.now_ms()
        for partition_log in self._logs():
            deleted = partition_log.delete_expired_segments(now_ms)
            if deleted:
                log.info("Deleted segments %s of %s.", deleted, partition_log.directory.name)

    def compact(self) -> None:
        """Clean the logs that need it, one after another."""
        self._deferred.clear()
        self._compact_next()

    def _compact_next(self) -> None:
        if self._cleaning or not self._broker.settings.flag("log.cleaner.enable"):
            return
        now_ms = self._broker.clock.now_ms()
        for partition_log in self._logs():
            partition_log.remove_deleted_files(now_ms)
            if partition_log in self._damaged or partition_log in self._deferred:
                continue
            plan = cleaner.plan(partition_log, now_ms)
            if plan is not None:
                self._clean(partition_log, plan)
                return

    def close_idle(self) -> None:
        """Close connections that were idle for too long, or that do not read their responses."""
        limit = monotonic() - self._broker.settings.number("connections.max.idle.ms") / 1000
        for connection in [each for each in self._connections if each.last_received_at < limit]:
            if connection.is_write_blocked or not connection.pending_requests:
                connection.abort()

    def check_lock(self) -> None:
        """Restore a removed lock file. If another broker has the lock, reject all appends: both would write."""
        try:
            if (event := self._broker.directory.restore_lock()) is not None:
                log.warning("%s", event)
            self._has_lock_problem = False
        except UsageError as error:
            self._log_lock_problem(error)
            for partition_log in self._logs():
                partition_log.reject_appends(str(error))
        except OSError as error:
            self._log_lock_problem(error)

    def _log_lock_problem(self, error: Exception) -> None:
        if not self._has_lock_problem:
            log.error("The lock file was removed while the broker was running and cannot be restored: %s", error)
        self._has_lock_problem = True

    def _clean(self, partition_log: PartitionLog, plan: cleaner.CleaningPlan) -> None:
        outcome: list[cleaner.CleaningResult | Exception] = []

        def work() -> None:
            try:
                outcome.append(cleaner.clean(plan))
            except Exception as error:
                outcome.append(error)

        def done() -> None:
            self._cleaning = False
            (cleaned,) = outcome
            if self._timers:
                self._cleaned(partition_log, cleaned)
                self._compact_next()

        self._cleaning = True
        self._broker.in_thread(work, done)

    def _cleaned(self, partition_log: PartitionLog, cleaned: cleaner.CleaningResult | Exception) -> None:
        """Install the cleaned segments, unless the log was deleted or cleaning failed."""
        name = partition_log.directory.name
        if partition_log not in set(self._logs()):
            # A new log may use the same directory, so the cleaned segments must not be installed.
            if isinstance(cleaned, cleaner.CleaningResult):
                cleaner.discard(cleaned)
            return
        try:
            if isinstance(cleaned, Exception):
                raise cleaned
            if cleaner.install(partition_log, cleaned, self._broker.clock.now_ms()):
                log.info("Compacted %s up to offset %d.", name, cleaned.clean_up_to)
            else:
                self._deferred.add(partition_log)
        except OSError as error:
            self._deferred.add(partition_log)
            log.warning("%s was not compacted: %s.", name, error.strerror or error)
        except Exception as error:
            self._damaged.add(partition_log)
            log.warning("%s is no longer compacted: %s", name, error)

    def _logs(self) -> Iterator[PartitionLog]:
        for topic in list(self._broker.topics):
            for partition in topic.partitions:
                yield partition.log

    def _every(self, name: str, seconds: Callable[[], float], work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("The %s work failed.", name)
            self._timers[name] = self._broker.loop.call_later(seconds(), run)

        self._timers[name] = self._broker.loop.call_later(seconds(), run)
