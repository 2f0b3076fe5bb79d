"""File names of a log, and the few ways its files are written.

Rules kept here
- A write is whole or an `OSError`: what the operating system took only in part is tried again for the rest.
- A small file is replaced as a whole, through a rename: a reader sees the old one or the new one.

A segment's files carry its base offset as twenty digits. `.deleted` waits to be removed, `.cleaned` is a compacted
segment that is not finished, `.swap` is a finished one on its way to its place (see `swap`).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slackwater.wire.records.compression import Buffer

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SNAPSHOT: Final = ".snapshot"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"
TEMPORARY: Final = ".tmp"

SEGMENT_SUFFIXES: Final = (OFFSET_INDEX, TIME_INDEX, LOG)
_MAX_BUFFERS: Final = 1024  # Linux takes no more in one call (IOV_MAX).


def file_name(offset: int, suffix: str) -> str:
    """The name of the file with this base offset."""
    return f"{offset:020d}{suffix}"


def offset_in(path: Path) -> int | None:
    """The base offset in a file's name, or None if it is no file of a log."""
    return _offset_in(path.name)


def _offset_in(name: str) -> int | None:
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def with_suffix(directory: Path, suffix: str) -> dict[int, Path]:
    """The files of a log that end like this, by base offset and in its order."""
    found = {
        offset: directory / name
        for name in os.listdir(directory)
        if name.endswith(suffix) and (offset := _offset_in(name)) is not None and name[20:] == suffix
    }
    return dict(sorted(found.items())) if len(found) > 1 else found


def write_at(fd: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write all of the buffers, one behind the other, from `position` on."""
    left = list(buffers[:_MAX_BUFFERS])
    rest = buffers[_MAX_BUFFERS:]
    while left:
        written = os.pwritev(fd, left, position)
        position += written
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = memoryview(left[0])[written:]
    if rest:
        write_at(fd, rest, position)


def replace_file(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Put a file in place as a whole; with `sync`, so that a power cut does not bring the old one back."""
    temporary = path.with_name(path.name + TEMPORARY)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_at(fd, [data], 0)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if sync:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
