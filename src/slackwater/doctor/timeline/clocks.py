"""Clocks that were set back, and files whose clocks differ.

Rules kept here
- Generations only grow. Where a broker's log has a later generation at an earlier time, below it in the same file, its
  clock was set back (or its local time left summer): the file's order counts, and what follows goes on from there. Logs
  that were put together into one file go back in time too, but their generations do not go on: these are left alone.
- Two files that tell of the same generations a constant quarter of an hour or more apart have different zones. Which is
  right nobody knows: it is said, and what to do about it.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import BROKER_SIDE, PLACE, Row
from slackwater.group.events import EventKind

BACK_MS: Final = 2_000
"""Threads of one process write their lines by so much out of order at most."""
ZONE_MS: Final = 900_000
"""Zones differ by quarters of an hour."""
_FORMED: Final = EventKind.GENERATION_FORMED
_NEAR_MS: Final = 60_000
_SHOWN: Final = 3


def steadied(rows: Sequence[Row]) -> tuple[Sequence[Row], tuple[str, ...]]:
    """Rows whose times do not go back where a clock did, and a sentence for each such clock."""
    jumps: dict[str, list[int]] = {}
    for before, row in pairwise(sorted((row for row in rows if row.kind == _FORMED and _tells(row)), key=PLACE)):
        if row.time_ms < before.time_ms - BACK_MS and _goes_back(before, row):
            jumps.setdefault(row.file or "", []).append(before.position)
    if not jumps:
        return rows, ()
    kept = [row for row in rows if row.file not in jumps]
    said = []
    for file, places in jumps.items():
        own = sorted((row for row in rows if row.file == file), key=lambda one: one.position)
        mended, back_ms = _mended(own, places)
        kept += mended
        said.append(
            f"the clock of {_name(file)} went back by {_length(back_ms)}; its lines are taken in their order, and times"
            " after that are later than they say"
        )
    return kept, tuple(said[:_SHOWN])


def _tells(row: Row) -> bool:
    return row.file is not None and row.generation is not None and row.source in BROKER_SIDE


def _goes_back(before: Row, row: Row) -> bool:
    if row.file != before.file or row.generation is None or before.generation is None:
        return False
    return row.generation > before.generation and row.time_ms < before.time_ms - BACK_MS


def _mended(rows: Sequence[Row], places: Sequence[int]) -> tuple[list[Row], int]:
    """Rows of one file in their order; after each of the places the time that follows goes on from the one before."""
    found: list[Row] = []
    shift = most = 0
    left = list(places)
    for row in rows:
        time_ms = row.time_ms + shift
        # The first line that is earlier than what stands above it, after the last generation of the old time.
        if left and found and row.position > left[0] and time_ms < most - BACK_MS:
            shift += most - time_ms
            time_ms = most
            left.pop(0)
        most = max(most, time_ms)
        found.append(row if not shift else row._replace(time_ms=time_ms))
    return found, shift


def apart(rows: Iterable[Row]) -> tuple[str, ...]:
    """Files that tell of the same generations at times that only different zones explain."""
    told: dict[str, dict[int, int]] = {}
    for row in rows:
        file, generation = row.file, row.generation
        if file is not None and generation and (signals.is_formed(row) or signals.is_joined(row)):
            times = told.get(file)
            if times is None:
                times = told[file] = {}
            before = times.get(generation)
            times[generation] = row.time_ms if before is None or row.time_ms < before else before
    if len(told) < 2:
        return ()
    measure = max(told, key=lambda file: (len(told[file]), file))
    found = []
    for file in sorted(set(told) - {measure}):
        gaps = [time_ms - told[measure][number] for number, time_ms in told[file].items() if number in told[measure]]
        if gaps and max(gaps) - min(gaps) < _NEAR_MS and _is_zone(gaps[0]):
            found.append(
                f"{_name(file)} tells of the same generations {_length(abs(gaps[0]))} "
                f"{'later' if gaps[0] > 0 else 'earlier'} than {_name(measure)}: their zones differ; say which with "
                f"--zone {_name(file)}=ZONE"
            )
    return tuple(found[:_SHOWN])


def _is_zone(gap_ms: int) -> bool:
    quarters = round(gap_ms / ZONE_MS)
    return quarters != 0 and abs(gap_ms - quarters * ZONE_MS) < _NEAR_MS


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _length(ms: int) -> str:
    if ms < 2 * _NEAR_MS:
        return f"{ms / 1000:.0f} s"
    return f"{ms / 60_000:.0f} min" if ms < 2 * 3_600_000 else f"{round(ms / ZONE_MS) / 4:g} h"
