"""The library that is preloaded into the broker (`shim.c`): build it, and control the clock and the disk with it.

Invariants:
- `Shim` and `shim.c` have the same layout of the control block.
- `heal` ends every fault of the disk. The clock keeps its offset, as a stepped clock does.
"""

import errno
import mmap
import shutil
import struct
import subprocess
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("shim.c")
MISSING: Final = "gcc is missing, so faults of the clock and failing disk operations are left out: apt-get install gcc"


class Operation(IntEnum):
    """File operations that can fail."""

    OPEN = 0
    READ = 1
    WRITE = 2
    FSYNC = 3
    TRUNCATE = 4
    RENAME = 5


_LAYOUT: Final = struct.Struct(f"=qqqi{3 * len(Operation)}i")
_CLOCK_OFFSET_AT, _FREE_BYTES_AT, _RANDOM_AT, _SHORT_WRITES_AT, _ERRORS_AT = 0, 8, 16, 24, 28
_PER_MILLE_AT: Final = _ERRORS_AT + 4 * len(Operation)
_INJECTED_AT: Final = _PER_MILLE_AT + 4 * len(Operation)


def build(directory: Path) -> Path | None:
    """Compile the library; None without gcc."""
    if shutil.which("gcc") is None:
        return None
    library = directory / "shim.so"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


class Shim:
    """The control block of one data directory."""

    def __init__(self, library: Path, control: Path, data: Path, seed: int = 1) -> None:
        self._library, self._control, self._data = library, control, data
        control.write_bytes(bytes(_LAYOUT.size))
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _LAYOUT.size)
        self._put("=q", _RANDOM_AT, seed)
        self.heal()

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of a broker with this library."""
        return {
            "LD_PRELOAD": str(self._library),
            "CHAOS_CONTROL": str(self._control),
            "CHAOS_DATA": str(self._data),
        }

    @property
    def clock_offset_s(self) -> float:
        """By how much the broker's wall clock is ahead of this machine's."""
        offset_ns: int = struct.unpack_from("=q", self._mapped, _CLOCK_OFFSET_AT)[0]
        return offset_ns / 1e9

    @clock_offset_s.setter
    def clock_offset_s(self, seconds: float) -> None:
        self._put("=q", _CLOCK_OFFSET_AT, int(seconds * 1e9))

    def fail(self, operation: Operation, error: int = errno.EIO, per_mille: int = 1000) -> None:
        """Let an operation fail with this errno."""
        self._put("=i", _PER_MILLE_AT + 4 * operation, per_mille)
        self._put("=i", _ERRORS_AT + 4 * operation, error)

    def limit_space(self, free_bytes: int) -> None:
        """Let writes fail with ENOSPC after so many bytes; the last write before it is short."""
        self._put("=q", _FREE_BYTES_AT, free_bytes)

    def shorten_writes(self, per_mille: int) -> None:
        """Let some writes take only half of their bytes."""
        self._put("=i", _SHORT_WRITES_AT, per_mille)

    def heal(self) -> None:
        """Let the disk work again."""
        self.limit_space(-1)
        self.shorten_writes(0)
        for operation in Operation:
            self.fail(operation, 0, 0)

    def injected(self) -> int:
        """How many operations have failed so far."""
        counts: tuple[int, ...] = struct.unpack_from(f"={len(Operation)}i", self._mapped, _INJECTED_AT)
        return sum(counts)

    def close(self) -> None:
        """Release the control block."""
        self._mapped.close()

    def _put(self, code: str, position: int, value: int) -> None:
        struct.pack_into(code, self._mapped, position, value)
