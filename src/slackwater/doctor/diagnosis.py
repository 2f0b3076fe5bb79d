"""The doctor's request, its result, and the exit code of the result.

Invariants:
- A group that needs action decides the exit code, then a group with an unknown cause or a failure that was read alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slackwater.doctor.verdict import UNKNOWN, Verdict

EXIT_HEALTHY: Final = 0
EXIT_ACTION_NEEDED: Final = 1
EXIT_UNKNOWN: Final = 2


@dataclass(frozen=True, slots=True)
class DiagnosisRequest:
    """What to read and which groups to diagnose."""

    paths: Sequence[str] = ()
    bootstrap: str | None = None
    cluster: str | None = None
    clusters_dir: str | None = None
    """A directory in which each sub-directory is one cluster."""
    groups: Sequence[str] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    zone: str = "UTC"
    zones: Mapping[str, str] = field(default_factory=dict)
    """Time zones of timestamps without one, by a part of the file's path; `zone` applies to all other files."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client settings for the live cluster, under Kafka's names."""
    with_timeline: bool = True
    """Verdicts include single rebalances, minutes and member timelines."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdicts, and the lines that could not be parsed."""

    verdicts: Sequence[Verdict]
    unrecognized: Sequence[tuple[str, int, str]] = ()
    """Per file: the number of lines that look relevant but match no template, and one of these lines."""


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Return the exit code of `slackwater doctor`."""
    codes = {_code(verdict) for verdict in verdicts}
    if EXIT_ACTION_NEEDED in codes:
        return EXIT_ACTION_NEEDED
    return EXIT_UNKNOWN if EXIT_UNKNOWN in codes or not codes else EXIT_HEALTHY


def _code(verdict: Verdict) -> int:
    if verdict.cause == UNKNOWN or verdict.is_partial:
        return EXIT_UNKNOWN
    return EXIT_ACTION_NEEDED if verdict.action_needed else EXIT_HEALTHY
