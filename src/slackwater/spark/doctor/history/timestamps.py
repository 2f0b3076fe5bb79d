"""Timestamps of log lines, in the layouts that loggers use, as milliseconds since the epoch.

Layouts: `2026-11-15 19:21:51,435`, with `T`, `/`, `.`, `Z`, `+02:00`, `+0200` or `UTC`; `15 Nov 2026 19:21:51,435`;
`26/11/15 19:21:51` (Spark's log); librdkafka's `%4|1794770162.741|`; seconds, milliseconds, microseconds or nanoseconds
since the epoch; log4j2's `{"epochSecond":1794770162,"nanoOfSecond":741000000}`.

Invariants:
- A timestamp with an offset uses that offset. Any other is in the zone given for its file.
- The first timestamp of a line counts: a container runtime writes its own, with an offset, before the logger's.
- A local time that a change of offset skips uses the offset before the change; one that occurs twice is the first.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Final
from zoneinfo import ZoneInfo

UTC: Final = "UTC"
_CLOCK: Final = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_OFFSET: Final = r"(?: ?(Z|UTC|GMT)| ?([+-])(\d\d):?(\d\d))?"
_KAFKA: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", re.ASCII)
_ISO: Final = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T ]" + _CLOCK + _OFFSET, re.ASCII)
_RDKAFKA: Final = re.compile(r"%\d\|(\d+)\.(\d{3})\|", re.ASCII)
_MONTH_NAME: Final = re.compile(r"(\d\d)[-/ ]([A-Z][a-z][a-z])[-/ ](\d{4})[ :]" + _CLOCK + _OFFSET, re.ASCII)
_SPARK: Final = re.compile(r"\W?(\d\d)/(\d\d)/(\d\d) " + _CLOCK + _OFFSET, re.ASCII)
_EPOCH: Final = re.compile(r"\D{0,3}(\d{10})(\d{0,9})(?:\.(\d{1,9}))?(?:\W|$)", re.ASCII)
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


def zone_of(file: str, zones: Mapping[str, str], default: str = UTC) -> str:
    """Return the zone of the first key of `zones` that is part of the file's path."""
    return next((zone for part, zone in zones.items() if part in file), default)


def _iso(text: str, zone: str) -> int | None:
    match = _ISO.search(text)
    return None if match is None else _from_parts((match[1], match[2], match[3]), match.groups()[3:], zone)


def _month_name(text: str, zone: str) -> int | None:
    match = _MONTH_NAME.search(text)
    if match is None or match[2] not in _MONTHS:
        return None
    return _from_parts((match[3], str(_MONTHS.index(match[2]) + 1), match[1]), match.groups()[3:], zone)


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


_LAYOUTS: Final[tuple[Callable[[str, str], int | None], ...]] = (_iso, _rdkafka, _month_name, _spark, _epoch, _log4j2)


def _from_parts(date: tuple[str, str, str], clock: tuple[str | None, ...], zone: str) -> int | None:
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
