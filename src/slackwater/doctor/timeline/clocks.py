"""Detect clocks that were set back, and files whose time zones differ.

Invariants:
- Generations only grow. If a broker's log has a later generation at an earlier time further down in the same file, its
  clock was set back (or daylight saving time ended): the order of the file counts and later times are shifted. Files
  made by concatenating logs also go back in time, but their generations do not continue: these are left unchanged.
- Two files that report the same generations a constant quarter of an hour or more apart have different time zones.
  Which zone is right is unknown, so the difference is reported with the option that resolves it.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import BROKER_SIDE, FILE_POSITION, Row
from slackwater.group.events import EventKind

BACK_MS: Final = 2_000
"""Maximum disorder of lines written by the threads of one process."""
ZONE_MS: Final = 900_000
"""Time zones differ by multiples of a quarter of an hour."""
_FORMED: Final = EventKind.GENERATION_FORMED
_NEAR_MS: Final = 60_000
_SHOWN: Final = 3


def correct_clock_jumps(rows: Sequence[Row]) -> tuple[Sequence[Row], tuple[str, ...]]:
    """Return the rows with times that do not go back, and a message for each clock that did."""
    jumps: dict[str, list[int]] = {}
    for before, row in pairwise(
        sorted((row for row in rows if row.kind == _FORMED and _is_located(row)), key=FILE_POSITION)
    ):
        if row.time_ms < before.time_ms - BACK_MS and _goes_back(before, row):
            jumps.setdefault(row.file or "", []).append(before.position)
    if not jumps:
        return rows, ()
    result = [row for row in rows if row.file not in jumps]
    messages = []
    for file, places in jumps.items():
        own = sorted((row for row in rows if row.file == file), key=lambda row: row.position)
        corrected, back_ms = _shift_times(own, places)
        result += corrected
        messages.append(
            f"the clock of {_name(file)} was set back by {_length(back_ms)}; its lines are read in file order, and"
            " later times are shifted"
        )
    return result, tuple(messages[:_SHOWN])


def _is_located(row: Row) -> bool:
    return row.file is not None and row.generation is not None and row.source in BROKER_SIDE


def _goes_back(before: Row, row: Row) -> bool:
    if row.file != before.file or row.generation is None or before.generation is None:
        return False
    return row.generation > before.generation and row.time_ms < before.time_ms - BACK_MS


def _shift_times(rows: Sequence[Row], places: Sequence[int]) -> tuple[list[Row], int]:
    """Return the rows of one file in file order, with the times after each jump shifted, and the total shift."""
    corrected: list[Row] = []
    shift = latest = 0
    left = list(places)
    for row in rows:
        time_ms = row.time_ms + shift
        # The first line that is earlier than the lines before it, after the last generation before the jump.
        if left and corrected and row.position > left[0] and time_ms < latest - BACK_MS:
            shift += latest - time_ms
            time_ms = latest
            left.pop(0)
        latest = max(latest, time_ms)
        corrected.append(row if not shift else row._replace(time_ms=time_ms))
    return corrected, shift


def find_zone_differences(rows: Iterable[Row]) -> tuple[str, ...]:
    """Report files that contain the same generations at times that only different time zones explain."""
    times_by_file: dict[str, dict[int, int]] = {}
    for row in rows:
        file, generation = row.file, row.generation
        if file is not None and generation and (row_predicates.is_formed(row) or row_predicates.is_joined(row)):
            times = times_by_file.get(file)
            if times is None:
                times = times_by_file[file] = {}
            before = times.get(generation)
            times[generation] = row.time_ms if before is None or row.time_ms < before else before
    if len(times_by_file) < 2:
        return ()
    reference = max(times_by_file, key=lambda file: (len(times_by_file[file]), file))
    expected = times_by_file[reference]
    messages = []
    for file in sorted(set(times_by_file) - {reference}):
        gaps = [time_ms - expected[number] for number, time_ms in times_by_file[file].items() if number in expected]
        if gaps and max(gaps) - min(gaps) < _NEAR_MS and _is_zone(gaps[0]):
            messages.append(
                f"{_name(file)} has the same generations {_length(abs(gaps[0]))} "
                f"{'later' if gaps[0] > 0 else 'earlier'} than {_name(reference)}: their time zones differ; set the "
                f"zone with --zone {_name(file)}=ZONE"
            )
    return tuple(messages[:_SHOWN])


def _is_zone(gap_ms: int) -> bool:
    quarters = round(gap_ms / ZONE_MS)
    return quarters != 0 and abs(gap_ms - quarters * ZONE_MS) < _NEAR_MS


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _length(ms: int) -> str:
    if ms < 2 * _NEAR_MS:
        return f"{ms / 1000:.0f} s"
    return f"{ms / 60_000:.0f} min" if ms < 2 * 3_600_000 else f"{round(ms / ZONE_MS) / 4:g} h"
