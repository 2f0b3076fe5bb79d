"""Java's string order and hash order, which decide ties in the Java assignors.

- Strings sort as with `String.compareTo`: by UTF-16 code unit. This differs from Python's order only between
  characters above U+FFFF and characters from U+E000.
- The sticky assignor iterates members in `HashMap` order (SK-02, SK-04): by bucket, with a table that doubles when it
  is three quarters full. Within a bucket Java uses insertion order; this module sorts by id, so that the result does
  not depend on the order of the member list.
- The sticky assignor moves back the first partition in `HashSet` order (SK-10).
"""

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_INITIAL_CAPACITY = 16
_MAX_CACHED_LENGTH = 256


def utf16_key(text: str) -> bytes:
    """Return a sort key for the order of `String.compareTo`."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_as_java(texts: Iterable[str]) -> list[str]:
    """Return the texts in the order of `String.compareTo`."""
    result = list(texts)
    # ASCII texts, the usual case, have the same order in Python.
    result.sort(key=None if all(map(str.isascii, result)) else utf16_key)
    return result


def string_hash(text: str) -> int:
    """Return `String.hashCode` as an unsigned 32-bit number."""
    # Requests of the same groups repeat. Long texts are not cached: a client could fill the memory with them.
    return _cached_hash(text) if len(text) <= _MAX_CACHED_LENGTH else _string_hash(text)


def _string_hash(text: str) -> int:
    import numpy as np  # imported here so that the broker starts without loading numpy

    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16).astype(np.uint32)
    return int(units @ _powers_of_31(len(units)))


_cached_hash = lru_cache(maxsize=16_384)(_string_hash)


def partition_hash(topic_hash: int, partition: int) -> int:
    """Return `TopicPartition.hashCode` for a topic's hash code, as an unsigned 32-bit number."""
    return (31 * (31 + partition) + topic_hash) & 0xFFFF_FFFF


def capacity(size: int) -> int:
    """Return the number of buckets of a `HashMap` or `HashSet` that has held `size` entries."""
    buckets = _INITIAL_CAPACITY
    while size > buckets * 3 // 4:
        buckets *= 2
    return buckets


def bucket(hash_code: int, buckets: int) -> int:
    """Return the bucket of an entry in a table of `buckets` buckets."""
    return (hash_code ^ hash_code >> 16) & buckets - 1


def hash_map_order(keys: Collection[str]) -> list[str]:
    """Return the keys in the iteration order of a `HashMap` that holds exactly these keys."""
    buckets = capacity(len(keys))
    return sorted(sorted_as_java(keys), key=lambda key: bucket(string_hash(key), buckets))


@lru_cache(maxsize=256)
def _powers_of_31(count: int) -> "npt.NDArray[np.uint32]":
    """Return 31^(count-1), …, 31, 1, each modulo 2^32."""
    import numpy as np

    powers = np.full(count, 31, np.uint32)
    powers[:1] = 1
    return np.cumprod(powers, dtype=np.uint32)[::-1]
