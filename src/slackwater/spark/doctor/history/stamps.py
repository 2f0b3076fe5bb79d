"""When a line was written: from what stands before its message, in any of the usual layouts.

Rules kept here
- A stamp with its zone is taken at its word. One without is in the zone that the caller gives for the file, or in UTC.
- The first stamp of a line counts: the one before it, which a runtime put there, has its zone.
- Nearly all heads begin as Kafka's own layout does, which has its numbers in fixed places: these are taken from there.
- Times are reckoned for all lines at once; a zone is asked once for every quarter of an hour that occurs.
- A clock that a change of zone skips is read as the zone was before; one that comes twice is the first of the two.

Layouts: `2026-11-15 19:21:51,435`, with `T`, `/`, `.`, `Z`, `+02:00`, `+0200` or `UTC`; `15 Nov 2026 19:21:51,435`;
`26/11/15 19:21:51`, as Spark's own log has it; librdkafka's `%4|1794770162.741|`; seconds, milliseconds, microseconds
or nanoseconds since the epoch, and log4j2's `{"epochSecond":1794770162,"nanoOfSecond":741000000}`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from slackwater.spark.doctor.history.kernels import Kernels, Texts

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

_KAFKA: Final = "[0000-00-00 00:00:00,000]"
_ANYWHERE: Final = r"^[\s\S]*?"
_CLOCK: Final = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_ZONE: Final = r"(?: ?(Z|UTC|GMT)| ?([+-])(\d\d):?(\d\d))?"
_SHORT: Final = r"^\W?(\d\d)/(\d\d)/(\d\d) " + _CLOCK + _ZONE
_INSTANT: Final = r'^\{"epochSecond": ?(\d{10}),"nanoOfSecond": ?(\d{1,9})\}'
_DATED: Final = _ANYWHERE + r"(\d{4})[-/](\d\d)[-/](\d\d)[T ]" + _CLOCK + _ZONE
_WORDED: Final = _ANYWHERE + r"(\d\d)[-/ ]([A-Z][a-z][a-z])[-/ ](\d{4})[ :]" + _CLOCK + _ZONE
_COUNTED: Final = _ANYWHERE + r"%\d\|(\d+)\.(\d{3})\|"
_EPOCH: Final = r"^\D{0,3}(\d{10})(\d{0,9})(?:\.(\d{1,9}))?(?:\W|$)"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY_MS: Final = 86_400_000
_QUARTER_MS: Final = 900_000
_POWERS: Final = np.array([1, 10, 100, 1000], np.int64)


def time_ms(heads: Texts, zones: NDArray[np.object_], kernels: Kernels) -> tuple[Longs, Flags]:
    """Milliseconds since the epoch, and whether a head tells them; `zones` has the zone of each head's file."""
    times = np.zeros(len(heads.starts), np.int64)
    known = np.zeros(len(heads.starts), np.bool_)
    for way in (_bracketed, _dated, _counted, _worded, _short, _since, _instant):
        rows = np.flatnonzero(~known & (heads.starts >= 0))
        if not len(rows):
            break
        found, told = way(heads.of(rows), zones[rows], kernels)
        times[rows], known[rows] = found, told
    return times, known


def zone_of(file: str, zones: Mapping[str, str], default: str = "UTC") -> str:
    """The zone of a file's stamps: that of the first of `zones` whose key is part of the file's path."""
    return next((zone for part, zone in zones.items() if part in file), default)


class _Parts:
    """A pattern's groups as numbers."""

    def __init__(self, texts: Texts, pattern: str, kernels: Kernels) -> None:
        self._data, self._kernels = texts.data, kernels
        self.found, places = kernels.match(texts, pattern)
        if not self.found.all():
            places[~self.found] = -1
        self._places = np.ascontiguousarray(places.T)

    def text(self, group: int) -> Texts:
        return Texts(self._data, self._places[2 * group - 2], self._places[2 * group - 1])

    def there(self, group: int) -> Flags:
        return self.text(group).starts >= 0

    def number(self, group: int) -> Longs:
        return self._kernels.numbers(self.text(group))[0]

    def millis(self, group: int) -> Longs:
        """The first three digits of a fraction."""
        whole = self.text(group)
        lengths = np.minimum(whole.ends - whole.starts, 3)
        digits = self._kernels.numbers(Texts(whole.data, whole.starts, whole.starts + lengths))[0]
        return np.where(whole.starts >= 0, digits * _POWERS[3 - lengths], 0)


def _bracketed(texts: Texts, zones: NDArray[np.object_], kernels: Kernels) -> tuple[Longs, Flags]:
    (*date, hour, minute, second, millis), found = kernels.fields(texts, _KAFKA)
    times, good = _reckoned(found, date, (hour, minute, second), millis)
    return _as_local(times, good, zones), good


def _dated(texts: Texts, zones: NDArray[np.object_], kernels: Kernels) -> tuple[Longs, Flags]:
    parts = _Parts(texts, _DATED, kernels)
    return _stamped(parts, (parts.number(1), parts.number(2), parts.number(3)), zones)


def _worded(texts: Texts, zones: NDArray[np.object_], kernels: Kernels) -> tuple[Longs, Flags]:
    parts = _Parts(texts, _WORDED, kernels)
    if not parts.found.any():
        return np.zeros(len(texts.starts), np.int64), parts.found
    names = kernels.strings(parts.text(2)).to_pylist()
    months = np.array([_MONTHS.index(name) + 1 if name in _MONTHS else 0 for name in names], np.int64)
    return _stamped(parts, (parts.number(3), months, parts.number(1)), zones)


def _short(texts: Texts, zones: NDArray[np.object_], kernels: Kernels) -> tuple[Longs, Flags]:
    parts = _Parts(texts, _SHORT, kernels)
    return _stamped(parts, (2000 + parts.number(1), parts.number(2), parts.number(3)), zones)


def _instant(texts: Texts, _zones: NDArray[np.object_], kernels: Kernels) -> tuple[Longs, Flags]:
    parts = _Parts(texts, _INSTANT, kernels)
    return np.where(parts.found, parts.number(1) * 1000 + parts.number(2) // 1_000_000, 0), parts.found


def _counted(texts: Texts, _zones: NDArray[np.object_], kernels: Kernels) -> tuple[Longs, Flags]:
    parts = _Parts(texts, _COUNTED, kernels)
    return parts.number(1) * 1000 + parts.number(2), parts.found


def _since(texts: Texts, _zones: NDArray[np.object_], kernels: Kernels) -> tuple[Longs, Flags]:
    parts = _Parts(texts, _EPOCH, kernels)
    # Digits behind the seconds, or else behind the point: both are the fraction.
    fraction = np.where(_filled(parts.text(2)), parts.millis(2), parts.millis(3))
    return parts.number(1) * 1000 + fraction, parts.found


def _filled(texts: Texts) -> Flags:
    return texts.ends > texts.starts


def _stamped(parts: _Parts, date: Sequence[Longs], zones: NDArray[np.object_]) -> tuple[Longs, Flags]:
    times, good = _reckoned(parts.found, date, [parts.number(group) for group in (4, 5, 6)], parts.millis(7))
    signed = parts.there(9)
    if signed.any():
        times -= _apart(parts, signed)
    times = _as_local(times, good & ~signed & ~parts.there(8), zones)
    return np.where(good, times, 0), good


def _reckoned(found: Flags, date: Sequence[Longs], clock: Sequence[Longs], millis: Longs) -> tuple[Longs, Flags]:
    """The times of a date and a clock in UTC, and which are any."""
    year, month, day = date
    hour, minute, second = clock
    good = found & (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64)
    good &= day <= (months + 1).astype("datetime64[D]").astype(np.int64) - days
    times = (days + day - 1) * _DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + millis
    return np.where(good, times, 0), good


def _as_local(times: Longs, which: Flags, zones: NDArray[np.object_]) -> Longs:
    """Times of which some are by a clock of their zone."""
    local = np.flatnonzero(which & (zones != "UTC"))
    for zone in set(zones[local].tolist()):
        rows = local[zones[local] == zone]
        times[rows] -= _offsets(times[rows], _zone(zone))
    return times


def _apart(parts: _Parts, signed: Flags) -> Longs:
    """How far the zones that stamps name by an offset are ahead."""
    ahead = (parts.number(10) * 60 + parts.number(11)) * 60_000
    minus = parts.text(9).data[np.maximum(parts.text(9).starts, 0)] == ord("-")
    return np.where(signed, np.where(minus, -ahead, ahead), 0)


def _offsets(times: Longs, zone: tzinfo) -> Longs:
    """How far a zone's clocks are ahead, at these times by them."""
    quarters, which = np.unique(times // _QUARTER_MS, return_inverse=True)
    begin = datetime(1970, 1, 1)  # noqa: DTZ001 (a clock of the zone that is asked)
    ahead = [
        (begin + timedelta(milliseconds=int(one) * _QUARTER_MS)).replace(tzinfo=zone).utcoffset() for one in quarters
    ]
    found = [int((one or timedelta()) / timedelta(milliseconds=1)) for one in ahead]
    return np.array(found, np.int64)[which]


@cache
def _zone(name: str) -> tzinfo:
    """A zone by its name, or by its offset."""
    if name[:1] in "+-":
        hours, minutes = int(name[1:3]), int(name[-2:])
        ahead = timedelta(hours=hours, minutes=minutes)
        return timezone(-ahead if name[0] == "-" else ahead)
    return ZoneInfo(name)
