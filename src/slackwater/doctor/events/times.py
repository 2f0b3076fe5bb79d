"""Times of rows whose log has no date, or no time at all.

Invariants:
- A row's time is in milliseconds since 1970. Times before the year 2000 are not real: a line with a clock but no year
  is in 1980, and a line without any time has its position in the file as its time. Both keep the order of the lines.
- Rows of one history have comparable times: dated rows are not mixed with undated ones.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from slackwater.doctor.events.rows import Row

MIN_CLOCK_MS: Final = 315_532_800_000
"""1980-01-01: a time from here on is that of a clock."""
MIN_DATED_MS: Final = 946_684_800_000
"""2000-01-01: a time from here on has a date."""
_NO_CLOCK: Final = "the lines have no time: the order of the file counts, and durations are unknown"
_NO_DATE: Final = (
    "the lines have a time of day but no complete date: days without a line about the group are not noticed"
)


def has_clock(time_ms: int) -> bool:
    """Return whether a row's time is that of a clock: differences of such times are durations."""
    return time_ms >= MIN_CLOCK_MS


def is_dated(time_ms: int) -> bool:
    """Return whether a row's time has a date."""
    return time_ms >= MIN_DATED_MS


def with_comparable_times(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows with the best kind of time: those with a date, else those with a clock, else all."""
    if not rows or is_dated(min(row.time_ms for row in rows)):
        return rows
    latest = max(row.time_ms for row in rows)
    least = MIN_DATED_MS if is_dated(latest) else MIN_CLOCK_MS if has_clock(latest) else 0
    return [row for row in rows if row.time_ms >= least]


def time_remarks(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what the reader of a verdict must know about the times of its rows, which are ordered."""
    if not rows or is_dated(rows[-1].time_ms):
        return ()
    return (_NO_DATE if has_clock(rows[-1].time_ms) else _NO_CLOCK,)


def shown_time(time_ms: int) -> str:
    """Return a time as text: without the date if there is none, empty if there is no time."""
    if not has_clock(time_ms):
        return ""
    shown = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{shown:%Y-%m-%d %H:%M:%S.%f}"[:-3] if is_dated(time_ms) else f"{shown:%H:%M:%S.%f}"[:-3]
