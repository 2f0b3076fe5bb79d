"""The orders that the Java client gets from its standard library, which decide ties.

Rules kept here
- Text sorts as `String.compareTo` sorts it: by UTF-16 code unit. That differs from Python's order only where
  characters beyond U+FFFF meet characters from U+E000 on.
- A sticky leader walks its members in `HashMap` order when it decides who keeps the odd partition (SK-02, SK-04):
  by bucket, where the table doubles as soon as it is three quarters full. Within a bucket Java has the order of
  arrival; here the id decides, so that the answer does not depend on how the members were listed.
- Of several partitions that may be moved back, Java takes the first in `HashSet` order (SK-10); so do we.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_INITIAL_CAPACITY = 16


def utf16_key(text: str) -> bytes:
    """A key that sorts as Java sorts the text."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_as_java(texts: Iterable[str]) -> list[str]:
    """The texts in the order of `String.compareTo`."""
    found = list(texts)
    # For ASCII the two orders are one, and member ids and topics nearly always are.
    found.sort(key=None if all(map(str.isascii, found)) else utf16_key)
    return found


@lru_cache(maxsize=16_384)  # a coordinator asks for the same groups again and again
def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned 32-bit number."""
    import numpy as np  # here, because a broker imports this file and should start before numpy is loaded

    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16).astype(np.uint32)
    return int(units @ _powers_of_31(len(units)))


def partition_hash(topic_hash: int, partition: int) -> int:
    """`TopicPartition.hashCode`, from its topic's, as an unsigned 32-bit number."""
    return (31 * (31 + partition) + topic_hash) & 0xFFFF_FFFF


def capacity(size: int) -> int:
    """How many buckets a `HashMap` or `HashSet` has once it has held so many entries."""
    buckets = _INITIAL_CAPACITY
    while size > buckets * 3 // 4:
        buckets *= 2
    return buckets


def bucket(hash_code: int, buckets: int) -> int:
    """The bucket of an entry, where there are so many."""
    return (hash_code ^ hash_code >> 16) & buckets - 1


def hash_map_order(keys: Collection[str]) -> list[str]:
    """The keys as a `HashMap` that holds just them gives them out."""
    buckets = capacity(len(keys))
    return sorted(sorted_as_java(keys), key=lambda key: bucket(string_hash(key), buckets))


@lru_cache(maxsize=256)
def _powers_of_31(count: int) -> "npt.NDArray[np.uint32]":
    """31^(count-1), …, 31, 1, each modulo 2^32."""
    import numpy as np

    powers = np.full(count, 31, np.uint32)
    powers[:1] = 1
    return np.cumprod(powers, dtype=np.uint32)[::-1]
