"""Parse times and durations of the command line."""

import re
from datetime import UTC, datetime
from typing import Final

from slackwater.group.errors import UsageError

_ISO: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SHORT: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.IGNORECASE)


def duration_ms(text: str, option: str) -> int:
    """Parse PT1H30M, or the short forms 1h30m, 90s, 2d."""
    match = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    if match is None or not any(match.groups()):
        raise UsageError(f"{option} {text} is not a duration. Use 90s, 1h30m, 2d or PT1H30M.")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def datetime_ms(text: str, option: str) -> int:
    """Parse an ISO 8601 time; without a zone it is UTC, as in Kafka's tools."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text} is not a time. Use 2026-01-31T12:00:00 (UTC), or append +01:00.") from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return int(when.timestamp() * 1000)


def clock(time_ms: int) -> str:
    """The time of day in the local time zone."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")
