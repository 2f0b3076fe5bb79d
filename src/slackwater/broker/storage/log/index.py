"""The two sparse indexes beside a segment, in Kafka's formats.

Rules kept here
- Offset index: eight bytes an entry, an offset relative to the segment's base and a position in the file; the offset is
  the *last* one of the batch that begins at the position. Both grow from entry to entry.
- Time index: twelve bytes an entry, a timestamp and a relative offset: no batch up to that offset has a newer
  timestamp. Both grow.
- An index is a hint that can be made anew. It is held in memory and written behind the segment, at the latest when the
  segment is rolled or closed; an active segment is scanned at every start, and its indexes come out of that scan.
- A file that cannot be an index of its segment raises `DamagedIndex`, and the segment builds it anew.
"""

import os
import struct
import sys
from array import array
from bisect import bisect_right
from pathlib import Path
from typing import Final

from slackwater.broker.storage.log.files import write_at
from slackwater.wire.records.batch import NO_TIMESTAMP

# Entries that are not yet in the file, at most: a system call per entry would double what a large append costs.
_WRITE_BEHIND: Final = 64


class DamagedIndex(Exception):
    """The bytes of a file are no index of its segment."""


class _Index:
    """What both indexes do alike: entries in two arrays, written behind."""

    __slots__ = ("_written", "keys", "path", "values")

    entry: struct.Struct

    def __init__(self, path: Path, keys: "array[int]", values: "array[int]") -> None:
        self.path = path
        self.keys = keys
        self.values = values
        self._written = len(keys)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def behind(self) -> bool:
        """Whether so many entries wait that they should be written."""
        return len(self.keys) - self._written >= _WRITE_BEHIND

    def add(self, key: int, value: int) -> None:
        """Take an entry, whose key is larger than all before it."""
        self.keys.append(key)
        self.values.append(value)

    def write(self) -> None:
        """Write the entries that wait, and cut off what may hang over."""
        pack = self.entry.pack
        waiting = b"".join(map(pack, self.keys[self._written :], self.values[self._written :]))
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            write_at(fd, [waiting], self._written * self.entry.size)
            os.ftruncate(fd, len(self.keys) * self.entry.size)
        finally:
            os.close(fd)
        self._written = len(self.keys)


class OffsetIndex(_Index):
    """From an offset to a position at or before its batch. Keys are relative offsets, values positions."""

    __slots__ = ()
    entry = struct.Struct(">ii")

    def __init__(self, path: Path) -> None:
        super().__init__(path, array("i"), array("i"))

    @classmethod
    def read(cls, path: Path, log_bytes: int) -> "OffsetIndex":
        """The index in a file, if it can be that of a segment of so many bytes."""
        data = _read_entries(path, cls.entry.size)
        both = array("i", data)
        if sys.byteorder == "little":
            both.byteswap()
        index = cls(path)
        index.keys, index.values = both[::2], both[1::2]
        index._written = len(index.keys)
        _check_growing(path, index.keys)
        _check_growing(path, index.values)
        if index.keys and (index.keys[0] < 0 or index.values[0] < 0 or index.values[-1] >= log_bytes):
            raise DamagedIndex(f"{path}: entries point outside of a segment of {log_bytes} bytes")
        return index

    @classmethod
    def check_end(cls, path: Path, log_bytes: int) -> None:
        """Raise if the last entry shows already that this is no index of a segment of so many bytes."""
        relative_offset, position = _read_last(path, cls.entry, (0, -1))
        if relative_offset < 0 or position >= log_bytes:
            raise DamagedIndex(f"{path}: its last entry points outside of a segment of {log_bytes} bytes")

    def position(self, relative_offset: int) -> int:
        """Where to begin looking for an offset."""
        at = bisect_right(self.keys, relative_offset)
        return self.values[at - 1] if at else 0

    def batch_start_before(self, position: int) -> int:
        """A position at or before this one where a batch begins."""
        at = bisect_right(self.values, position)
        return self.values[at - 1] if at else 0


class TimeIndex(_Index):
    """From a timestamp to the last batch before a newer one. Keys are timestamps, values relative offsets."""

    __slots__ = ()
    entry = struct.Struct(">qi")

    def __init__(self, path: Path) -> None:
        super().__init__(path, array("q"), array("i"))

    @classmethod
    def read(cls, path: Path) -> "TimeIndex":
        """The index in a file."""
        index = cls(path)
        for timestamp, relative_offset in cls.entry.iter_unpack(_read_entries(path, cls.entry.size)):
            index.add(timestamp, relative_offset)
        index._written = len(index.keys)
        _check_growing(path, index.keys)
        _check_growing(path, index.values)
        if index.keys and (index.keys[0] < 0 or index.values[0] < 0):
            raise DamagedIndex(f"{path}: an entry is negative")
        return index

    @classmethod
    def read_last(cls, path: Path) -> tuple[int, int]:
        """The last entry in a file; -1 and 0 if there is none."""
        timestamp, relative_offset = _read_last(path, cls.entry, (NO_TIMESTAMP, 0))
        if timestamp < NO_TIMESTAMP or relative_offset < 0:
            raise DamagedIndex(f"{path}: its last entry is negative")
        return timestamp, relative_offset

    @property
    def last(self) -> tuple[int, int]:
        """The newest timestamp and the relative offset of its batch; -1 and 0 if there is none."""
        return (self.keys[-1], self.values[-1]) if self.keys else (NO_TIMESTAMP, 0)

    def add_newer(self, timestamp: int, relative_offset: int) -> None:
        """Take an entry if it is newer than the last."""
        if timestamp > self.last[0]:
            self.add(timestamp, relative_offset)

    def relative_offset(self, timestamp: int) -> int:
        """The last offset that is surely not newer than `timestamp`, or that of the first batch that has it."""
        at = bisect_right(self.keys, timestamp)
        return self.values[at - 1] if at else 0


def _read_entries(path: Path, entry_bytes: int) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedIndex(f"{path}: there is none") from None
    if len(data) % entry_bytes:
        raise DamagedIndex(f"{path}: {len(data)} bytes are no multiple of {entry_bytes}")
    return data


def _read_last(path: Path, entry: struct.Struct, none: tuple[int, int]) -> tuple[int, int]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size % entry.size:
                raise DamagedIndex(f"{path}: {size} bytes are no multiple of {entry.size}")
            if not size:
                return none
            file.seek(size - entry.size)
            key, value = entry.unpack(file.read(entry.size))
            return key, value
    except FileNotFoundError:
        raise DamagedIndex(f"{path}: there is none") from None


def _check_growing(path: Path, entries: "array[int]") -> None:
    if any(map(int.__ge__, entries, entries[1:])):
        raise DamagedIndex(f"{path}: entries are out of order")
