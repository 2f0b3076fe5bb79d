"""When a line was written: from what stands before its message, in any of the usual layouts.

Rules kept here
- A stamp with its zone is taken at its word. One without is in the zone that the caller gives for the file, or in UTC.
- The first stamp of a line counts: the one before it, which a runtime put there, has its zone.
- A wrapper's own time counts where the line itself has none. Where there is none at all, the time is null.

Layouts: `2026-11-15 19:21:51,435`, with `T`, `/`, `.`, `Z`, `+02:00`, `+0200` or `UTC`; `15 Nov 2026 19:21:51,435`;
librdkafka's `%4|1794770162.741|`; seconds, milliseconds, microseconds or nanoseconds since the epoch.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from slackwater.spark.history.recognise import literal

_CLOCK: Final = r"(\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"
_ZONE: Final = r"(?: ?(Z|UTC|GMT)| ?([+-]\d\d):?(\d\d))?"
_DATE: Final = r"(\d{4})[-/](\d\d)[-/](\d\d)[T ]" + _CLOCK + _ZONE
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"
_WORDED: Final = r"(\d\d)[-/ ]([A-Z][a-z][a-z])[-/ ](\d{4})[ :]" + _CLOCK + _ZONE
_RDKAFKA: Final = r"%\d\|(\d+)\.(\d{3})\|"
_EPOCH: Final = r"^\D{0,3}(\d{10})(\d{0,9})(?:\.(\d{1,9}))?\b"
_KAFKA: Final = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] "
"""Kafka's own layout, which nearly all lines of a large history have: its parts stand in fixed places."""
_APART: Final = "$1-$2-$3 $4|0$5|$6$7|$8"
"""A stamp taken apart by one replacement: date and clock, fraction, named zone or an offset's hours, its minutes."""
_WORDED_APART: Final = "$3-$2-$1 $4|0$5|$6$7|$8"


def time_ms(head: str, stamp: str, zone: str) -> Column:
    """Milliseconds since the epoch, from the line's head or else from its wrapper's time; null where neither tells.

    The three are names of columns, or SQL.
    """
    return F.expr(f"coalesce({_told(head, zone)}, CASE WHEN {stamp} IS NOT NULL THEN {_told(stamp, zone)} END)")


def zone_of(file: str, zones: Mapping[str, str], default: str = "UTC") -> str:
    """SQL for the zone of a file's stamps: that of the first of `zones` whose key is part of the file's path."""
    cases = " ".join(f"WHEN contains({file}, {literal(part)}) THEN {_zone(name)}" for part, name in zones.items())
    return f"CASE {cases} ELSE {_zone(default)} END" if cases else _zone(default)


def _zone(name: str) -> str:
    return literal("Z" if name == "UTC" else name)  # which Spark need not look up


def _told(text: str, zone: str) -> str:
    dated = _let(_apart(text, _DATE, _APART), _millis("p[0]", zone))
    worded = _let(_apart(text, _WORDED, _WORDED_APART), _millis(_numbered("p[0]"), zone))
    rdkafka = _digits(text, _RDKAFKA, "$1$2")
    epoch = _digits(text, _EPOCH, "$1-$2$3000")
    since = _number(f"concat(split_part({epoch}, '-', 1), left(split_part({epoch}, '-', 2), 3))")
    kafka = _kafka(text, zone)
    counted = f"CASE WHEN contains({text}, '|') THEN {_number(rdkafka)} END"
    return f"coalesce({kafka}, {dated}, {counted}, {worded}, {since})"


def _kafka(text: str, zone: str) -> str:
    clock = f"concat(substring({text}, 2, 19), '.', substring({text}, 22, 3), ' ', {zone})"
    return f"CASE WHEN {text} RLIKE {literal(_KAFKA)} THEN unix_millis(try_cast({clock} AS timestamp)) END"


def _apart(text: str, pattern: str, parts: str) -> str:
    found = f"regexp_extract({text}, {literal(pattern)}, 0)"
    return f"split(regexp_replace({found}, {literal(pattern)}, {literal(parts)}), '[|]')"


def _digits(text: str, pattern: str, parts: str) -> str:
    return f"regexp_replace(regexp_extract({text}, {literal(pattern)}, 0), {literal(pattern)}, {literal(parts)})"


def _number(digits: str) -> str:
    return f"try_cast(nullif({digits}, '') AS bigint)"  # a text that is no number costs an exception


def _let(value: str, what: str) -> str:
    """SQL that computes `value` once and uses it as `p`."""
    return f"transform(array({value}), p -> {what})[0]"


def _millis(clock: str, zone: str) -> str:
    # Of the fraction, which was put after a zero, and of the zone nothing need be there.
    own = "nullif(concat(get(p, 2), CASE WHEN get(p, 3) != '' THEN concat(':', get(p, 3)) ELSE '' END), '')"
    stamp = f"concat({clock}, '.', rpad(substring(get(p, 1), 2), 3, '0'), ' ', coalesce({own}, {zone}))"
    return f"unix_millis(try_cast({stamp} AS timestamp))"


def _numbered(clock: str) -> str:
    """A date with its month as a number, from one with its month's name."""
    month = f"cast((position(substring({clock}, 6, 3), {literal(_MONTHS)}) + 2) div 3 AS string)"
    return f"concat(substring({clock}, 1, 5), lpad({month}, 2, '0'), substring({clock}, 9))"
