"""Encodes and decodes topic names and partition numbers, many at a time.

Invariants:
- Arrays are decoded element by element, except runs of at least `_MIN_BLOCK_ROWS` elements with the same shape (equal
  name length, equal count of numbers): those are read and written as a matrix. A member of a large group owns one
  partition of each of hundreds of topics, so this is the common case.
- Both ways give the same result; only their speed differs.
- Decoding raises only `MalformedMetadata`.
"""

from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import Final

import numpy as np
import numpy.typing as npt

from slackwater.group.assignors.partitions import NO_PARTITIONS, IntArray, PartitionsByTopic
from slackwater.group.errors import PeerError

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")

_MIN_BLOCK_ROWS: Final = 16  # below that, element by element is faster


class MalformedMetadata(PeerError):
    """Bytes that are not a valid subscription or assignment."""


class OverlongArray(MalformedMetadata):
    """An array length that exceeds the remaining bytes."""


class ConsumerProtocolReader:
    """Reads big-endian fields in order, within bounds."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.at + size
        if end > len(self.data):
            raise MalformedMetadata(f"{len(self.data)} bytes end where {end} were announced")
        chunk = self.data[self.at : end]
        self.at = end
        return chunk

    def int16(self) -> int:
        """A signed 16-bit number."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        """A signed 32-bit number."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def array(self, element_size: int) -> int:
        """The length of an array whose elements take at least `element_size` bytes."""
        length = self.int32()
        if length < 0:
            raise MalformedMetadata(f"array of length {length}")
        if length * element_size > len(self.data) - self.at:
            raise OverlongArray(f"array of {length} elements announced with {len(self.data) - self.at} bytes left")
        return length

    def nullable_string(self) -> str | None:
        """A string, or None if its length is negative."""
        length = self.int16()
        if length < 0:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedMetadata(f"a string is not UTF-8: {error}") from error

    def string(self) -> str:
        """A non-null string."""
        text = self.nullable_string()
        if text is None:
            raise MalformedMetadata("null where a string is required")
        return text

    def nullable_bytes(self) -> bytes | None:
        """Bytes, or None if their length is negative."""
        length = self.int32()
        return None if length < 0 else self.take(length)

    def strings(self) -> tuple[str, ...]:
        """An array of strings."""
        remaining = self.array(2)
        runs: list[tuple[str, ...]] = []
        while remaining:
            start = self.at
            run: tuple[str, ...] = (self.string(),)
            size = self.at - start
            if remaining > _MIN_BLOCK_ROWS:
                block = self._block(start, size, remaining, ((0, 2),))
                run = _split(block[:, 2:].tobytes(), size - 2) or run
                self.at = start + len(run) * size
            runs.append(run)
            remaining -= len(run)
        return _joined(runs)

    def partitions(self) -> PartitionsByTopic:
        """An array of topics, each with an array of partition numbers."""
        remaining = self.array(6)
        if not remaining:
            return NO_PARTITIONS
        runs: list[tuple[str, ...]] = []
        counts: list[int] = []
        numbers: list[bytes] = []
        while remaining:
            start = self.at
            run: tuple[str, ...] = (self.string(),)
            width = self.at - start - 2
            count = self.array(4)
            number_bytes = self.take(4 * count)
            if remaining > _MIN_BLOCK_ROWS:
                size = self.at - start
                block = self._block(start, size, remaining, ((0, 2), (2 + width, 6 + width)))
                names = _split(block[:, 2 : 2 + width].tobytes(), width)
                if names is not None:
                    run, number_bytes = names, block[:, 6 + width :].tobytes()
                    self.at = start + len(run) * size
            runs.append(run)
            counts += [count] * len(run)
            numbers.append(number_bytes)
            remaining -= len(run)
        joined = np.frombuffer(b"".join(numbers), ">i4").astype(np.int64)
        return PartitionsByTopic(_joined(runs), np.array(counts), joined)

    def _block(self, start: int, size: int, rows: int, columns: tuple[tuple[int, int], ...]) -> npt.NDArray[np.uint8]:
        """The rows of `size` bytes from `start` that equal the first row in these columns, as a matrix."""
        data = self.data
        second = start + size
        if any(data[start + a : start + b] != data[second + a : second + b] for a, b in columns):
            rows = 1
        rows = min(rows, (len(data) - start) // size)
        # Check 64 rows first: otherwise bytes with many short blocks would take quadratic time.
        for checked_rows in (min(rows, 64), rows):
            block = np.frombuffer(data, np.uint8, checked_rows * size, start).reshape(checked_rows, size)
            for a, b in columns:
                differs = (block[:, a:b] != block[0, a:b]).any(axis=1)
                if differs.any():
                    block = block[: int(differs.argmax())]
            if len(block) < checked_rows:
                break
        return block


def _joined(runs: list[tuple[str, ...]]) -> tuple[str, ...]:
    # The names of one block are shared between members (`_split`): do not copy them.
    return runs[0] if len(runs) == 1 else tuple([name for run in runs for name in run])


# Members of one group own partitions of the same topics, so the same name bytes repeat.
@lru_cache(maxsize=128)
def _split(names: bytes, width: int) -> tuple[str, ...] | None:
    """Split concatenated names of equal length; None if a byte is not ASCII."""
    if not width or not names.isascii():
        return None
    text = names.decode()
    return tuple([text[at : at + width] for at in range(0, len(text), width)])


def encode_partitions(partitions: PartitionsByTopic) -> bytes:
    """Encode partitions as an array of topics with their numbers."""
    topics = partitions.topics
    numbers = partitions.numbers.astype(">i4").tobytes()
    out = [INT32.pack(len(topics))]
    if len(topics) < _MIN_BLOCK_ROWS:
        _encode_rows([topic.encode() for topic in topics], partitions.counts, numbers, out)
        return b"".join(out)
    names, widths = _encoded(topics)
    counts = partitions.counts
    changes = (widths[1:] != widths[:-1]) | (counts[1:] != counts[:-1])
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(topics)]
    offset = 0
    for start, end in pairwise(edges):
        count = int(counts[start])
        size = 4 * count * (end - start)
        number_bytes = numbers[offset : offset + size]
        offset += size
        if end - start < _MIN_BLOCK_ROWS:
            _encode_rows(names[start:end], counts[start:end], number_bytes, out)
        else:
            out.append(_encode_block(names[start:end], int(widths[start]), count, number_bytes))
    return b"".join(out)


def _encode_rows(names: list[bytes], counts: IntArray, numbers: bytes, out: list[bytes]) -> None:
    end = 0
    for name, count in zip(names, counts.tolist(), strict=True):
        start, end = end, end + 4 * count
        out += (INT16.pack(len(name)), name, INT32.pack(count), numbers[start:end])


def _encode_block(names: list[bytes], width: int, count: int, numbers: bytes) -> bytes:
    rows = len(names)
    block = np.empty((rows, 6 + width + 4 * count), np.uint8)
    block[:, :2] = np.frombuffer(INT16.pack(width), np.uint8)
    block[:, 2 : 2 + width] = np.frombuffer(b"".join(names), np.uint8).reshape(rows, width)
    block[:, 2 + width : 6 + width] = np.frombuffer(INT32.pack(count), np.uint8)
    block[:, 6 + width :] = np.frombuffer(numbers, np.uint8).reshape(rows, 4 * count)
    return block.tobytes()


@lru_cache(maxsize=128)
def _encoded(topics: tuple[str, ...]) -> tuple[list[bytes], IntArray]:
    """The encoded names and their lengths."""
    names = [topic.encode() for topic in topics]
    return names, np.fromiter(map(len, names), np.int64, len(names))
