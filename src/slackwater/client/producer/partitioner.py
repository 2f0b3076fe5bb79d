"""Chooses the partition of a record, as the Java producer does.

Invariants:
- A key's partition is murmur2 of its bytes: Java, librdkafka (`murmur2_random`) and this producer agree.
- Records without a key stick to one partition for `batch.size` bytes, then move to another one with a leader (KIP-794).
"""

import random
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_MAX_CACHED_KEYS: Final = 10_000
_MAX_CACHED_KEY_BYTES: Final = 64


@cache
def _words(count: int) -> Struct:
    return Struct(f"<{count}I")


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 hash, an unsigned 32-bit integer."""
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
    """Return the partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class KeyPartitioner:
    """Maps the keys of a topic to partitions; recent keys are cached."""

    def __init__(self, partitions: int) -> None:
        self._count = partitions
        self._cache: dict[bytes, int] = {}

    def partition(self, key: bytes) -> int:
        """Return the partition of a record with this key."""
        cache = self._cache
        partition = cache.get(key)
        if partition is None:
            partition = (murmur2(key) & 0x7FFFFFFF) % self._count
            if len(key) <= _MAX_CACHED_KEY_BYTES:
                if len(cache) >= _MAX_CACHED_KEYS:
                    cache.clear()
                cache[key] = partition
        return partition


class StickyPartitioner:
    """Chooses partitions for records without a key."""

    def __init__(
        self, available: Sequence[int], batch_bytes: int, choose: Callable[[Sequence[int]], int] = random.choice
    ) -> None:
        """`available` are the partitions with a leader."""
        self._available = available
        self._batch_bytes = batch_bytes
        self._choose = choose
        self._current = choose(available)
        self._bytes = 0  # sent to the current partition

    def partition(self, size: int) -> int:
        """Return the partition of a record of this size."""
        if self._bytes >= self._batch_bytes:
            others = [partition for partition in self._available if partition != self._current]
            self._current, self._bytes = self._choose(others or self._available), 0
        self._bytes += size
        return self._current
