"""The result of a rule: a cause, the culprits, the times and a confidence.

Invariants:
- A confidence of 0.8 (`SURE`) or more is sure; below it, `missing_input` names what would decide.
- A finding has the few lines that decide it, not all lines that agree with it.
- `figures` are measured, never assumed: remedies compute their numbers from them. `handler_blocks` is a flag (1).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.doctor.events.rows import Row
from slackwater.doctor.events.serialization import pickle_by_fields
from slackwater.doctor.events.times import has_clock
from slackwater.group.events import EventKind

CERTAIN: Final = 0.95
NEARLY_CERTAIN: Final = 0.9
SURE: Final = 0.8
LIKELY: Final = 0.7
POSSIBLE: Final = 0.65
UNSURE: Final = 0.4
"""Confidences, in descending order."""
_SHOWN: Final = 3
_SAME_FAILURE_MS: Final = 1_000


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One line that decides a finding."""

    time_ms: int
    source: str
    what: str
    where: str | None = None
    line: str | None = None
    """The log line."""


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Finding:
    """A cause found by a rule."""

    cause: str
    culprits: tuple[str, ...]
    times: tuple[int, ...]
    confidence: float
    evidence: tuple[EvidenceLine, ...] = ()
    secondary_members: tuple[str, ...] = ()
    is_recurring: bool = False
    figures: Mapping[str, int] = field(default_factory=dict)
    missing_input: tuple[str, ...] = ()
    """What is unknown, and which source contains it."""
    alternatives: tuple[str, ...] = ()
    """Causes that leave the same rows in the sources that were read."""
    is_partial: bool = False
    """The context of the failure is missing in the input: it may or may not need action."""
    headline: str = ""
    """The headline of its verdict if the figures cannot describe it (doctor/headlines.py)."""


def evidence(row: Row | None, what: str) -> EvidenceLine | None:
    """Convert a row to a line of evidence."""
    if row is None:
        return None
    return EvidenceLine(row.time_ms, row.source, what, row.where, row.line)


def joining(row: Row | None, otherwise: str = "joined") -> str:
    """Return what a line about a join shows: a new member first asks for an id."""
    return "asked to join as a new member" if row is not None and row.kind == EventKind.MEMBER_ID_ISSUED else otherwise


def occasions(failures: Iterable[Row]) -> list[Row]:
    """Return the first line of each failure: a client reports one in several lines (response, exception, handler)."""
    last_ms: dict[str, int] = {}
    first: list[Row] = []
    for row in failures:
        name = row.instance or row.client or row.label or row.member or ""
        since_ms = row.time_ms - last_ms.get(name, 0) if has_clock(row.time_ms) else _SAME_FAILURE_MS + 1
        if since_ms > _SAME_FAILURE_MS:
            first.append(row)
        last_ms[name] = row.time_ms
    return first


def shown(lines: Iterable[EvidenceLine | None]) -> tuple[EvidenceLine, ...]:
    """Return the first few lines that exist. A log line with several findings is shown once."""
    present: list[EvidenceLine] = []
    for line in lines:
        if line is not None and (line.where is None or all(line.where != other.where for other in present)):
            present.append(line)
    return tuple(present[:_SHOWN])


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct names in order."""
    return tuple(dict.fromkeys(names))
