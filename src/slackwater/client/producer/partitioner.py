"""Which partition a record goes to, as Kafka's own producer decides it.

Rules kept here
- A key's partition is murmur2 of its bytes, so that Java, librdkafka (`murmur2_random`) and this producer agree.
- Records without a key stick to one partition until a batch's worth of bytes has gone there, then to another one that
  has a leader (KIP-794): larger batches, and evenly spread in the long run.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, as an unsigned number of 32 bits."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """The partition for records without a key, for each topic."""

    def __init__(self, batch_bytes: int, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self._batch_bytes = batch_bytes
        self._choose = choose
        self._stuck: dict[str, tuple[int, int]] = {}  # the partition, and the bytes that went there

    def partition(self, topic: str, available: Sequence[int], size: int) -> int:
        """Where a record of this size goes; `available` have a leader."""
        stuck = self._stuck.get(topic)
        if stuck is None or stuck[0] not in available or stuck[1] >= self._batch_bytes:
            others = [one for one in available if stuck is None or one != stuck[0]]
            stuck = (self._choose(others or available), 0)
        self._stuck[topic] = (stuck[0], stuck[1] + size)
        return stuck[0]
