"""The checksum of record batches, CRC-32C."""

from collections.abc import Callable

from slackwater.wire.records.compression import Buffer

_function: Callable[[Buffer], int] | None = None


def crc32c(data: Buffer) -> int:
    """Compute the checksum."""
    global _function
    if _function is None:
        # Imported late: the library reads its package metadata, which takes a tenth of a broker's start.
        from crc32c import crc32c as library_function

        _function = library_function
    return _function(data)
