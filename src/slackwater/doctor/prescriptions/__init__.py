"""Prescriptions: what to set, per library, with the numbers of this history, the cost and the conflicts.

Invariants:
- A prescription is a remedy with its numbers filled in; the order is the order in which to try them.
- A setting whose number was not measured is left out, and the text names what to measure.
- `settings` (Kafka's names and values) are all that a simulator needs to replay the history.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from slackwater.doctor.events.serialization import pickle_by_fields
from slackwater.doctor.prescriptions import numbers
from slackwater.doctor.prescriptions.libraries import properties
from slackwater.doctor.prescriptions.remedies import REMEDIES, Remedy

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_CHANGE: Final = re.compile(r"\{(\w+)\} instead of \{(\w+)\}")
_COOLDOWN_PERIODS: Final = 4


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Prescription:
    """One thing to do, with the numbers of this group."""

    order: int
    what: str
    where: str
    cost: str
    settings: dict[str, str]
    properties: dict[str, tuple[str, ...]]
    caution: tuple[str, ...]
    cites: tuple[str, ...]
    optional: bool


def prescribe(cause: str, figures: Mapping[str, int]) -> tuple[Prescription, ...]:
    """Return the prescriptions for a cause, given the measured figures."""
    if cause == "poll_delay" and figures.get("handler_blocks"):
        cause = "handler_blocks_heartbeats"
    if cause == "startup_herd" and figures.get("rounds") == 1:
        cause = "startup_in_one_round"
    values = _values(figures)
    remedies = enumerate(REMEDIES.get(cause, ()), start=1)
    prescriptions = tuple(_fill_in(order, remedy, values) for order, remedy in remedies)
    if "poll_records" in figures:
        return prescriptions
    return tuple(map(_note_default_records, prescriptions))


def _note_default_records(prescription: Prescription) -> Prescription:
    """Add to a computed max.poll.records that it is based on the default."""
    records = prescription.settings.get("max.poll.records")
    if records is None:
        return prescription
    share = max(1, round(100 * int(records) / numbers.DEFAULT_POLL_RECORDS))
    note = f"computed from the default of {numbers.DEFAULT_POLL_RECORDS}; if yours differs, use {share}% of it"
    return replace(prescription, what=f"{prescription.what} ({note})")


def _fill_in(order: int, remedy: Remedy, values: Mapping[str, str]) -> Prescription:
    settings = {name: text for name, value in remedy.settings.items() if (text := _fill(value, values)) is not None}
    unmeasured = sorted(set(remedy.settings) - set(settings))
    what = _fill(remedy.what, values) or _PLACEHOLDER.sub("?", remedy.what)
    if unmeasured:
        what += f" (the input gives no value for {', '.join(unmeasured)}: measure it first)"
    return Prescription(
        order=order,
        what=what,
        where=remedy.where,
        cost=_fill(_without_equal_numbers(remedy.cost, values), values) or _without_numbers(remedy.cost),
        settings=settings,
        properties=properties(settings),
        caution=remedy.caution,
        cites=remedy.cites,
        optional=remedy.optional,
    )


def _fill(text: str, values: Mapping[str, str]) -> str | None:
    """Fill in the placeholders; None if a value is missing."""
    if any(match[1] not in values for match in _PLACEHOLDER.finditer(text)):
        return None
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _without_equal_numbers(text: str, values: Mapping[str, str]) -> str:
    """Remove a clause `… after {new} instead of {now}` whose numbers are equal; "none" if nothing is left."""
    clauses = [
        clause
        for clause in text.split("; ")
        if not ((match := _CHANGE.search(clause)) and values.get(match[1], "?") == values.get(match[2]))
    ]
    return "; ".join(clauses) or "none"


def _without_numbers(text: str) -> str:
    return re.sub(r" after \{\w+\} instead of \{\w+\}", " later", text).replace("{herd_delay} later", "later")


def _basis(figures: Mapping[str, int]) -> str:
    """Return the measurement that a limit for batches is based on."""
    batches = figures.get("late_batches", 0)
    if p99 := figures.get("p99_ms"):
        return f"the 99th percentile of {batches} late batches ({numbers.measured(p99)})"
    if batches > 1 and "longest_ms" in figures:
        return f"the longest of {batches} late batches ({numbers.measured(figures['longest_ms'])})"
    return "the longest batch"


def _values(figures: Mapping[str, int]) -> dict[str, str]:
    """Return all values for placeholders that can be computed."""
    values: dict[str, str] = {}
    limit, longest = figures.get("limit_ms"), figures.get("p99_ms") or figures.get("longest_ms")
    values["basis"] = _basis(figures)
    poll = numbers.with_margin(longest)
    if poll is not None and limit:
        values["poll_interval_ms"], values["poll"] = str(poll), numbers.seconds(poll)
        values["poll_now"] = numbers.seconds(limit)
    if (
        fewer := numbers.fewer_records(limit, longest, figures.get("poll_records", numbers.DEFAULT_POLL_RECORDS))
    ) is not None:
        values["poll_records"] = str(fewer)
    for name in ("pause", "restart", "handler"):
        session = numbers.with_margin(figures.get(f"{name}_ms") or (longest if name == "handler" else None))
        if session is not None:
            session = min(max(session, figures.get("session_ms", 0)), numbers.MAX_SESSION_MS)
            values[f"{name}_session_ms"] = str(session)
            values[f"{name}_heartbeat_ms"] = str(numbers.heartbeat(session))
            values.setdefault("session", numbers.seconds(session))
    if session_now := figures.get("session_ms"):
        values["session_now"] = numbers.seconds(session_now)
    if period := figures.get("period_ms"):
        values["cooldown"] = numbers.seconds(numbers.round_up(_COOLDOWN_PERIODS * period))
    if (spread := numbers.with_margin(figures.get("spread_ms"))) is not None:
        values["herd_delay_ms"], values["herd_delay"] = str(spread), numbers.seconds(spread)
    return values
