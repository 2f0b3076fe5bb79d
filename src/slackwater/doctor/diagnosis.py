"""What is asked of the doctor, and what comes out of it.

Rules kept here
- One action that is needed outweighs everything else, then not knowing, then calm: a script acts on the worst.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slackwater.doctor.verdict import UNKNOWN, Verdict

CALM: Final = 0
ACTION_NEEDED: Final = 1
COULD_NOT_TELL: Final = 2
BAD_INPUT: Final = 3


@dataclass(frozen=True, slots=True)
class Patient:
    """What is to be examined."""

    paths: Sequence[str] = ()
    bootstrap: str | None = None
    cluster: str | None = None
    below: str | None = None
    """A directory whose sub-directories are clusters."""
    groups: Sequence[str] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    zone: str = "UTC"
    zones: Mapping[str, str] = field(default_factory=dict)
    """Zones of stamps that have none, by a part of their file's path; `zone` for all others."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """A client's settings for the live cluster, under Kafka's names."""
    drawn: bool = True
    """A page will be drawn: verdicts have their single rounds, minutes and lanes."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdicts, and what could not be read."""

    verdicts: Sequence[Verdict]
    unread: Sequence[tuple[str, int, str]] = ()
    """Per file: how many lines looked relevant and were not understood, and one of them."""


def exit_code(found: Iterable[Verdict]) -> int:
    """What a script gets."""
    codes = {_code(verdict) for verdict in found}
    if ACTION_NEEDED in codes:
        return ACTION_NEEDED
    return COULD_NOT_TELL if COULD_NOT_TELL in codes or not codes else CALM


def _code(verdict: Verdict) -> int:
    if verdict.cause == UNKNOWN:
        return COULD_NOT_TELL
    return ACTION_NEEDED if verdict.action_needed else CALM
