"""The checksum of record batches, CRC-32C.

Rules kept here
- The library is loaded when the first checksum is needed: it reads its own package metadata when it is imported, which
  takes a tenth of a broker's whole start.
"""

from collections.abc import Callable

from slackwater.wire.records.compression import Buffer

_computed: Callable[[Buffer], int] | None = None


def crc32c(data: Buffer) -> int:
    """The checksum of these bytes."""
    global _computed
    if _computed is None:
        from crc32c import crc32c as computed

        _computed = computed
    return _computed(data)
