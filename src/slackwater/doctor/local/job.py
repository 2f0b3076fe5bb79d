"""The doctor's job in this process: the history of local files and of a small cluster, the verdicts, their lines.

Invariants:
- It has the steps of Spark's job (spark/doctor/job.py) and the same functions for lines, rows and verdicts.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from urllib.parse import unquote

from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest
from slackwater.doctor.grouping import Selection, diagnose_rows
from slackwater.doctor.history.evidence import LinePosition, NumberedLine, cite_lines, number_lines
from slackwater.doctor.history.files import LocalFile
from slackwater.doctor.history.garbage_collection import garbage_collection_paused
from slackwater.doctor.history.ranges import LogFileRange, count_lines
from slackwater.doctor.input_paths import no_events_error, unreadable_file_error
from slackwater.doctor.local.attribution import EventRow
from slackwater.doctor.local.history import LocalHistory


def diagnose(
    request: DiagnosisRequest,
    files: Sequence[LocalFile],
    live: Sequence[EventRow] = (),
    on_progress: Callable[[int], None] = lambda _: None,
) -> Diagnosis:
    """Return the verdicts on the groups in these files and in the rows of a live cluster."""
    try:
        with garbage_collection_paused():
            return _diagnose(request, files, live, on_progress)
    except OSError as error:
        raise unreadable_file_error(error.filename, error.strerror) from error


def _diagnose(
    request: DiagnosisRequest,
    files: Sequence[LocalFile],
    live: Sequence[EventRow],
    on_progress: Callable[[int], None],
) -> Diagnosis:
    history = LocalHistory(request, files, live, on_progress)
    selection = Selection(request.groups, request.since_ms, request.until_ms, request.with_timeline)
    verdicts = diagnose_rows(history.table(), history.cluster_histories(selection), selection)
    verdicts.sort(key=lambda verdict: (verdict.cluster, verdict.group))
    unrecognized = history.unrecognized()
    if request.paths and not verdicts and not history.has_events(selection):
        raise no_events_error(request, unrecognized)
    if request.clusters_dir is not None:
        verdicts = [replace(verdict, cluster=unquote(verdict.cluster)) for verdict in verdicts]
    return Diagnosis(cite_lines(verdicts, lambda positions: _find_lines(files, positions)), unrecognized)


def _find_lines(
    files: Sequence[LocalFile], line_positions: Collection[LinePosition]
) -> dict[LinePosition, NumberedLine]:
    """Return the lines at these positions; files are read up to the last position only."""
    positions: dict[str, list[int]] = {}
    for name, position in line_positions:
        positions.setdefault(name, []).append(position)
    ranges = [
        LogFileRange(file.path, file.name, 0, max(positions[file.name]) + 1) for file in files if file.name in positions
    ]
    return dict(number_lines(count for part in ranges for count in count_lines(part, positions[part.name])))
