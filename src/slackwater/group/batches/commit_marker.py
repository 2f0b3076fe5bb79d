"""Commit markers: offset metadata that identifies a query's own commits.

Invariants:
- `slackwater:<checkpoint_id>:<seq>` means: the query with this checkpoint committed this offset when its batch
  `seq` was planned and everything before the offset was finished.
- `slackwater:<checkpoint_id>:<seq>:handoff` means: the query's checkpoint will finish batch `seq`.
- Any other metadata belongs to another consumer or to an operator.
"""

from dataclasses import dataclass
from typing import Final, Self

from slackwater.group.offset_and_metadata import OffsetAndMetadata

_PREFIX: Final = "slackwater"
_HANDOFF: Final = "handoff"


@dataclass(frozen=True, slots=True)
class CommitMarker:
    """The checkpoint and the batch that an offset was committed by."""

    checkpoint_id: str
    seq: int
    is_early: bool = False

    @classmethod
    def parse(cls, committed: OffsetAndMetadata) -> Self | None:
        """The marker in a committed offset's metadata; None if there is none."""
        words = committed.metadata.split(":")
        if len(words) not in (3, 4) or words[0] != _PREFIX or not words[2].isdecimal():
            return None
        return cls(words[1], int(words[2]), is_early=words[3:] == [_HANDOFF])

    def __str__(self) -> str:
        return f"{_PREFIX}:{self.checkpoint_id}:{self.seq}" + (f":{_HANDOFF}" if self.is_early else "")
