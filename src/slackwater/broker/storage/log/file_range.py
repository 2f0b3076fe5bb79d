"""A part of a file that is sent or read later, so that a large response needs no memory for its records.

Invariants:
- The file stays open as long as a range refers to it, also after its segment is closed, replaced or deleted.
- A range becomes shorter from its start as it is read or sent.
"""

import errno
import os
from typing import Final

MIN_RANGE_BYTES: Final = 64 * 1024
"""Fewer bytes are read immediately, because one call reads all records of a response."""


class OpenFile:
    """A file descriptor that is closed when no object refers to it any longer."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class FileRange:
    """The bytes of a file from a position on."""

    __slots__ = ("_file", "_position", "_size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self._file = file
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self, max_bytes: int) -> bytes:
        """Read the next bytes; less than `max_bytes` only at the end."""
        data = os.pread(self._file.fd, min(max_bytes, self._size), self._position)
        self._advance(len(data))
        return data

    def send(self, socket_fd: int, max_bytes: int) -> int:
        """Send the next bytes to a socket without a copy; return how many. Raises BlockingIOError if it is full."""
        sent = os.sendfile(socket_fd, self._file.fd, self._position, min(max_bytes, self._size))
        self._advance(sent)
        return sent

    def _advance(self, size: int) -> None:
        if not size:
            raise OSError(errno.EIO, f"the file ends at byte {self._position}, before the end of its records")
        self._position += size
        self._size -= size
