"""Numbers of a prescription, computed from measured figures.

Invariants:
- A limit is set to 1.5 times the longest measured time, rounded up to a common value.
- The heartbeat interval is a third of the session timeout.
- A number that was not measured is None, and the prescription names what to measure.
"""

from typing import Final

MARGIN: Final = 1.5
MIN_SESSION_MS: Final = 6_000
"""Kafka's default of group.min.session.timeout.ms; brokers reject a shorter session."""
MAX_SESSION_MS: Final = 1_800_000
"""Kafka's default of group.max.session.timeout.ms; brokers reject a longer session."""
DEFAULT_POLL_RECORDS: Final = 500
SPARK_SESSION_MS: Final = 120_000
"""The session timeout of Slackwater's Spark source if the query does not set one."""
_STEPS: Final = (1, 1.5, 2, 3, 4, 4.5, 5, 6, 7.5, 9, 10)


def with_margin(longest_ms: int | None) -> int | None:
    """Return 1.5 times the value, rounded up."""
    return None if not longest_ms else round_up(longest_ms * MARGIN)


def round_up(value_ms: float) -> int:
    """Round up to a common value: 10 s, 15 s, 45 s, 60 s."""
    scale = 1000
    while value_ms > 10 * scale:
        scale *= 10
    return next((int(step * scale) for step in _STEPS if value_ms <= step * scale), int(value_ms))


def heartbeat(session_ms: int) -> int:
    """Return the heartbeat interval for a session timeout."""
    return max(1, session_ms // 3)


def percent_of_records(limit_ms: int | None, longest_ms: int | None) -> int | None:
    """Return the percentage of the records with which the longest batch would have taken two thirds of the limit."""
    if not limit_ms or not longest_ms:
        return None
    return max(1, min(99, int(100 * (limit_ms / MARGIN) / longest_ms)))


def fewer_records(limit_ms: int | None, longest_ms: int | None, now: int = DEFAULT_POLL_RECORDS) -> int | None:
    """Return a number with which the longest batch would have taken two thirds of the limit."""
    if not limit_ms or not longest_ms:
        return None
    return max(1, int(now * (limit_ms / MARGIN) / longest_ms))


def measured(value_ms: int) -> str:
    """Format a measured duration with two digits or more: 3.0 s, 400 s, 15 min, 121 min."""
    if value_ms < 10_000:
        return f"{value_ms / 1000:.1f} s"
    return seconds(round(value_ms, -3)) if value_ms < 600_000 else f"{round(value_ms / 60_000)} min"


def seconds(value_ms: int) -> str:
    """Format a duration."""
    if value_ms < 1000:
        return f"{value_ms} ms"
    return f"{value_ms / 1000:g} s" if value_ms < 600_000 else f"{value_ms / 60_000:g} min"
