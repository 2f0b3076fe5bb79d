"""Marks: the few words of metadata by which a query knows its own commits again.

Rules kept here
- `slackwater:<token>:<seq>` beside an offset says that the query whose checkpoint bears `token` stood there when its
  batch `seq` had been planned and everything before that offset was finished.
- `slackwater:<token>:<seq>:handoff` says that it stands there because its checkpoint will finish batch `seq`.
- Whatever else stands there is somebody else's: a plain consumer's, or an operator's.
"""

from dataclasses import dataclass
from typing import Final, Self

from slackwater.group.offset_and_metadata import OffsetAndMetadata

_PREFIX: Final = "slackwater"
_HANDOFF: Final = "handoff"


@dataclass(frozen=True, slots=True)
class CommitMarker:
    """Who committed an offset, as of which of its batches."""

    token: str
    seq: int
    is_handoff: bool = False

    @classmethod
    def parse(cls, committed: OffsetAndMetadata) -> Self | None:
        """The mark beside a committed offset; None where there is none."""
        words = committed.metadata.split(":")
        if len(words) not in (3, 4) or words[0] != _PREFIX or not words[2].isdecimal():
            return None
        return cls(words[1], int(words[2]), is_handoff=words[3:] == [_HANDOFF])

    def __str__(self) -> str:
        return f"{_PREFIX}:{self.token}:{self.seq}" + (f":{_HANDOFF}" if self.is_handoff else "")
