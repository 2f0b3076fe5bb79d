"""Which partition a record goes to, as Kafka's own producer decides it.

Rules kept here
- A key's partition is murmur2 of its bytes, so that Java, librdkafka (`murmur2_random`) and this producer agree.
- Records without a key stick to one partition until a batch's worth of bytes has gone there, then to another one that
  has a leader (KIP-794): larger batches, and evenly spread in the long run.
"""

import random
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_REMEMBERED_KEYS: Final = 10_000
_REMEMBERED_BYTES: Final = 64


@cache
def _words(count: int) -> Struct:
    return Struct(f"<{count}I")


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, as an unsigned number of 32 bits."""
    length = len(data)
    h = _SEED ^ length
    for k in _words(length >> 2).unpack_from(data):
        k = k * _M & _MASK
        h = h * _M & _MASK ^ (k ^ k >> 24) * _M & _MASK
    if length & 3:
        h = (h ^ int.from_bytes(data[length & ~3 :], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class KeyPartitioner:
    """The partitions of a topic's keys; those of keys that came lately are remembered."""

    def __init__(self, partitions: int) -> None:
        self._count = partitions
        self._known: dict[bytes, int] = {}

    def partition(self, key: bytes) -> int:
        """Where a record with this key goes."""
        known = self._known
        found = known.get(key)
        if found is None:
            found = (murmur2(key) & 0x7FFFFFFF) % self._count
            if len(key) <= _REMEMBERED_BYTES:
                if len(known) >= _REMEMBERED_KEYS:
                    known.clear()
                known[key] = found
        return found


class StickyPartitioner:
    """The partition for a topic's records without a key."""

    def __init__(
        self, available: Sequence[int], batch_bytes: int, choose: Callable[[Sequence[int]], int] = random.choice
    ) -> None:
        """`available` have a leader."""
        self._available = available
        self._batch_bytes = batch_bytes
        self._choose = choose
        self._stuck = choose(available)
        self._bytes = 0  # that went there

    def partition(self, size: int) -> int:
        """Where a record of this size goes."""
        if self._bytes >= self._batch_bytes:
            others = [one for one in self._available if one != self._stuck]
            self._stuck, self._bytes = self._choose(others or self._available), 0
        self._bytes += size
        return self._stuck
