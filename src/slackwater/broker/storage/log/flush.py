"""Shared fsync: one call serves all appends that wait for it.

Invariants:
- Without `flush=always` no response waits for a flush. With it, a response waits until a flush that was taken after its
  append has completed.
- A flush has its own file descriptors, so a segment may be closed or deleted while it runs.
- After a failed fsync the kernel may drop the dirty pages and report success the next time. The log therefore rejects
  appends until it is opened again, and is scanned then.

    on the loop     append, append, …     flush = dirty_logs.take()
    in a thread                           flush.run()
    on the loop                           failed = flush.complete(); send the responses
"""

import os
from collections.abc import Callable
from typing import Final, Protocol

_fsync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


class Flushable(Protocol):
    """Something with files to flush: a partition log."""

    def take_dirty(self, *, rolled_only: bool) -> tuple[list[int], int]:
        """Return descriptors of the files written since the last call, and the end offset. The caller closes them."""
        ...

    def flushed(self, up_to: int) -> None:
        """Record that everything before this offset is on disk."""
        ...

    def flush_failed(self, reason: str) -> None:
        """Record that written data may be lost."""
        ...


class Flush:
    """Files to flush together."""

    __slots__ = ("_failed", "_taken")

    def __init__(self, taken: list[tuple[Flushable, list[int], int]]) -> None:
        self._taken = taken
        self._failed: dict[int, str] = {}

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
                log.flush_failed(reason)
            else:
                log.flushed(up_to)
        return [self._taken[number][0] for number in self._failed]


class DirtyLogs:
    """The logs written since the last flush was taken."""

    __slots__ = ("_logs",)

    def __init__(self) -> None:
        self._logs: dict[int, Flushable] = {}

    def mark(self, log: Flushable) -> None:
        """Add a log that was written."""
        self._logs[id(log)] = log

    def take(self, *, rolled_only: bool = False) -> Flush | None:
        """Return the files to flush, or None. `rolled_only` skips active segments, which recovery scans anyway."""
        taken = []
        for log in self._logs.values():
            descriptors, up_to = log.take_dirty(rolled_only=rolled_only)
            if descriptors:
                taken.append((log, descriptors, up_to))
        if not rolled_only:
            self._logs.clear()
        return Flush(taken) if taken else None
