"""Timestamps of log lines, in the layouts that loggers use, as milliseconds since the epoch.

Layouts: `2026-11-15 19:21:51,435`, with `T`, `/`, `.`, `Z`, `+02:00`, `+0200` or `UTC`; `15 Nov 2026 19:21:51,435`;
`2026 Nov 15 19:21:51`; `Nov 15, 2026 7:21:51 PM` (java.util.logging), also with `@` (Kibana); `11/15/2026 07:21:51 PM`;
`Sun Nov 15 19:21:51 CET 2026`; `26/11/15 19:21:51` (Spark's log); librdkafka's `%4|1794770162.741|`; seconds,
milliseconds, microseconds or nanoseconds since the epoch; log4j2's
`{"epochSecond":1794770162,"nanoOfSecond":741000000}`.

Without a year or a date (`parse_undated`): `Nov 15 19:21:51` (syslog), `I1115 19:21:51.435` (glog), `19:21:51.435`.

Invariants:
- A timestamp with an offset uses that offset. Any other is in the zone given for its file.
- librdkafka's timestamp counts, else the first one of the line: a container runtime writes its own, with an offset,
  before the logger's. If the first one has no fraction of a second, a later one of the same second adds it.
- `11/15/2026` has the month first if its second number is above 12 or the clock has 12 hours, else the day.
- A local time that a change of offset skips uses the offset before the change; one that occurs twice is the first.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Final
from zoneinfo import ZoneInfo

UTC: Final = "UTC"
_CLOCK: Final = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_OFFSET: Final = r"(?: ?(Z|UTC|GMT)| ?([+-])(\d\d):?(\d\d))?"
_KAFKA: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", re.ASCII)
_ISO: Final = re.compile(r"(\d{4})[-/.](\d\d)[-/.](\d\d)[T ]" + _CLOCK + _OFFSET, re.ASCII)
_RDKAFKA: Final = re.compile(r"[%|]\d?\|?(\d{10})\.(\d{3})\|", re.ASCII)
_MONTH_NAME: Final = re.compile(r"(\d\d)[-/ ]([A-Z][a-z][a-z])[-/ ](\d{4})[ :]" + _CLOCK + _OFFSET, re.ASCII)
_SPARK: Final = re.compile(r"\W?(\d\d)/(\d\d)/(\d\d) " + _CLOCK + _OFFSET, re.ASCII)
_EPOCH: Final = re.compile(r"\D{0,3}(\d{10})(\d{0,9})(?:\.(\d{1,9}))?(?:\W|$)", re.ASCII)
_HALF_DAY: Final = r"(?: ?([AaPp])\.?[Mm]\b\.?)?"
_MONTH_FIRST: Final = re.compile(
    r"\b([A-Z][a-z][a-z])[a-z]* +(\d\d?),? (\d{4}),?(?: @| at)? (\d\d?):(\d\d):(\d\d)(?:[.,](\d{1,9}))?" + _HALF_DAY,
    re.ASCII,
)
_NUMBERS: Final = re.compile(
    r"\b(\d\d?)[/.-](\d\d?)[/.-](\d{4}|\d\d),? (\d\d?):(\d\d):(\d\d)(?:[.,](\d{1,9}))?" + _HALF_DAY, re.ASCII
)
_DATE: Final = re.compile(
    r"\b[A-Z][a-z][a-z],? ([A-Z][a-z][a-z]) +(\d\d?) (\d\d:\d\d:\d\d)(?:[.,](\d+))? (?:[A-Z]{2,5} |[+-]\d{4} )?(\d{4})",
    re.ASCII,
)
_YEAR_FIRST: Final = re.compile(r"\b(\d{4}) ([A-Z][a-z][a-z]) (\d\d?) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?", re.ASCII)
_HALF_DAY_ISO: Final = re.compile(
    r"\b(\d{4})[-/](\d\d)[-/](\d\d) (\d\d?):(\d\d):(\d\d)(?:[.,](\d{1,9}))? ?([AaPp])\.?[Mm]\b", re.ASCII
)
_FRACTION: Final = re.compile(r"(\d\d:\d\d:\d\d)[.,](\d{3})", re.ASCII)
_SYSLOG: Final = re.compile(r"\b([A-Z][a-z][a-z]) {1,2}(\d\d?) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?", re.ASCII)
_GLOG: Final = re.compile(r"\b[DEFIW](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?", re.ASCII)
_TIME_OF_DAY: Final = re.compile(r"(?<![\d:.])(\d\d?):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?![\d:])" + _HALF_DAY, re.ASCII)
_UNDATED_YEAR: Final = 1980
"""A leap year. Times of this year stand for times without a year (events/times.py)."""
_LOG4J2: Final = re.compile(r'\{"epochSecond": ?(\d{10}),"nanoOfSecond": ?(\d{1,9})\}', re.ASCII)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_START: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (local times are subtracted from it)
_MILLISECOND: Final = timedelta(milliseconds=1)


def parse_timestamp(text: str, zone: str = UTC) -> int | None:
    """Return the time in milliseconds of the first timestamp in the text, or None."""
    if match := _KAFKA.match(text):
        try:
            return _second_ms(match[1], zone) + int(match[2])
        except ValueError:
            pass
    for parse in _LAYOUTS:
        time_ms = parse(text, zone)
        if time_ms is not None:
            return time_ms
    return None


def parse_undated(text: str) -> int | None:
    """Return the time of the first timestamp without a year or without a date, in 1980, or None."""
    if (match := _SYSLOG.search(text)) and match[1] in _MONTHS:
        return _undated(_MONTHS.index(match[1]) + 1, match[2], *match.groups()[2:])
    if match := _GLOG.search(text):
        return _undated(match[1], match[2], *match.groups()[2:])
    if match := _TIME_OF_DAY.search(text):
        hour, minute, second, fraction, half = match.groups()
        return _undated(1, 1, _hour(hour, half), minute, second, fraction)
    return None


def _undated(month: int | str, day: int | str, *clock: int | str | None) -> int | None:
    return _from_parts((str(_UNDATED_YEAR), str(month), str(day)), (*map(_text, clock), None, None, None, None), UTC)


def _text(value: int | str | None) -> str | None:
    return None if value is None else str(value)


def zone_of(file: str, zones: Mapping[str, str], default: str = UTC) -> str:
    """Return the zone of the first key of `zones` that is part of the file's path."""
    return next((zone for part, zone in zones.items() if part in file), default)


def _iso(text: str, zone: str) -> int | None:
    match = _ISO.search(text)
    if match is None:
        return None
    time_ms = _from_parts((match[1], match[2], match[3]), match.groups()[3:], zone)
    if time_ms is None or match[7] is not None or (finer := _FRACTION.search(text, match.end())) is None:
        return time_ms
    is_same_second = finer[1][-5:] == f"{match[5]}:{match[6]}"  # minute and second: the zones may differ
    return time_ms + int(finer[2]) if is_same_second else time_ms


def _month_name(text: str, zone: str) -> int | None:
    match = _MONTH_NAME.search(text)
    if match is None or match[2] not in _MONTHS:
        return None
    return _from_parts((match[3], str(_MONTHS.index(match[2]) + 1), match[1]), match.groups()[3:], zone)


def _month_first(text: str, zone: str) -> int | None:
    match = _MONTH_FIRST.search(text)
    if match is None or match[1] not in _MONTHS:
        return None
    month, day, year, hour, minute, second, fraction, half = match.groups()
    clock = (_hour(hour, half), minute, second, fraction, None, None, None, None)
    return _from_parts((year, str(_MONTHS.index(month) + 1), day), clock, zone)


def _numbers(text: str, zone: str) -> int | None:
    match = _NUMBERS.search(text)
    if match is None:
        return None
    first, second, year, *clock, half = match.groups()
    is_month_first = int(second) > 12 or (bool(half) and int(first) <= 12)
    month, day = (first, second) if is_month_first else (second, first)
    parts = (_hour(clock[0], half), *clock[1:], None, None, None, None)
    return _from_parts((year if len(year) == 4 else "20" + year, month, day), parts, zone)


def _half_day_iso(text: str, zone: str) -> int | None:
    match = _HALF_DAY_ISO.search(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, half = match.groups()
    return _from_parts((year, month, day), (_hour(hour, half), minute, second, fraction, None, None, None, None), zone)


def _year_first(text: str, zone: str) -> int | None:
    match = _YEAR_FIRST.search(text)
    if match is None or match[2] not in _MONTHS:
        return None
    clock = (*match.groups()[3:], None, None, None, None)
    return _from_parts((match[1], str(_MONTHS.index(match[2]) + 1), match[3]), clock, zone)


def _date(text: str, zone: str) -> int | None:
    match = _DATE.search(text)
    if match is None or match[1] not in _MONTHS:
        return None
    clock = (*match[3].split(":"), match[4], None, None, None, None)
    return _from_parts((match[5], str(_MONTHS.index(match[1]) + 1), match[2]), clock, zone)


def _hour(hour: str, half: str | None) -> str:
    """Return the hour of a clock with 24 hours."""
    return hour if not half else str(int(hour) % 12 + (12 if half in "Pp" else 0))


def _spark(text: str, zone: str) -> int | None:
    match = _SPARK.match(text)
    return None if match is None else _from_parts(("20" + match[1], match[2], match[3]), match.groups()[3:], zone)


def _rdkafka(text: str, _zone: str) -> int | None:
    match = _RDKAFKA.search(text)
    return None if match is None else int(match[1]) * 1000 + int(match[2])


def _epoch(text: str, _zone: str) -> int | None:
    match = _EPOCH.match(text)
    return None if match is None else int(match[1]) * 1000 + _milliseconds(match[2] or match[3])


def _log4j2(text: str, _zone: str) -> int | None:
    match = _LOG4J2.match(text)
    return None if match is None else int(match[1]) * 1000 + int(match[2]) // 1_000_000


_LAYOUTS: Final[tuple[Callable[[str, str], int | None], ...]] = (
    _rdkafka,
    _half_day_iso,
    _iso,
    _month_name,
    _month_first,
    _year_first,
    _spark,
    _numbers,
    _date,
    _epoch,
    _log4j2,
)


def _from_parts(date: tuple[str, str, str], clock: Sequence[str | None], zone: str) -> int | None:
    """Return the time of a date and of the groups of `_CLOCK` and `_OFFSET`."""
    hour, minute, second, fraction, utc, sign, offset_hours, offset_minutes = clock
    try:
        year, month, day = map(int, date)
        local = datetime(year, month, day, int(hour or 0), int(minute or 0), int(second or 0))  # noqa: DTZ001
    except ValueError:
        return None
    millis = _milliseconds(fraction)
    if sign:
        offset_ms = (int(offset_hours or 0) * 60 + int(offset_minutes or 0)) * 60_000
        return _in_zone(local, UTC) + millis - (-offset_ms if sign == "-" else offset_ms)
    return _in_zone(local, UTC if utc else zone) + millis


def _milliseconds(fraction: str | None) -> int:
    """Return the first three digits of a fraction of a second."""
    return int(fraction[:3].ljust(3, "0")) if fraction else 0


@lru_cache(maxsize=1024)
def _second_ms(text: str, zone: str) -> int:
    """Return the time of a local date and time. Many lines are of the same second."""
    return _in_zone(datetime.fromisoformat(text), zone)


def _in_zone(local: datetime, zone: str) -> int:
    if zone != UTC:
        local -= local.replace(tzinfo=_zone(zone)).utcoffset() or timedelta()
    return (local - _START) // _MILLISECOND


@cache
def _zone(name: str) -> tzinfo:
    """Return a zone by its name, or by its offset."""
    if name[:1] in "+-":
        offset = timedelta(hours=int(name[1:3]), minutes=int(name[-2:]))
        return timezone(-offset if name[0] == "-" else offset)
    return ZoneInfo(name)
