"""The doctor's verdicts as text.

Invariants:
- A verdict is short: cause, culprits, two or three lines of evidence, what to do. Healthy groups share one line.
- On a terminal lines are wrapped to its width; in a file or a pipe they are not.
"""

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from slackwater.cli.printing import count, print_line, warn
from slackwater.escaping import escape_line

if TYPE_CHECKING:
    from slackwater.doctor.diagnosis import Diagnosis
    from slackwater.doctor.prescriptions import Prescription
    from slackwater.doctor.timeline.pauses import LagEstimate
    from slackwater.doctor.verdict import Verdict

_SURE: Final = 0.8
_LIKELY: Final = 0.5
_MAX_PRESCRIPTIONS: Final = 3
_MAX_UNRECOGNIZED_FILES: Final = 3


def print_diagnosis(diagnosis: "Diagnosis") -> None:
    """Print all verdicts."""
    healthy = [verdict for verdict in diagnosis.verdicts if verdict.cause == "healthy"]
    for verdict in diagnosis.verdicts:
        if verdict.cause != "healthy":
            _print_verdict(verdict)
    if healthy:
        _print(f"healthy: {_shorten([verdict.group for verdict in healthy], 8)}")
    unsure: dict[str, list[str]] = {}
    for verdict in healthy:
        for text in verdict.missing:
            unsure.setdefault(text, []).append(verdict.group)
    for text, groups in unsure.items():
        _print(f"not certain for {_shorten(groups, 3)}: {text}", indent=2)


def warn_of_unrecognized_lines(diagnosis: "Diagnosis") -> None:
    """Report lines about groups that no template matches: they are in no verdict."""
    for file, lines, example in diagnosis.unrecognized[:_MAX_UNRECOGNIZED_FILES]:
        warn(f"{file}: {count(lines, 'line')} about groups not recognised, for example: {example[:160]}")
    if others := diagnosis.unrecognized[_MAX_UNRECOGNIZED_FILES:]:
        lines = sum(entry[1] for entry in others)
        warn(f"{count(lines, 'line')} about groups not recognised in {count(len(others), 'more file')}")


def _print_verdict(verdict: "Verdict") -> None:
    from slackwater.doctor.causes.rules import CAUSES

    cluster = f"{verdict.cluster}: " if verdict.cluster else ""
    culprits = f", caused by {_shorten(verdict.culprits, 5)}" if verdict.culprits else ""
    _print(f"{cluster}{verdict.group}: {verdict.cause}{culprits}")
    storm = " (a rebalance storm)" if verdict.storm else ""
    _print(
        f"{CAUSES[verdict.cause].summary}{storm}; {count(verdict.rebalances, 'rebalance')}, "
        f"{count(verdict.changes, 'change')}; {_confidence(verdict.confidence)}",
        indent=2,
    )
    if verdict.secondary:
        _print(f"overloaded by the partitions they took over: {_shorten(verdict.secondary, 5)}", indent=2)
    for finding in verdict.also:
        by = f", caused by {_shorten(finding.culprits, 5)}" if finding.culprits else ""
        _print(f"also: {finding.cause}{by}", indent=2)
    if verdict.lag is not None:
        _print(_lag(verdict.lag), indent=2)
    if verdict.evidence:
        _print("evidence:", indent=2)
    for line in verdict.evidence:
        _print(f"{_clock(line.time_ms)}  {line.what}  [{line.where or line.source}]", indent=4)
    for text in verdict.missing:
        _print(f"not certain: {text}", indent=2)
    if verdict.alternatives:
        _print(f"other possible causes: {', '.join(verdict.alternatives)}", indent=2)
    _print_prescriptions(verdict)
    print_line()


def _print_prescriptions(verdict: "Verdict") -> None:
    from slackwater.doctor.prescriptions.libraries import library_of

    client_lines = (line.line for line in verdict.evidence if line.line and line.source == "client_log")
    library = library_of(client_lines, heartbeats_between_messages="handler_blocks" in verdict.figures)
    shown = verdict.prescriptions[:_MAX_PRESCRIPTIONS]
    if shown:
        _print("what to do, in this order:", indent=2)
    for prescription in shown:
        _print(f"{prescription.order}. {prescription.what}", indent=2, hanging=3)
        for line in _lines_to_paste(prescription, library):
            print_line(f"       {line}")
        if prescription.cost != "none":
            _print(f"cost: {prescription.cost}", indent=5)
        for text in prescription.caution:
            _print(f"caution: {text}", indent=5)
    if left := len(verdict.prescriptions) - len(shown):
        _print(f"{left} more with --html or --json", indent=2)
    if any(prescription.properties.keys() - {"broker"} for prescription in shown):
        _print(
            f"setting names are those of {library or 'Kafka'}; --html and --json have the names of all libraries",
            indent=2,
        )


def _lines_to_paste(prescription: "Prescription", library: str | None) -> Sequence[str]:
    """Return the settings in the group's library, or under Kafka's names."""
    lines = prescription.properties.get(library or "") or prescription.properties.get("broker")
    return lines or [f"{setting}={value}" for setting, value in prescription.settings.items()]


def _lag(lag: "LagEstimate") -> str:
    text = f"lag: up to {lag.max_lag:,} records, at {_clock(lag.max_lag_ms)[:16]}"
    stopped = f"rebalances had taken {lag.stopped_ms / 1000:,.0f} s"
    if lag.by_pauses is None:
        return f"{text}; {stopped}, but stop only the partitions that move"
    return f"{text}; {lag.by_pauses / lag.max_lag:.0%} of it caused by rebalances ({stopped})"


def _confidence(confidence: float) -> str:
    word = "sure" if confidence >= _SURE else "likely" if confidence > _LIKELY else "unknown"
    return f"{word} (confidence {confidence:.2f})"


def _shorten(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _print(text: str, *, indent: int = 0, hanging: int = 2) -> None:
    """Print a line; on a terminal wrap it to the width of the terminal."""
    first, rest = " " * indent, " " * (indent + hanging)
    if not sys.stdout.isatty():
        print_line(first + text)
        return
    width = shutil.get_terminal_size().columns
    for line in wrap(escape_line(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
        print_line(line)
