"""Random ids in the form of RFC 4122, many at a time.

Rules kept here
- The bits are the system's random ones, as in `uuid.uuid4`, which takes several times as long: they are fetched for
  many ids at once, and none is used twice, also where several brokers in threads of one process take them.
"""

import os
from collections import deque
from typing import Final

_UUID_BYTES: Final = 16
_AT_ONCE: Final = 64
_VARIANT: Final = {f"{digit:x}": f"{digit & 0b0011 | 0b1000:x}" for digit in range(16)}

_bits: Final[deque[bytes]] = deque()


def random_uuid() -> str:
    """A new one, such as 0b5e3f0e-4c37-4d3c-9f0a-1f0f5b0e6a52."""
    try:
        bits = _bits.pop()
    except IndexError:
        bits = _fetch()
    text = bits.hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"


def _fetch() -> bytes:
    """Bits for one id now, and for some more."""
    fetched = os.urandom(_UUID_BYTES * _AT_ONCE)
    _bits.extend([fetched[at : at + _UUID_BYTES] for at in range(_UUID_BYTES, len(fetched), _UUID_BYTES)])
    return fetched[:_UUID_BYTES]
