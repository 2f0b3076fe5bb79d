"""The values of the placeholders in remedies, computed from measured figures."""

from collections.abc import Mapping
from typing import Final

from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.prescriptions import numbers

POLL_RECORDS_FIGURE: Final = "poll_records"
RECORDS_PERCENT: Final = "records_percent"
"""What percentage of the present max.poll.records to set; only if the present value is unknown."""
PERCENT_REASON: Final = "percent_reason"
_COOLDOWN_PERIODS: Final = 4


def values_of(figures: Mapping[str, int]) -> dict[str, str]:
    """Return all values for placeholders that can be computed."""
    values = {"basis": _basis(figures)} | _poll_values(figures)
    for name in ("pause", "restart", "handler"):
        longest = _longest_ms(figures) if name == "handler" else None
        session = numbers.with_margin(figures.get(f"{name}_ms") or longest)
        if session is not None:
            present = figures.get("session_ms") or SESSION_TIMEOUT_MS
            session = min(max(session, present, numbers.MIN_SESSION_MS), numbers.MAX_SESSION_MS)
            values[f"{name}_session_ms"] = str(session)
            values[f"{name}_heartbeat_ms"] = str(numbers.heartbeat(session))
            values.setdefault("session", numbers.seconds(session))
            if name == "restart" and present == session:  # also if it is unknown: then both are the default
                values["session_now"] = values["session"]
    if session_now := figures.get("session_ms"):
        values["session_now"] = numbers.seconds(session_now)
    if period := figures.get("period_ms"):
        values["cooldown"] = numbers.seconds(numbers.round_up(_COOLDOWN_PERIODS * period))
    if (spread := numbers.with_margin(figures.get("spread_ms"))) is not None:
        values["herd_delay_ms"], values["herd_delay"] = str(spread), numbers.seconds(spread)
    return values


def _poll_values(figures: Mapping[str, int]) -> dict[str, str]:
    limit, longest = figures.get("limit_ms"), _longest_ms(figures)
    values: dict[str, str] = {}
    poll = numbers.with_margin(longest)
    if poll is not None and limit:
        values["poll_interval_ms"], values["poll"] = str(poll), numbers.seconds(poll)
        values["poll_now"] = numbers.seconds(limit)
    if records := figures.get(POLL_RECORDS_FIGURE):
        if (fewer := numbers.fewer_records(limit, longest, records)) is not None:
            values["poll_records"] = str(fewer)
    elif limit and longest and (percent := numbers.percent_of_records(limit, longest)) is not None:
        values["poll_records"] = f"{percent} % of the present value"
        values[RECORDS_PERCENT] = str(percent)
        values[PERCENT_REASON] = (
            f"{numbers.measured(longest)} must fit into {numbers.seconds(limit)} with a third of it as a margin"
        )
    return values


def _basis(figures: Mapping[str, int]) -> str:
    """Return the measurement that a limit for batches is based on."""
    batches = figures.get("late_batches", 0)
    if p99 := figures.get("p99_ms"):
        return f"the 99th percentile of {batches} late batches ({numbers.measured(p99)})"
    if batches > 1 and _longest_ms(figures):
        return f"the longest of {batches} late batches ({numbers.measured(figures['longest_ms'])})"
    if _longest_ms(figures):
        return "the longest batch"
    limit = figures.get("limit_ms")
    shows = f"shows only that it takes more than {numbers.seconds(limit)}" if limit else "does not show its duration"
    return f"the longest batch (measure it: the input {shows})"


def _longest_ms(figures: Mapping[str, int]) -> int | None:
    """Return the time of the longest batch; None if the input only shows that it was longer than the limit."""
    longest = figures.get("p99_ms") or figures.get("longest_ms")
    return None if longest is not None and longest <= figures.get("limit_ms", 0) else longest
