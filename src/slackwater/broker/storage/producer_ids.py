"""Producer ids: none is ever given twice.

Rules kept here
- Ids are reserved in blocks of a thousand, as in Kafka. The end of a block is on disk before its first id is given, so
  a broker that is killed begins behind it. What was left of the block is lost; there are enough.
- A file that cannot be read refuses the start: guessing could give an id again.
"""

from pathlib import Path
from typing import Final

from slackwater.broker.storage.log.files import replace_file
from slackwater.group.errors import UsageError

FILE: Final = "producer-ids"
BLOCK: Final = 1000


class ProducerIds:
    """The ids that are still to be given."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._next = self._end = _read(self._path)

    def take(self) -> int:
        """An id that nobody has. Raises OSError if a new block cannot be reserved."""
        if self._next == self._end:
            replace_file(self._path, f"{self._end + BLOCK}\n".encode(), sync=True)
            self._end += BLOCK
        taken = self._next
        self._next += 1
        return taken


def _read(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return 0
    except (OSError, UnicodeDecodeError):
        text = ""
    if not text.isdigit():
        raise UsageError(
            f"{path} does not hold the next producer id. Write a number into it that is larger than any that was given."
        )
    return int(text)
