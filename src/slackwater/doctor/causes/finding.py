"""What a rule finds: a cause, who brought it about, when, and how sure one can be.

Rules kept here
- Confidence is a number: 0.8 and above is sure (`SURE`), below it something is said that would decide it.
- A finding carries the few lines that decide it, not all that agree with it.
- `figures` are measured, never assumed: a remedy computes its numbers from them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from slackwater.doctor.events.rows import Row
from slackwater.doctor.events.serialization import travelling

SURE: Final = 0.8
CERTAIN: Final = 0.95
CERTAIN_ENOUGH: Final = 0.9
LIKELY: Final = 0.7
UNSURE: Final = 0.4
_SHOWN: Final = 3


@travelling
@dataclass(frozen=True, slots=True)
class Evidence:
    """One line that decides."""

    time_ms: int
    source: str
    what: str
    where: str | None = None
    line: str | None = None
    """The line itself, as it was read."""


@travelling
@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that a rule recognised."""

    cause: str
    culprits: tuple[str, ...]
    times: tuple[int, ...]
    confidence: float
    evidence: tuple[Evidence, ...] = ()
    secondary: tuple[str, ...] = ()
    recurring: bool = False
    figures: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """What could not be told, and which source would tell it."""
    alternatives: tuple[str, ...] = ()
    """Causes that would leave the same traces in what was read."""


def evidence(row: Row | None, what: str) -> Evidence | None:
    """A row as a line of evidence."""
    if row is None:
        return None
    return Evidence(row.time_ms, row.source, what, row.where, row.said)


def shown(lines: Iterable[Evidence | None]) -> tuple[Evidence, ...]:
    """The first few of the lines there are."""
    return tuple(islice((line for line in lines if line is not None), _SHOWN))


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Names in order, each once."""
    return tuple(dict.fromkeys(names))
