"""File names of a log, and the functions that write its files.

Invariants:
- A write is complete or raises `OSError`; a partial write is continued.
- A small file is replaced through a rename, so that a reader sees the old or the new content.
- The last line of a small text file is a CRC-32C of all lines before it. Files of earlier versions have none.

The files of a segment are named after its base offset, with twenty digits. `.deleted` files wait for removal, a
`.cleaned` segment is not finished, a `.swap` segment is finished and replaces others (see `swap`).
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.crc import crc32c

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"
TEMPORARY: Final = ".tmp"

SEGMENT_SUFFIXES: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, LOG)
_LOG_FILE: Final = re.compile(
    r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot)(\.cleaned|\.swap)?(\.deleted|\.tmp)?"
)
_CHECKSUM: Final = "crc32c "
_MAX_BUFFERS: Final = 1024  # Linux takes no more in one call (IOV_MAX).


def file_name(offset: int, suffix: str) -> str:
    """Return the name of a log file."""
    return f"{offset:020d}{suffix}"


def is_log_file(name: str) -> bool:
    """Whether a log writes files with this name."""
    return _LOG_FILE.fullmatch(name) is not None


def _offset_in(name: str) -> int | None:
    """Return the base offset in a file's name, or None if it is not a log file."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def with_suffix(directory: Path, suffix: str) -> dict[int, Path]:
    """Return the log files with this suffix by base offset, in ascending order."""
    paths = {
        offset: directory / name
        for name in os.listdir(directory)
        if name.endswith(suffix) and (offset := _offset_in(name)) is not None and name[20:] == suffix
    }
    return dict(sorted(paths.items())) if len(paths) > 1 else paths


def write_at(fd: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write all buffers one after the other, starting at `position`."""
    pending = list(buffers[:_MAX_BUFFERS])
    rest = buffers[_MAX_BUFFERS:]
    while pending:
        written = os.pwritev(fd, pending, position)
        position += written
        while pending and written >= len(pending[0]):
            written -= len(pending.pop(0))
        if written:
            pending[0] = memoryview(pending[0])[written:]
    if rest:
        write_at(fd, rest, position)


def replace_file(path: Path, data: bytes, *, sync: bool = False, mode: int = 0o644) -> None:
    """Replace a file atomically; with `sync`, the new content survives a power failure."""
    temporary = path.with_name(path.name + TEMPORARY)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        write_at(fd, [data], 0)
        if sync:
            os.fsync(fd)
    except OSError as error:
        error.filename = str(path)  # calls on a descriptor do not set it
        raise
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if sync:
        sync_directory(path.parent)


def with_checksum(text: str) -> str:
    """Append a line with the CRC-32C of the text."""
    return f"{text}{_CHECKSUM}{crc32c(text.encode()):08x}\n"


def verify_checksum(text: str) -> tuple[str, bool]:
    """Return the text without its checksum, and whether it has one. Raises `ValueError` if the checksum is wrong."""
    at = text.rfind(_CHECKSUM)
    if at < 0:
        return text, False
    if text != with_checksum(text[:at]):
        raise ValueError("the checksum is wrong")
    return text[:at], True


def close_all(descriptors: Iterable[int]) -> None:
    """Close file descriptors."""
    for fd in descriptors:
        os.close(fd)


def sync_directory(directory: Path) -> None:
    """Flush the entries of a directory to disk."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
