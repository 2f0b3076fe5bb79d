"""The two sparse indexes of a segment, in Kafka's formats.

Invariants:
- Offset index: entries of eight bytes, an offset relative to the segment's base and a position in the file. The offset
  is the *last* one of the batch at that position. Both columns increase strictly.
- Time index: entries of twelve bytes, a timestamp and a relative offset. No batch up to that offset has a newer
  timestamp. Both columns increase strictly.
- An index can always be rebuilt. It is held in memory and written later than the segment, at the latest when the
  segment is rolled or closed. The active segment is scanned at every start, which rebuilds its indexes.
- A file that is not a valid index of its segment raises `DamagedIndex`, and the segment rebuilds it.
"""

import os
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final

from slackwater.broker.storage.log.files import write_at
from slackwater.wire.records.batch import NO_TIMESTAMP

# Entries that may be missing in the file; a system call per entry would double the cost of a large append.
_MAX_UNWRITTEN: Final = 64


class DamagedIndex(Exception):
    """A file is not a valid index of its segment."""


class _Index:
    """Base of both indexes: entries in two arrays, written to the file later."""

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
    def should_write(self) -> bool:
        """Whether enough entries are missing in the file to write them."""
        return len(self.keys) - self._written >= _MAX_UNWRITTEN

    def add(self, key: int, value: int) -> None:
        """Add an entry; its key must be larger than all others."""
        self.keys.append(key)
        self.values.append(value)

    def write(self) -> None:
        """Write the missing entries, and truncate the file behind them."""
        pack = self.entry.pack
        data = b"".join(map(pack, self.keys[self._written :], self.values[self._written :]))
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            write_at(fd, [data], self._written * self.entry.size)
            os.ftruncate(fd, len(self.keys) * self.entry.size)
        finally:
            os.close(fd)
        self._written = len(self.keys)


class OffsetIndex(_Index):
    """Maps an offset to a position at or before its batch. Keys are relative offsets, values positions."""

    __slots__ = ()
    entry = struct.Struct(">ii")

    def __init__(self, path: Path) -> None:
        super().__init__(path, array("i"), array("i"))

    @classmethod
    def read(cls, path: Path, log_bytes: int) -> "OffsetIndex":
        """Read the index of a segment that has `log_bytes` bytes."""
        data = _read_entries(path, cls.entry.size)
        both = array("i", data)
        if sys.byteorder == "little":
            both.byteswap()
        index = cls(path)
        index.keys, index.values = both[::2], both[1::2]
        index._written = len(index.keys)
        _check_increasing(path, index.keys)
        _check_increasing(path, index.values)
        if index.keys and (index.keys[0] < 0 or index.values[0] < 0 or index.values[-1] >= log_bytes):
            raise DamagedIndex(f"{path}: entries point outside the segment of {log_bytes} bytes")
        return index

    @classmethod
    def read_last_position(cls, path: Path, log_bytes: int) -> int:
        """Return the position in the last entry; 0 if there is none.

        Raises `DamagedIndex` if the entry does not fit a segment of `log_bytes` bytes.
        """
        relative_offset, position = _read_last(path, cls.entry, (0, 0))
        if relative_offset < 0 or not 0 <= position <= max(log_bytes - 1, 0):
            raise DamagedIndex(f"{path}: the last entry points outside the segment of {log_bytes} bytes")
        return position

    def position(self, relative_offset: int) -> int:
        """Return the position where the search for an offset starts."""
        index = bisect_right(self.keys, relative_offset)
        return self.values[index - 1] if index else 0

    def batch_start_before(self, position: int) -> int:
        """Return a batch start at or before this position."""
        index = bisect_right(self.values, position)
        return self.values[index - 1] if index else 0

    def first_offset_from(self, position: int) -> int | None:
        """Return the relative offset of the first entry at or after a position, or None."""
        index = bisect_left(self.values, position)
        return self.keys[index] if index < len(self.keys) else None


class TimeIndex(_Index):
    """Maps a timestamp to the last batch before a newer one. Keys are timestamps, values relative offsets."""

    __slots__ = ()
    entry = struct.Struct(">qi")

    def __init__(self, path: Path) -> None:
        super().__init__(path, array("q"), array("i"))

    @classmethod
    def read(cls, path: Path) -> "TimeIndex":
        """Read an index file."""
        index = cls(path)
        for timestamp, relative_offset in cls.entry.iter_unpack(_read_entries(path, cls.entry.size)):
            index.add(timestamp, relative_offset)
        index._written = len(index.keys)
        _check_increasing(path, index.keys)
        _check_increasing(path, index.values)
        if index.keys and (index.keys[0] < 0 or index.values[0] < 0):
            raise DamagedIndex(f"{path}: an entry is negative")
        return index

    @classmethod
    def read_last(cls, path: Path) -> tuple[int, int]:
        """Read the last entry of a file; -1 and 0 if it is empty."""
        timestamp, relative_offset = _read_last(path, cls.entry, (NO_TIMESTAMP, 0))
        if timestamp < NO_TIMESTAMP or relative_offset < 0:
            raise DamagedIndex(f"{path}: the last entry is negative")
        return timestamp, relative_offset

    @property
    def last(self) -> tuple[int, int]:
        """The newest timestamp and the relative offset of its batch; -1 and 0 if the index is empty."""
        return (self.keys[-1], self.values[-1]) if self.keys else (NO_TIMESTAMP, 0)

    def add_newer(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry if it is newer than the last."""
        if timestamp > self.last[0]:
            self.add(timestamp, relative_offset)

    def relative_offset(self, timestamp: int) -> int:
        """Return an offset before which no batch is newer than `timestamp`."""
        index = bisect_right(self.keys, timestamp)
        return self.values[index - 1] if index else 0


def _read_entries(path: Path, entry_bytes: int) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedIndex(f"{path}: the file does not exist") from None
    if len(data) % entry_bytes:
        raise DamagedIndex(f"{path}: {len(data)} bytes are not a multiple of {entry_bytes}")
    return data


def _read_last(path: Path, entry: struct.Struct, default: tuple[int, int]) -> tuple[int, int]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size % entry.size:
                raise DamagedIndex(f"{path}: {size} bytes are not a multiple of {entry.size}")
            if not size:
                return default
            file.seek(size - entry.size)
            key, value = entry.unpack(file.read(entry.size))
            return key, value
    except FileNotFoundError:
        raise DamagedIndex(f"{path}: the file does not exist") from None


def _check_increasing(path: Path, entries: "array[int]") -> None:
    if any(map(int.__ge__, entries, entries[1:])):
        raise DamagedIndex(f"{path}: entries are not in order")
