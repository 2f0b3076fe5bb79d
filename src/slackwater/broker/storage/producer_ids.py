"""Allocation of producer ids; no id is assigned twice.

Invariants:
- Ids are reserved in blocks of a thousand, as in Kafka. The end of a block is on disk before its first id is used, so a
  killed broker continues after the block. The unused ids of the block are lost.
- If the file cannot be read or its checksum is wrong, the broker does not start: a guess could assign an id twice.
"""

from pathlib import Path
from typing import Final

from slackwater.broker.storage.log.files import replace_file, verify_checksum, with_checksum
from slackwater.group.errors import UsageError

FILE: Final = "producer-ids"
BLOCK: Final = 1000
RESERVE_FAILED: Final = (
    "Cannot reserve producer ids: %s. Producers retry. Check the free space and the permissions of the data directory."
)
"""The log line for an error of `ProducerIds.allocate`."""


class ProducerIds:
    """Allocates producer ids."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._next = self._end = _read(self._path)

    def allocate(self) -> int:
        """Return an unused id. Raises OSError if a new block cannot be reserved."""
        if self._next == self._end:
            replace_file(self._path, with_checksum(f"{self._end + BLOCK}\n").encode(), sync=True)
            self._end += BLOCK
        producer_id = self._next
        self._next += 1
        return producer_id


def _read(path: Path) -> int:
    try:
        text = verify_checksum(path.read_text(encoding="ascii"))[0].strip()
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        text = ""
    if not text.isdigit():
        raise UsageError(
            f"{path} does not contain the next producer id. Write a number larger than all assigned ids into it."
        )
    return int(text)
