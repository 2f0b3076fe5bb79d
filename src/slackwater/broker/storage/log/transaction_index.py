"""The aborted transactions that end in a segment, in Kafka's format (`.txnindex`).

Invariants:
- An entry has 34 bytes: a version (2), producer id, first offset, last offset (the ABORT marker) and the last stable
  offset after the marker (8 each). Last offsets increase from entry to entry.
- The file exists once it has had an entry. An entry that cannot be written stays in memory, and the next write tries
  again.
- A file that is not a valid index raises `DamagedIndex`, and recovery rebuilds it from the log.
"""

import contextlib
import os
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from slackwater.broker.storage.log.files import replace_file, write_at
from slackwater.broker.storage.log.index import DamagedIndex

_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction; `last_stable_offset` is the one after its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index of one segment, in memory and on disk."""

    __slots__ = ("_last_offsets", "_written", "entries", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[AbortedTransaction] = []
        self._last_offsets: list[int] = []
        self._written = 0

    def read(self, base_offset: int, next_offset: int) -> None:
        """Read the file of a segment with these offsets. Raises `DamagedIndex`."""
        data = self.path.read_bytes()
        self._written = -1  # unless the file is valid, `rebuild` replaces it
        if len(data) % _ENTRY.size:
            raise DamagedIndex(f"{self.path}: {len(data)} bytes are not a multiple of {_ENTRY.size}")
        entries = []
        previous = base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            if version != _VERSION or not previous < entry.last_offset < next_offset:
                raise DamagedIndex(f"{self.path}: an entry is damaged or outside the segment")
            previous = entry.last_offset
            entries.append(entry)
        self._set(entries)
        self._written = len(entries)

    def append(self, entry: AbortedTransaction) -> None:
        """Add the entry of an ABORT marker that was written."""
        self.entries.append(entry)
        self._last_offsets.append(entry.last_offset)
        with contextlib.suppress(OSError):  # a full disk must not fail here
            self.write()

    def write(self) -> None:
        """Write the missing entries."""
        if self._written == len(self.entries):
            return
        data = b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self.entries[self._written :])
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            write_at(fd, [data], self._written * _ENTRY.size)
            os.ftruncate(fd, len(self.entries) * _ENTRY.size)
        finally:
            os.close(fd)
        self._written = len(self.entries)

    def rebuild(self, entries: Sequence[AbortedTransaction]) -> None:
        """Replace the content by these entries, if it differs."""
        if list(entries) == self.entries and self._written == len(entries):
            return
        self._set(entries)
        replace_file(self.path, b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries))
        self._written = len(entries)

    def create(self) -> None:
        """Create the file, also without entries."""
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644))

    def since(self, offset: int) -> Iterator[AbortedTransaction]:
        """Iterate over the transactions whose marker is at or after an offset."""
        for index in range(bisect_left(self._last_offsets, offset), len(self.entries)):
            yield self.entries[index]

    def _set(self, entries: Iterable[AbortedTransaction]) -> None:
        self.entries = list(entries)
        self._last_offsets = [entry.last_offset for entry in self.entries]
