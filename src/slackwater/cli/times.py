"""Times and durations as people write them on a command line."""

import re
from datetime import UTC, datetime
from typing import Final

from slackwater.group.errors import UsageError

_ISO: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SHORT: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.IGNORECASE)


def duration_ms(text: str, option: str) -> int:
    """PT1H30M, or shorter: 1h30m, 90s, 2d."""
    found = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    if found is None or not any(found.groups()):
        raise UsageError(f"{option} {text} is no duration; write 90s, 1h30m, 2d or PT1H30M.")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def datetime_ms(text: str, option: str) -> int:
    """A time of ISO 8601; without a zone it is UTC, as for Kafka's tools."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text} is no time; write 2026-01-31T12:00:00 (UTC), or +01:00 behind it.") from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return int(when.timestamp() * 1000)


def clock(time_ms: int) -> str:
    """A moment of today, on the clock of whoever reads it."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")
