"""Numbers of a prescription, from what was measured.

Rules kept here
- A limit is set half as much again above the longest that was seen, rounded up to a number that people write.
- A heartbeat is a third of the session: three chances before it ends.
- What was not measured is not made up: the number is then None, and the prescription says what to measure.
"""

from typing import Final

ROOM: Final = 1.5
MAX_SESSION_MS: Final = 1_800_000
"""Kafka's default of group.max.session.timeout.ms; a longer session is refused."""
DEFAULT_POLL_RECORDS: Final = 500
_STEPS: Final = (1, 1.5, 2, 3, 4, 4.5, 5, 6, 7.5, 9, 10)


def with_room(longest_ms: int | None) -> int | None:
    """Half as much again, rounded up."""
    return None if not longest_ms else round_up(longest_ms * ROOM)


def round_up(value_ms: float) -> int:
    """The next number that people write: 10 s, 15 s, 45 s, 60 s."""
    scale = 1000
    while value_ms > 10 * scale:
        scale *= 10
    return next((int(step * scale) for step in _STEPS if value_ms <= step * scale), int(value_ms))


def heartbeat(session_ms: int) -> int:
    """A third of the session."""
    return max(1, session_ms // 3)


def fewer_records(limit_ms: int | None, longest_ms: int | None, now: int = DEFAULT_POLL_RECORDS) -> int | None:
    """So many that the longest batch would have taken two thirds of the limit."""
    if not limit_ms or not longest_ms:
        return None
    return max(1, int(now * (limit_ms / ROOM) / longest_ms))


def seconds(value_ms: int) -> str:
    """A length of time as people say it."""
    if value_ms < 1000:
        return f"{value_ms} ms"
    return f"{value_ms / 1000:g} s" if value_ms < 600_000 else f"{value_ms / 60_000:g} min"
