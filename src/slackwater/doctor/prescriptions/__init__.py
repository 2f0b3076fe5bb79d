"""Prescriptions: what to set, per library, with the numbers of this history, its price, and what it fights with.

Rules kept here
- A prescription is a remedy with its numbers filled in; the order is the order in which to try them.
- A number that was not measured leaves its setting out, and the text says what to measure.
- `settings` alone (Kafka's names and values) are what a simulator needs to run the history again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from slackwater.doctor.events.serialization import travelling
from slackwater.doctor.prescriptions import numbers
from slackwater.doctor.prescriptions.libraries import properties
from slackwater.doctor.prescriptions.remedies import REMEDIES, Remedy

_HOLE: Final = re.compile(r"\{(\w+)\}")
_COOLDOWN_SWINGS: Final = 4


@travelling
@dataclass(frozen=True, slots=True)
class Prescription:
    """One thing to do, with this group's numbers."""

    order: int
    what: str
    where: str
    price: str
    settings: dict[str, str]
    properties: dict[str, tuple[str, ...]]
    fights: tuple[str, ...]
    cites: tuple[str, ...]
    optional: bool


def prescribe(cause: str, figures: Mapping[str, int]) -> tuple[Prescription, ...]:
    """What to do about a cause, given what was measured."""
    if cause == "poll_delay" and figures.get("handler_blocks"):
        cause = "handler_blocks_heartbeats"
    if cause == "startup_herd" and figures.get("rounds") == 1:
        cause = "startup_in_one_round"
    values = _values(figures)
    found = tuple(_filled(at, remedy, values) for at, remedy in enumerate(REMEDIES.get(cause, ()), start=1))
    return found if "poll_records" in figures else tuple(_by_default(one) for one in found)


def _by_default(one: Prescription) -> Prescription:
    """A number of records that was reckoned from the default says so."""
    wanted = one.settings.get("max.poll.records")
    if wanted is None:
        return one
    share = max(1, round(100 * int(wanted) / numbers.DEFAULT_POLL_RECORDS))
    by = f"reckoned from the default, {numbers.DEFAULT_POLL_RECORDS}; if it is another, {share}% of that"
    return replace(one, what=f"{one.what} ({by})")


def _filled(order: int, remedy: Remedy, values: Mapping[str, str]) -> Prescription:
    settings = {name: text for name, value in remedy.settings.items() if (text := _fill(value, values)) is not None}
    unmeasured = sorted(set(remedy.settings) - set(settings))
    what = _fill(remedy.what, values) or _HOLE.sub("?", remedy.what)
    if unmeasured:
        what += f" (measure it first: what was read gives no number for {', '.join(unmeasured)})"
    return Prescription(
        order=order,
        what=what,
        where=remedy.where,
        price=_fill(remedy.price, values) or _without_numbers(remedy.price),
        settings=settings,
        properties=properties(settings),
        fights=remedy.fights,
        cites=remedy.cites,
        optional=remedy.optional,
    )


def _fill(text: str, values: Mapping[str, str]) -> str | None:
    """The text with its holes filled; None when one of them cannot be."""
    if any(match[1] not in values for match in _HOLE.finditer(text)):
        return None
    return _HOLE.sub(lambda match: values[match[1]], text)


def _without_numbers(text: str) -> str:
    return re.sub(r" after \{\w+\} instead of \{\w+\}", " later", text).replace("{herd_delay} later", "later")


def _values(figures: Mapping[str, int]) -> dict[str, str]:
    """Every number that a remedy may ask for, of those that can be computed."""
    values: dict[str, str] = {}
    limit, longest = figures.get("limit_ms"), figures.get("longest_ms")
    poll = numbers.with_room(longest)
    if poll is not None and limit:
        values["poll_interval_ms"], values["poll"] = str(poll), numbers.seconds(poll)
        values["poll_now"] = numbers.seconds(limit)
    if (
        fewer := numbers.fewer_records(limit, longest, figures.get("poll_records", numbers.DEFAULT_POLL_RECORDS))
    ) is not None:
        values["poll_records"] = str(fewer)
    for name in ("pause", "restart", "handler"):
        session = numbers.with_room(figures.get(f"{name}_ms") or (longest if name == "handler" else None))
        if session is not None:
            session = min(max(session, figures.get("session_ms", 0)), numbers.MAX_SESSION_MS)
            values[f"{name}_session_ms"] = str(session)
            values[f"{name}_heartbeat_ms"] = str(numbers.heartbeat(session))
            values.setdefault("session", numbers.seconds(session))
    if session_now := figures.get("session_ms"):
        values["session_now"] = numbers.seconds(session_now)
    if period := figures.get("period_ms"):
        values["cooldown"] = numbers.seconds(numbers.round_up(_COOLDOWN_SWINGS * period))
    if (spread := numbers.with_room(figures.get("spread_ms"))) is not None:
        values["herd_delay_ms"], values["herd_delay"] = str(spread), numbers.seconds(spread)
    return values
