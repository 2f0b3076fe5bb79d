"""The broker's memory: its peak stays below 512 MB."""

from pathlib import Path
from typing import Final

MAX_BYTES: Final = 512 * 1024 * 1024
_RESET_PEAK: Final = "5"


def reset_peak(pid: int) -> None:
    """Let the kernel measure the peak from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def check_memory(peak_bytes: int) -> list[str]:
    """Check the peak of resident memory."""
    if peak_bytes < MAX_BYTES:
        return []
    return [f"the broker used {peak_bytes >> 20} MB of memory; the limit is {MAX_BYTES >> 20} MB"]
