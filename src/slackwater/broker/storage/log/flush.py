"""Shared fsync: one call serves all appends that wait for it.

Invariants:
- Without `flush=always` no response waits for a flush. With it, a response waits until a flush that was taken after its
  append has completed.
- A flush has its own file descriptors, so a segment may be closed or deleted while it runs. If the process has none
  left, the logs stay dirty for the next flush.
- After a failed fsync the kernel may drop the dirty pages and report success the next time. The log therefore rejects
  appends until it is opened again, and is scanned then.

    on the loop     append, append, …     flush = dirty_logs.take()
    in a thread                           flush.run()
    on the loop                           failed = flush.complete(); send the responses
"""

import errno
import os
from collections.abc import Callable
from typing import Final, Protocol

# The process or the system has no descriptor or memory left, now; later there may be some.
_TEMPORARY_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_fsync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


class Flushable(Protocol):
    """Something with files to flush: a partition log."""

    def take_dirty(self, *, rolled_only: bool) -> tuple[list[int], int]:
        """Return descriptors of the files written since the last call, and the end offset. The caller closes them.

        After an OSError a later call returns the same files.
        """
        ...

    def record_flushed(self, up_to: int) -> None:
        """Record that everything before this offset is on disk."""
        ...

    def record_flush_failure(self, reason: str) -> None:
        """Record that written data may be lost."""
        ...


class Flush:
    """Files to flush together. `failed` has the errors of logs whose files cannot be opened, by position in `taken`."""

    __slots__ = ("_failed", "_taken")

    def __init__(self, taken: list[tuple[Flushable, list[int], int]], failed: dict[int, str]) -> None:
        self._taken = taken
        self._failed = failed

    def run(self) -> None:
        """Flush the files. Blocks; does not access the logs."""
        for number, (_, descriptors, _) in enumerate(self._taken):
            for fd in descriptors:
                try:
                    _fsync(fd)
                except OSError as error:
                    self._failed[number] = str(error)
                finally:
                    os.close(fd)

    def complete(self) -> list[Flushable]:
        """Report the outcome to the logs, and return those whose data may not be on disk."""
        for number, (log, _, up_to) in enumerate(self._taken):
            if reason := self._failed.get(number):
                log.record_flush_failure(reason)
            else:
                log.record_flushed(up_to)
        return [self._taken[number][0] for number in self._failed]


class DirtyLogs:
    """The logs written since the last flush was taken."""

    __slots__ = ("_logs",)

    def __init__(self) -> None:
        self._logs: dict[int, Flushable] = {}

    def mark(self, log: Flushable) -> None:
        """Add a log that was written."""
        self._logs[id(log)] = log

    def ids(self) -> set[int]:
        """Return the ids of the logs."""
        return set(self._logs)

    def take(self, *, rolled_only: bool = False) -> Flush | None:
        """Return the files to flush, or None. `rolled_only` skips active segments, which recovery scans anyway.

        Logs for which there are no descriptors left stay dirty.
        """
        taken: list[tuple[Flushable, list[int], int]] = []
        failed: dict[int, str] = {}
        for key, log in list(self._logs.items()):
            descriptors: list[int] = []
            up_to = 0
            try:
                descriptors, up_to = log.take_dirty(rolled_only=rolled_only)
            except OSError as error:
                if error.errno in _TEMPORARY_ERRORS:
                    break
                failed[len(taken)] = str(error)
            if descriptors or len(taken) in failed:
                taken.append((log, descriptors, up_to))
            if not rolled_only:
                del self._logs[key]
        return Flush(taken, failed) if taken else None
