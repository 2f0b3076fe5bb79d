"""Locks between the processes of one host: one query per checkpoint, one per group instance id.

Invariants:
- A lock is a file lock (`flock`): the kernel releases it when the process ends, so there are no stale locks. The file
  stays and contains the last holder.
- A restarted query may meet its previous run shutting down, so acquiring waits for a short time.
- The directory is in the shared temporary directory, where other users can create files. It and the lock files must
  belong to this user and be writable only by it; symbolic links are not followed.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from slackwater.group.errors import UsageError

HOLDER: Final = "{holder}"
_RETRY_S: Final = 0.05
_ADVICE: Final = "Remove it, or set TMPDIR to a directory of your own."


class HostLock:
    """A lock with a name."""

    def __init__(self, name: str) -> None:
        self._name = f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
        self._file: int | None = None

    def acquire(self, error: str, timeout_s: float) -> None:
        """Acquire the lock, or raise UsageError after the timeout. `{holder}` in `error` is replaced by the holder."""
        deadline = time.monotonic() + timeout_s
        file = _open(self._name)
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


def _open(name: str) -> int:
    """Open a lock file; raise UsageError if another user could have created or changed it."""
    directory = Path(tempfile.gettempdir()) / f"slackwater-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    parent = _open_checked(directory, os.O_RDONLY | os.O_DIRECTORY, stat.S_ISDIR)
    try:
        return _open_checked(directory / name, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, stat.S_ISREG, parent)
    finally:
        os.close(parent)


def _open_checked(path: Path, flags: int, is_type: Callable[[int], bool], parent: int | None = None) -> int:
    try:
        file = os.open(
            path if parent is None else path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent
        )
    except OSError as error:
        raise UsageError(f"{path} cannot be opened for locks: {error.strerror}. {_ADVICE}") from error
    status = os.fstat(file)
    if status.st_uid != os.getuid():
        problem = f"belongs to user {status.st_uid}, not to user {os.getuid()}"
    elif not is_type(status.st_mode):
        problem = "is not a directory" if parent is None else "is not a regular file"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"is writable by other users (mode {stat.S_IMODE(status.st_mode):04o})"
    else:
        return file
    os.close(file)
    raise UsageError(f"{path} {problem}, so it cannot be used for locks. {_ADVICE}")
