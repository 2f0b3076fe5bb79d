"""Topic names and partition numbers to bytes and back, many at a time.

Rules kept here
- An array on the wire is read element by element, except where many elements in a row have the same shape (names of
  one length, one count of numbers each): those are one block of equal rows, read and written as a matrix. A member
  of a big group owns one partition of each of hundreds of topics, so that is the common case where size matters.
- The two ways give the same result; only their speed differs.
- Reading stops at what cannot be: `ConsumerProtocolReader` raises `MalformedMetadata` and nothing else.
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

_WORTH_A_BLOCK: Final = 16  # rows; below that element by element is faster


class MalformedMetadata(PeerError):
    """Bytes that are no subscription or assignment."""


class OverlongArray(MalformedMetadata):
    """An array that announces more elements than the bytes that are left could hold."""


class ConsumerProtocolReader:
    """Reads big-endian fields in order, and never past the end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.at + size
        if end > len(self.data):
            raise MalformedMetadata(f"{len(self.data)} bytes end where {end} were announced")
        piece = self.data[self.at : end]
        self.at = end
        return piece

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
        """A string, or None where its length is negative."""
        length = self.int16()
        if length < 0:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedMetadata(f"a string is not UTF-8: {error}") from error

    def string(self) -> str:
        """A string that must be there."""
        text = self.nullable_string()
        if text is None:
            raise MalformedMetadata("null where a string is required")
        return text

    def nullable_bytes(self) -> bytes | None:
        """Bytes, or None where their length is negative."""
        length = self.int32()
        return None if length < 0 else self.take(length)

    def strings(self) -> tuple[str, ...]:
        """An array of strings."""
        left = self.array(2)
        runs: list[tuple[str, ...]] = []
        while left:
            start = self.at
            run: tuple[str, ...] = (self.string(),)
            size = self.at - start
            if left > _WORTH_A_BLOCK:
                block = self._block(start, size, left, ((0, 2),))
                run = _split(block[:, 2:].tobytes(), size - 2) or run
                self.at = start + len(run) * size
            runs.append(run)
            left -= len(run)
        return _joined(runs)

    def partitions(self) -> PartitionsByTopic:
        """An array of topics, each with an array of partition numbers."""
        left = self.array(6)
        if not left:
            return NO_PARTITIONS
        runs: list[tuple[str, ...]] = []
        counts: list[int] = []
        numbers: list[bytes] = []
        while left:
            start = self.at
            run: tuple[str, ...] = (self.string(),)
            width = self.at - start - 2
            count = self.array(4)
            piece = self.take(4 * count)
            if left > _WORTH_A_BLOCK:
                size = self.at - start
                block = self._block(start, size, left, ((0, 2), (2 + width, 6 + width)))
                names = _split(block[:, 2 : 2 + width].tobytes(), width)
                if names is not None:
                    run, piece = names, block[:, 6 + width :].tobytes()
                    self.at = start + len(run) * size
            runs.append(run)
            counts += [count] * len(run)
            numbers.append(piece)
            left -= len(run)
        joined = np.frombuffer(b"".join(numbers), ">i4").astype(np.int64)
        return PartitionsByTopic(_joined(runs), np.array(counts), joined)

    def _block(self, start: int, size: int, rows: int, columns: tuple[tuple[int, int], ...]) -> npt.NDArray[np.uint8]:
        """The rows of `size` bytes from `start` that are in these columns like the first, as a matrix."""
        data = self.data
        second = start + size
        if any(data[start + a : start + b] != data[second + a : second + b] for a, b in columns):
            rows = 1
        rows = min(rows, (len(data) - start) // size)
        # A short look first, so that bytes made of many short blocks do not cost the square of their length.
        for looked_at in (min(rows, 64), rows):
            block = np.frombuffer(data, np.uint8, looked_at * size, start).reshape(looked_at, size)
            for a, b in columns:
                unlike = (block[:, a:b] != block[0, a:b]).any(axis=1)
                if unlike.any():
                    block = block[: int(unlike.argmax())]
            if len(block) < looked_at:
                break
        return block


def _joined(runs: list[tuple[str, ...]]) -> tuple[str, ...]:
    # One block's names are shared between members (`_split`), so they are passed on as they are.
    return runs[0] if len(runs) == 1 else tuple([name for run in runs for name in run])


# Members of one group own partitions of the same topics: what one member's bytes spell, the next one's spell too.
@lru_cache(maxsize=128)
def _split(names: bytes, width: int) -> tuple[str, ...] | None:
    """Names of equal length, run together, as strings; None where a byte is not a character."""
    if not width or not names.isascii():
        return None
    text = names.decode()
    return tuple([text[at : at + width] for at in range(0, len(text), width)])


def encode_partitions(partitions: PartitionsByTopic) -> bytes:
    """Write partitions as an array of topics with their numbers."""
    topics = partitions.topics
    numbers = partitions.numbers.astype(">i4").tobytes()
    out = [INT32.pack(len(topics))]
    if len(topics) < _WORTH_A_BLOCK:
        _encode_rows([topic.encode() for topic in topics], partitions.counts, numbers, out)
        return b"".join(out)
    names, widths = _encoded(topics)
    counts = partitions.counts
    changes = (widths[1:] != widths[:-1]) | (counts[1:] != counts[:-1])
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(topics)]
    done = 0
    for start, end in pairwise(edges):
        count = int(counts[start])
        size = 4 * count * (end - start)
        piece = numbers[done : done + size]
        done += size
        if end - start < _WORTH_A_BLOCK:
            _encode_rows(names[start:end], counts[start:end], piece, out)
        else:
            out.append(_encode_block(names[start:end], int(widths[start]), count, piece))
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
    """The names in bytes, and how many bytes each has."""
    names = [topic.encode() for topic in topics]
    return names, np.fromiter(map(len, names), np.int64, len(names))
