"""Four offsets that a log must remember beside its segments.

Rules kept here
- A file that cannot be read counts as absent: then nothing is skipped at the start, nothing counts as clean, and a gap
  between offsets may stand anywhere.
- It is replaced as a whole.

The text is that of Kafka's checkpoint files (a version, the number of lines, the lines). Kafka keeps one file per kind
for all partitions; here one file per partition holds all kinds, so that moving one offset does not rewrite the others.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from slackwater.broker.storage.log.config import LONG_MAX
from slackwater.broker.storage.log.files import replace_file

FILE: Final = "offset-checkpoint"
_VERSION: Final = "0"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a log remembers: where it begins, and up to where it is flushed, clean, and possibly with gaps."""

    log_start_offset: int = 0
    recovery_point: int = 0
    cleaner_offset: int = 0
    gaps_up_to: int = LONG_MAX

    @classmethod
    def read(cls, directory: Path) -> Self:
        """What stands in the directory, or zeros."""
        try:
            version, count, *lines = (directory / FILE).read_text(encoding="ascii").splitlines()
            found = dict(line.rsplit(" ", 1) for line in lines)
            values = {"_".join(key.split("-")): int(value) for key, value in found.items()}
            if version != _VERSION or len(lines) != int(count) or min(values.values()) < 0:
                return cls()
            return cls(**values)
        except (OSError, ValueError, TypeError):
            return cls()

    def write(self, directory: Path, *, sync: bool = False) -> None:
        """Put it into the directory."""
        lines = [
            f"log-start-offset {self.log_start_offset}",
            f"recovery-point {self.recovery_point}",
            f"cleaner-offset {self.cleaner_offset}",
            f"gaps-up-to {self.gaps_up_to}",
        ]
        text = "\n".join([_VERSION, str(len(lines)), *lines, ""])
        replace_file(directory / FILE, text.encode("ascii"), sync=sync)

    def within(self, log_start_offset: int, log_end_offset: int) -> Self:
        """The same, where a log that was cut shorter has lost some of it."""
        return replace(
            self,
            log_start_offset=min(max(self.log_start_offset, log_start_offset), log_end_offset),
            recovery_point=min(self.recovery_point, log_end_offset),
            cleaner_offset=min(self.cleaner_offset, log_end_offset),
            gaps_up_to=min(self.gaps_up_to, log_end_offset),
        )
