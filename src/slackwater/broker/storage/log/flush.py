"""fsync, shared: one call for everybody who waits in the same turn.

Rules kept here
- Acknowledged means written to the operating system; nobody waits for this module then. With `flush=always` an answer
  waits until the flush that was taken after its append has settled.
- A flush holds file descriptors of its own: a segment that is closed or deleted meanwhile disturbs nobody.
- After an fsync that failed, the kernel may have dropped the pages it could not write and report success the next time.
  So the log is told once and for all: it refuses appends until it is opened anew, and is scanned then.

    on the loop     append, append, …     flush = flushes.take()
    in a thread                           flush.run()
    on the loop                           failed = flush.settle(); answer those who waited
"""

import os
from collections.abc import Callable
from typing import Final, Protocol

_fsync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


class Flushable(Protocol):
    """What has files to flush: a partition log."""

    def take_dirty(self, *, rolled_only: bool) -> tuple[list[int], int]:
        """Descriptors, to be closed by the taker, of the files written since the last time; and up to which offset."""
        ...

    def flushed(self, up_to: int) -> None:
        """Everything before this offset is on disk."""
        ...

    def flush_failed(self, why: str) -> None:
        """What was written may be lost."""
        ...


class Flush:
    """The files that were written in one turn."""

    __slots__ = ("_failed", "_taken")

    def __init__(self, taken: list[tuple[Flushable, list[int], int]]) -> None:
        self._taken = taken
        self._failed: dict[int, str] = {}

    def run(self) -> None:
        """Flush them; this blocks, and touches no log."""
        for number, (_, descriptors, _) in enumerate(self._taken):
            for fd in descriptors:
                try:
                    _fsync(fd)
                except OSError as error:
                    self._failed[number] = str(error)
                finally:
                    os.close(fd)

    def settle(self) -> list[Flushable]:
        """Tell the logs; the answer is those whose data may not be on disk."""
        for number, (log, _, up_to) in enumerate(self._taken):
            if why := self._failed.get(number):
                log.flush_failed(why)
            else:
                log.flushed(up_to)
        return [self._taken[number][0] for number in self._failed]


class DirtyLogs:
    """The logs that were written since the last flush was taken."""

    __slots__ = ("_logs",)

    def __init__(self) -> None:
        self._logs: dict[int, Flushable] = {}

    def mark(self, log: Flushable) -> None:
        """A log was written."""
        self._logs[id(log)] = log

    def take(self, *, rolled_only: bool = False) -> Flush | None:
        """What there is to flush, or None. `rolled_only` leaves active segments alone: they are scanned anyway."""
        taken = []
        for log in self._logs.values():
            descriptors, up_to = log.take_dirty(rolled_only=rolled_only)
            if descriptors:
                taken.append((log, descriptors, up_to))
        if not rolled_only:
            self._logs.clear()
        return Flush(taken) if taken else None
