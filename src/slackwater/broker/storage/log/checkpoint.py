"""The offsets that a log checkpoints: log start, recovery point, cleaner offset, end of possible gaps.

Invariants:
- The last line is a CRC-32C of all lines before it. A file with a wrong checksum is ignored. Then recovery scans
  everything, nothing counts as clean, and offset gaps are allowed everywhere. Version 0, of earlier brokers, has no
  checksum.
- The file is replaced atomically.

The format follows that of Kafka's checkpoint files: a version, the number of lines, the lines; then the checksum. Kafka
has one file per kind for all partitions. Here one file per partition holds all kinds, so one partition never rewrites
another's offsets.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from slackwater.broker.storage.log.config import LONG_MAX
from slackwater.broker.storage.log.files import replace_file, verify_checksum, with_checksum

FILE: Final = "offset-checkpoint"
_VERSION: Final = "1"
_VERSION_WITHOUT_CHECKSUM: Final = "0"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpointed offsets of one log.

    Everything before `recovery_point` is on disk, everything before `cleaner_offset` is compacted, and offsets may be
    missing before `gaps_up_to`.
    """

    log_start_offset: int = 0
    recovery_point: int = 0
    cleaner_offset: int = 0
    gaps_up_to: int = LONG_MAX

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Read the checkpoint of a partition directory; None if it is missing or damaged."""
        try:
            text, has_checksum = verify_checksum((directory / FILE).read_text(encoding="ascii"))
            version, count, *lines = text.splitlines()
            if version != (_VERSION if has_checksum else _VERSION_WITHOUT_CHECKSUM):
                return None
            entries = dict(line.rsplit(" ", 1) for line in lines)
            values = {"_".join(key.split("-")): int(value) for key, value in entries.items()}
            if len(lines) != int(count) or min(values.values()) < 0:
                return None
            return cls(**values)
        except (OSError, ValueError, TypeError):
            return None

    def write(self, directory: Path, *, sync: bool = False) -> None:
        """Write the checkpoint into a partition directory."""
        lines = [
            f"log-start-offset {self.log_start_offset}",
            f"recovery-point {self.recovery_point}",
            f"cleaner-offset {self.cleaner_offset}",
            f"gaps-up-to {self.gaps_up_to}",
        ]
        text = with_checksum("\n".join([_VERSION, str(len(lines)), *lines, ""]))
        replace_file(directory / FILE, text.encode("ascii"), sync=sync)

    def within(self, log_start_offset: int, log_end_offset: int) -> Self:
        """Return a copy limited to the given range of the log."""
        return replace(
            self,
            log_start_offset=min(max(self.log_start_offset, log_start_offset), log_end_offset),
            recovery_point=min(self.recovery_point, log_end_offset),
            cleaner_offset=min(self.cleaner_offset, log_end_offset),
            gaps_up_to=min(self.gaps_up_to, log_end_offset),
        )
