"""The state of a file, by which a change is noticed: certificates, keys and users are read again."""

import os
from typing import TypeAlias

FileState: TypeAlias = tuple[int, int, int]


def file_state(path: str | os.PathLike[str]) -> FileState | None:
    """Return inode, size and time of the last change; None if there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
