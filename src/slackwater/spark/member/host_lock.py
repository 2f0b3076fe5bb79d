"""Locks between the processes of one host: one query per checkpoint, one per group instance id.

Invariants:
- A lock is a file lock (`flock`): the kernel releases it when the process ends, so there are no stale locks. The file
  stays and contains the last holder.
- A restarted query may meet its previous run shutting down, so acquiring waits for a short time.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from slackwater.group.errors import UsageError

HOLDER: Final = "{holder}"
_RETRY_S: Final = 0.05


class HostLock:
    """A lock with a name."""

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        self._path = _directory() / f"{digest}.lock"
        self._file: int | None = None

    def acquire(self, error: str, timeout_s: float) -> None:
        """Acquire the lock, or raise UsageError after the timeout. `{holder}` in `error` is replaced by the holder."""
        deadline = time.monotonic() + timeout_s
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _try_lock(file):
                if time.monotonic() >= deadline:
                    raise UsageError(error.replace(HOLDER, _holder(file)))
                time.sleep(_RETRY_S)
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()}".encode(), 0)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _try_lock(file: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _holder(file: int) -> str:
    return os.pread(file, 100, 0).decode(errors="replace") or "another process"


def _directory() -> Path:
    path = Path(tempfile.gettempdir()) / f"slackwater-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path
