"""The lines that verdicts cite: their numbers and texts, found after the diagnosis.

Invariants:
- A verdict cites a line by its file and position. Only cited lines are read again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from slackwater.doctor.causes.finding import EvidenceLine
from slackwater.doctor.history.files import display_name
from slackwater.doctor.history.ranges import LineCount
from slackwater.doctor.verdict import Verdict, with_library

LinePosition = tuple[str, int]
"""A file and a position."""


class NumberedLine(NamedTuple):
    """A line of the evidence: its number in its file, from 1, and its text."""

    number: int
    text: str | None


FindLines = Callable[[Collection[LinePosition]], Mapping[LinePosition, NumberedLine]]


def cite_lines(verdicts: Sequence[Verdict], find: FindLines) -> list[Verdict]:
    """Replace `file:position` in the evidence by `file:line`, and add the text of the line."""
    positions = {
        position
        for verdict in verdicts
        for line in (*verdict.evidence, *verdict.client_lines)
        if (position := _line_position(line)) is not None
    }
    lines = find(positions)
    return [
        with_library(
            replace(
                verdict,
                evidence=tuple(_with_line(line, lines) for line in verdict.evidence),
                client_lines=tuple(_with_line(line, lines) for line in verdict.client_lines),
            )
        )
        for verdict in verdicts
    ]


def _line_position(evidence: EvidenceLine) -> tuple[str, int] | None:
    file, colon, offset = (evidence.where or "").rpartition(":")
    is_log_line = colon and offset.isdigit() and evidence.source.endswith("_log")
    return (file, int(offset)) if is_log_line else None


def _with_line(evidence: EvidenceLine, lines: Mapping[tuple[str, int], NumberedLine]) -> EvidenceLine:
    position = _line_position(evidence)
    shown = None if position is None else lines.get(position)
    if position is None or shown is None:
        return evidence
    return replace(evidence, where=f"{display_name(position[0])}:{shown.number}", line=shown.text)


def number_lines(counts: Iterable[LineCount]) -> Iterator[tuple[LinePosition, NumberedLine]]:
    """Add up the line ends of each file. At the border of two ranges, the count of the first one comes first."""
    name, total = "", 0
    for count in sorted(counts, key=lambda count: (count.name, count.position, count.text is not None)):
        total = count.line_ends + (total if count.name == name else 0)
        name = count.name
        if count.text is not None:
            yield (name, count.position), NumberedLine(total + 1, count.text)
