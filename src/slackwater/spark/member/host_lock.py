"""Things of which one process of this host may have only one at a time: a checkpoint, a name in a group.

Rules kept here
- A lock is a file that the kernel keeps locked for a process, and lets go of with it, however it ends: there is nothing
  stale to clean up. The file itself stays; it says who had it last.
- A query that is started again may meet its own last run on its way out: whoever finds a lock taken waits a little.
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
_LOOK_AGAIN_S: Final = 0.05


class HostLock:
    """One lock, by its name."""

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        self._path = _directory() / f"{digest}.lock"
        self._file: int | None = None

    def take(self, refusal: str, wait_s: float) -> None:
        """Take it, or refuse after a while; `{holder}` in the refusal says who has it."""
        deadline = time.monotonic() + wait_s
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _locked(file):
                if time.monotonic() >= deadline:
                    raise UsageError(refusal.replace(HOLDER, _holder(file)))
                time.sleep(_LOOK_AGAIN_S)
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()}".encode(), 0)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Let it go."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _locked(file: int) -> bool:
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
