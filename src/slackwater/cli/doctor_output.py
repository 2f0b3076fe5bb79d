"""The doctor's verdicts as text.

Invariants:
- A group fits on a screen: a headline with figures, two or three lines of evidence, what to do. Healthy groups share
  one line.
- On a terminal lines are wrapped to its width and coloured, unless NO_COLOR is set; in a file or a pipe they are
  neither.
- A number stays on the line of its unit. A log line is one line, cut in the middle.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import typer

from slackwater.cli.printing import count, print_line, warn
from slackwater.doctor.events.times import shown_time
from slackwater.escaping import escape_line

if TYPE_CHECKING:
    from slackwater.doctor.causes.finding import EvidenceLine
    from slackwater.doctor.diagnosis import Diagnosis
    from slackwater.doctor.timeline.pauses import LagEstimate
    from slackwater.doctor.verdict import Verdict

_SURE: Final = 0.8
_LIKELY: Final = 0.6
_POSSIBLE: Final = 0.5
_MAX_PRESCRIPTIONS: Final = 3
_MAX_UNRECOGNIZED_FILES: Final = 3
_MAX_LINE: Final = 160
"""The length of a log line in a file or a pipe."""
_MIN_WIDTH: Final = 40
_ELLIPSIS: Final = "…"
_LOGGER: Final = re.compile(r" \((?:\w+\.)+[\w.$:]*\)\s*$", re.ASCII)
_OPEN: Final = re.compile(r"\s*\([^()]*$")
"""A parenthesis that is opened and not closed: a long line is stored without its end."""
_HEAD: Final = re.compile(
    r"^(?:(?=\[?\d).{8,40}?\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b[: ]*(?:\[[^\]]*\][: ]*)*"
    r"|%\d\|[\d.]+\|\w+\|[^|]*\|\s*(?:\[thrd:[^\]]*\]:\s*)?)"
)
"""A time, a level, and what stands in brackets before the message; librdkafka's time, name and thread."""
_UUID: Final = re.compile(r"\b([0-9a-f]{8})(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?:-[0-9a-f]{1,12}){1,4}$)")
"""The random part of a member id; at the end of a line also a part of it."""
_RED: Final = typer.colors.RED
_YELLOW: Final = typer.colors.YELLOW
_GREEN: Final = typer.colors.GREEN
_CYAN: Final = typer.colors.CYAN


def print_diagnosis(diagnosis: "Diagnosis", *, all_libraries: bool = False) -> None:
    """Print all verdicts."""
    healthy = [verdict for verdict in diagnosis.verdicts if verdict.cause == "healthy"]
    for alike in _alike(verdict for verdict in diagnosis.verdicts if verdict.cause != "healthy"):
        _print_verdict(alike, diagnosis.verdicts, all_libraries=all_libraries)
    several = len({verdict.cluster for verdict in diagnosis.verdicts}) > 1
    names = [f"{verdict.group} ({verdict.cluster})" if several else verdict.group for verdict in healthy]
    if healthy:
        _print(f"healthy: {_shorten(names, 8)}", color=_GREEN)
    unsure: dict[str, list[str]] = {}
    for name, verdict in zip(names, healthy, strict=True):
        for text in verdict.missing_input:
            unsure.setdefault(text, []).append(name)
    for text, groups in unsure.items():
        of_some = f" for {_shorten(groups, 3)}" if len(groups) < len(healthy) else ""
        _print(f"not certain{of_some}: {text}", indent=2)


def warn_of_unrecognized_lines(diagnosis: "Diagnosis") -> None:
    """Report lines about groups that no template matches: they are in no verdict."""
    for file, lines, example in diagnosis.unrecognized[:_MAX_UNRECOGNIZED_FILES]:
        shown = shorten_in_the_middle(example, _MAX_LINE)
        warn(f"{file}: {count(lines, 'line')} about groups not recognised, for example: {shown}")
    if others := diagnosis.unrecognized[_MAX_UNRECOGNIZED_FILES:]:
        lines = sum(entry[1] for entry in others)
        warn(f"{count(lines, 'line')} about groups not recognised in {count(len(others), 'more file')}")
    if diagnosis.unrecognized:
        warn("--unknown prints these lines without names and addresses, for a bug report.")


def _alike(verdicts: "Iterable[Verdict]") -> "Iterable[list[Verdict]]":
    """Combine groups of a cluster with the same cause and the same evidence."""
    combined: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        same = (
            verdict.headline,
            verdict.evidence,
            verdict.other_findings,
            verdict.secondary_members,
            verdict.lag,
            verdict.confidence,
        )
        advice = (
            verdict.missing_input,
            verdict.alternatives,
            str(verdict.prescriptions),
            verdict.no_action,
            verdict.library,
        )
        own = verdict.group if not verdict.evidence else ""
        key = (verdict.cluster, verdict.cause, verdict.is_storm, verdict.culprits, own, str(same), advice)
        combined.setdefault(key, []).append(verdict)
    return combined.values()


def _combined(alike: "Sequence[Verdict]") -> "Verdict":
    return replace(
        alike[0],
        group=_shorten([verdict.group for verdict in alike], 8),
        incident_began_ms=min(verdict.incident_began_ms for verdict in alike),
        incident_ended_ms=max(verdict.incident_ended_ms for verdict in alike),
    )


def _print_verdict(alike: "Sequence[Verdict]", verdicts: "Sequence[Verdict]", *, all_libraries: bool) -> None:
    """Print what groups with the same cause and evidence have in common: usually one group."""
    from slackwater.doctor.verdict_text import also_found, explanation, incident_time, other_causes, recurrence

    verdict = _combined(alike)
    color = _RED if verdict.action_needed else _YELLOW if verdict.cause == "unknown" or verdict.is_partial else _CYAN
    _print(_title(verdict), color=color, bold=True)
    storm = f" ({again})" if (again := recurrence(verdict)) else ""
    _print(f"{explanation(verdict)}{storm}; {_rebalances(alike)}{_confidence(verdict.confidence)}", indent=2)
    if when := incident_time(verdict, verdicts):
        _print(f"when: {when}", indent=2)
    if verdict.secondary_members:
        _print(f"overloaded by the partitions they took over: {_shorten(verdict.secondary_members, 5)}", indent=2)
    for finding in verdict.other_findings:
        _print(f"also: {also_found(verdict, finding)}", indent=2)
    if verdict.lag is not None:
        _print(_lag(verdict.lag), indent=2)
    if verdict.evidence:
        _print("evidence:", indent=2, bold=True)
    for line in verdict.evidence:
        _print_evidence(line)
    for text in verdict.missing_input:
        _print(f"not certain: {text}", indent=2, color=_YELLOW)
    if verdict.alternatives:
        _print(f"other possible causes: {', '.join(other_causes(verdict))}", indent=2)
    if verdict.no_action:
        _print(f"nothing to do: {verdict.no_action}", indent=2)
    _print_prescriptions(verdict, all_libraries=all_libraries)
    print_line()


def _title(verdict: "Verdict") -> str:
    """Return the cluster, the group, the cause, the culprits and the figures that decide."""
    from slackwater.doctor.verdict_text import relation

    cluster = f"{verdict.cluster}: " if verdict.cluster else ""
    title = f"{cluster}{verdict.group}: {verdict.cause}"
    names = _shorten(verdict.culprits, 3)
    if names and verdict.headline.startswith(f"{names}: "):
        return f"{title}, {relation(verdict)} {verdict.headline}"
    if names in verdict.headline or verdict.headline.startswith(verdict.culprits[0]):
        return f"{title}: {verdict.headline}"
    return f"{title}, {relation(verdict)} {names}{'; ' if verdict.headline else ''}{verdict.headline}"


def _print_evidence(line: "EvidenceLine") -> None:
    from slackwater.doctor.history.lines import readable

    clock = shown_time(line.time_ms)
    _print(f"{clock}{'  ' if clock else ''}{line.what}  [{_relative(line.where or line.source)}]", indent=4)
    if line.line and (text := readable(line.line)):  # JSON of an event repeats what was printed
        width = (_width() or _MAX_LINE) - 6
        text = escape_line(text.replace("\t", " "))
        _print_styled(f"      {shorten_log_line(text, width)}", dim=True)


def _rebalances(alike: "Sequence[Verdict]") -> str:
    """Return the number of rebalances, and how many are not follow-ups of cooperative rebalances."""
    verdict, numbers = alike[0], {verdict.rebalances for verdict in alike}
    if len(numbers) > 1:
        return f"{min(numbers)} to {max(numbers)} rebalances per group; "
    if not verdict.rebalances or count(verdict.rebalances, "rebalance") in verdict.headline:
        return ""
    follow_ups = verdict.rebalances - verdict.changes
    second = "second steps of a cooperative change"
    more = f", {count(follow_ups, f'of them one of the {second}', f'of them {second}')}" if follow_ups else ""
    return f"{count(verdict.rebalances, 'rebalance')}{more}; "


def _relative(where: str) -> str:
    """Return the path of a file below the current directory without the path of that directory."""
    return where.removeprefix(f"{os.getcwd()}/")


def shorten_log_line(text: str, width: int) -> str:
    """Return a log line without its logger, and if it is longer than this without its head, ids and middle.

    If the middle has the words that decide, the text before them and the end are left out instead.
    """
    from slackwater.doctor.history.lines import SHOWN_CHARACTERS, deciding_words

    deciding = deciding_words(text, width) if len(text) > width else ""
    is_cut = len(text) >= SHOWN_CHARACTERS and not _LOGGER.search(text) and not _OPEN.search(text)
    text = _OPEN.sub("", _LOGGER.sub("", text))
    if len(text) > width:
        text = _HEAD.sub(_ELLIPSIS, text)
    if len(text) > width:
        text = _UUID.sub(rf"\1{_ELLIPSIS}", text)
    if is_cut and not text.endswith(_ELLIPSIS):
        text += _ELLIPSIS
    shown = shorten_in_the_middle(text, width)
    if not deciding or " ".join(deciding.split()[:2]) in shown:
        return shown
    deciding = _ELLIPSIS + _OPEN.sub("", _LOGGER.sub("", deciding))
    return shorten_in_the_middle(deciding, width)


def shorten_in_the_middle(text: str, width: int) -> str:
    """Return a text of at most this many characters, with an ellipsis for words that are left out."""
    if len(text) <= width:
        return text
    begin = text[: width // 2]
    words = begin.rpartition(" ")[0]
    begin = _OPEN.sub("", words if 5 * len(words) > len(begin) else begin)
    end = text[len(text) - (width - 1 - len(begin)) :]
    words = end.partition(" ")[2]
    return begin + _ELLIPSIS + (words if 5 * len(words) > len(end) else end)


def _print_prescriptions(verdict: "Verdict", *, all_libraries: bool) -> None:
    from slackwater.doctor.prescriptions.libraries import BROKER
    from slackwater.doctor.prescriptions.pasting import lines_to_paste, place_to_paste, settings_note
    from slackwater.doctor.verdict_text import order_of_advice

    shown = verdict.prescriptions if all_libraries else verdict.prescriptions[:_MAX_PRESCRIPTIONS]
    if shown:
        _print(f"{order_of_advice(verdict)}:", indent=2, bold=True)
    for prescription in shown:
        optional = " (optional)" if prescription.optional else ""
        _print(f"{prescription.order}. {prescription.what}{optional}", indent=2, hanging=3)
        libraries = [*prescription.properties] if all_libraries else [verdict.library]
        if any(lines_to_paste(prescription, library) for library in libraries):
            _print(f"{place_to_paste(prescription, verdict.library)}:", indent=5)
        for library in libraries:
            if all_libraries:
                _print(f"{library}:", indent=5)
            for line in lines_to_paste(prescription, library):
                _print_styled(f"       {escape_line(line)}", color=_GREEN)
        if prescription.cost != "none":
            _print(f"cost: {prescription.cost}", indent=5)
        if prescription.caution:
            _print(f"caution: {'; '.join(prescription.caution)}", indent=5)
    if left := len(verdict.prescriptions) - len(shown):
        _print(f"{left} more of these with --all-libraries, --html or --json", indent=2)
    if not all_libraries and any(prescription.properties.keys() - {BROKER} for prescription in shown):
        _print(f"{settings_note(verdict.library)}; --all-libraries prints those of the others", indent=2)
    elif shown and verdict.library:
        _print(f"the client library is {verdict.library}", indent=2)


def _lag(lag: "LagEstimate") -> str:
    text = f"lag: up to {lag.max_lag:,} records, at {_clock(lag.max_lag_ms)[:16]}"
    stopped = f"rebalances had taken {lag.stopped_ms / 1000:,.0f} s"
    if lag.by_pauses is None:
        return f"{text}; {stopped}, but stop only the partitions that move"
    return f"{text}; {lag.by_pauses / lag.max_lag:.0%} of it caused by rebalances ({stopped})"


def _confidence(confidence: float) -> str:
    words = ((_SURE, "sure"), (_LIKELY, "likely"), (_POSSIBLE, "possible"))
    word = next((word for least, word in words if confidence >= least), "unknown")
    return f"{word} (confidence {confidence:.2f})"


def _shorten(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _clock(time_ms: int) -> str:
    return shown_time(time_ms) or "(no time)"


def _width() -> int | None:
    """Return the width of the terminal; None if standard output is not one."""
    return max(shutil.get_terminal_size().columns, _MIN_WIDTH) if sys.stdout.isatty() else None


def _print(text: str, *, indent: int = 0, hanging: int = 2, color: str | None = None, bold: bool = False) -> None:
    """Print a line; on a terminal wrap it to the width of the terminal."""
    for line in _wrapped(escape_line(text), " " * indent, " " * (indent + hanging)):
        _print_styled(line, color=color, bold=bold)


def _wrapped(text: str, first: str, rest: str) -> Iterable[str]:
    width = _width()
    if width is None:
        return [first + text]
    from slackwater.doctor.verdict_text import NO_BREAK, with_units

    lines = wrap(with_units(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return (line.replace(NO_BREAK, " ") for line in lines)


def _print_styled(text: str, *, color: str | None = None, bold: bool = False, dim: bool = False) -> None:
    """Print an escaped line, in colour if the terminal shows colours and they are not switched off."""
    has_color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    typer.echo(typer.style(text, fg=color, bold=bold or None, dim=dim or None) if has_color else text)
