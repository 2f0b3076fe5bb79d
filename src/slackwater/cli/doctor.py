"""`slackwater doctor`: find out why groups rebalanced, which members caused it, and what to set.

Invariants:
- Exit codes: 0 healthy, 1 action needed, 2 unknown cause, 3 bad input.
- Small local input is diagnosed in this process. Spark starts for input that is large or remote, for patterns, and if
  an option asks for it.
- Input errors that can be detected without Spark are reported before Spark starts.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo

import typer

from slackwater.cli.doctor_output import print_diagnosis, warn_of_unrecognized_lines
from slackwater.cli.exit_codes import BAD_INPUT, UNKNOWN_STATE
from slackwater.cli.options import API_TIMEOUT_S, ConfigFile, client_settings, silence_log
from slackwater.cli.printing import discard_output, emit, print_line, warn
from slackwater.cli.progress import ProgressLine, ReadBytes, show_activity
from slackwater.cli.times import datetime_ms
from slackwater.escaping import escape_line
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError

if TYPE_CHECKING:
    from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest
    from slackwater.doctor.history.files import LocalFile
    from slackwater.doctor.local.attribution import EventRow
    from slackwater.doctor.verdict import Verdict

DEFAULT_CLUSTER: Final = "cluster"
_REMOTE_OR_PATTERN: Final = re.compile(r"[a-zA-Z][\w+.-]+:|.*[*?\[{]")
"""Paths that only Spark can resolve: other file systems and patterns."""
_PATTERN_CHARACTERS: Final = re.compile(r"([{}\[\]*?\\])")
_ESCAPED: Final = re.compile(r"\\([{}\[\]*?\\])")
_PACKAGES: Final = ("hyperscan", "pyarrow")
_UTC_OFFSET: Final = re.compile(r"[+-]\d\d:?\d\d")
DEFAULT_MASTER: Final = "local[*]"
STDIN: Final = "-"
_STDIN_NAME: Final = "standard input"
MAX_LOCAL_BYTES: Final = 64_000_000
"""Larger input is read on Spark: from there on its parallel workers save more time than its start takes."""
_EXPANSION: Final = 10
"""How much larger a log is than its compressed file."""


def doctor(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH",
            help="Logs of brokers and clients, dumps of __consumer_offsets: files, directories, - for standard input.",
        ),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Also read this running cluster.")
    ] = None,
    config: ConfigFile = None,
    group: Annotated[list[str] | None, typer.Option(metavar="GROUP", help="Only this group; repeatable.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Ignore events before this time (ISO 8601).")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Ignore events after this time.")] = None,
    clusters: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A directory in which each sub-directory is one cluster.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the full report as one HTML page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
    unknown: Annotated[
        bool,
        typer.Option("--unknown", help="Only print the lines about groups that are not understood, for a bug report."),
    ] = False,
    all_libraries: Annotated[
        bool, typer.Option("--all-libraries", help="Print the settings of all client libraries, and all prescriptions.")
    ] = False,
    zone: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[PART=]ZONE",
            help="Time zone of timestamps without one [default: UTC], for all files or those with PART in their path.",
        ),
    ] = None,
    spark_master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Use Spark, on this master [default: local[*], only if the input needs it]."),
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A Spark setting; repeatable.")] = None,
) -> None:
    """Find out why groups rebalanced: cause, culprits, evidence, and what to set.

    Reads the history of any cluster: logs of brokers and clients, __consumer_offsets, and Slackwater's __group_events.
    Exit codes: 0 all groups are healthy, 1 a group needs action, 2 a cause is unknown, 3 bad input.
    """
    try:
        request = _request(paths, bootstrap, config, group, since, until, clusters, zone or ())
        if unknown:
            _print_unknown_lines(request)
            return
        request = replace(request, with_timeline=html is not None)
        if html is not None:
            _check_report_path(html)
        diagnosis = run_diagnosis(request, spark_master, _spark_settings(conf))
    except UsageError as error:
        warn(str(error))
        raise typer.Exit(BAD_INPUT) from None
    except SlackwaterError as error:  # the cluster is unreachable, or this user is not authorized
        warn(str(error))
        raise typer.Exit(UNKNOWN_STATE) from None
    if not diagnosis.verdicts:
        _report_no_verdicts(request)
    elif absent := sorted(set(request.groups) - {verdict.group for verdict in diagnosis.verdicts}):
        warn(f"The input contains nothing about group {', '.join(absent)} in this time range.")
    raise typer.Exit(_report(diagnosis, request, html, as_json=as_json, all_libraries=all_libraries))


def _report(
    diagnosis: "Diagnosis", request: "DiagnosisRequest", html: Path | None, *, as_json: bool, all_libraries: bool
) -> int:
    """Print the verdicts, write the page and return the exit code. Each is done even if the other fails."""
    from slackwater.doctor.diagnosis import exit_code

    code = exit_code(diagnosis.verdicts)
    shown = _with_address(diagnosis, request)
    try:
        if as_json:
            emit(to_json(diagnosis.verdicts))
        else:
            print_diagnosis(shown, all_libraries=all_libraries)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed its end
        discard_output()
    except OSError as error:
        warn(f"The verdict cannot be written to standard output: {error.strerror}.")
        discard_output()
        code = BAD_INPUT
    warn_of_unrecognized_lines(diagnosis)
    try:
        if html is not None:
            _write_report(html, shown)
    except UsageError as error:
        warn(str(error))
        code = BAD_INPUT
    return code


def _with_address(diagnosis: "Diagnosis", request: "DiagnosisRequest") -> "Diagnosis":
    """Name a running cluster by its address: people do not know its id."""
    if request.bootstrap is None or request.clusters_dir is not None:
        return diagnosis
    verdicts = [replace(verdict, cluster=request.bootstrap) for verdict in diagnosis.verdicts]
    return replace(diagnosis, verdicts=verdicts)


def to_json(verdicts: "Sequence[Verdict]") -> dict[str, object]:
    """Return the verdicts by cluster and group."""
    clusters: dict[str, dict[str, dict[str, object]]] = {}
    for verdict in verdicts:
        groups = clusters.setdefault(verdict.cluster or DEFAULT_CLUSTER, {"groups": {}})
        groups["groups"][verdict.group] = verdict.to_json()
    return {"clusters": clusters}


# ---- the command line


def _request(
    paths: Sequence[str] | None,
    bootstrap: str | None,
    config: Path | None,
    group: Sequence[str] | None,
    since: str | None,
    until: str | None,
    clusters: Path | None,
    zone: Sequence[str],
) -> "DiagnosisRequest":
    settings = (
        {} if config is None else {name: str(value) for name, value in client_settings(bootstrap, config).items()}
    )
    if config is not None:
        bootstrap = settings.pop("bootstrap.servers")
    if not paths and bootstrap is None and clusters is None:
        raise UsageError("Nothing to read. Pass log files, --clusters DIR, or a cluster with --bootstrap.")
    if (paths or []).count(STDIN) > 1:
        raise UsageError("Standard input (-) is named twice. Name it once.")
    if not all((*(paths or ()), *(group or ()))):
        raise UsageError("A path or a --group is empty. Is a shell variable not set?")
    if clusters is not None and not clusters.is_dir():
        raise UsageError(f"--clusters {clusters} is not a directory. Each of its sub-directories must be one cluster.")
    since_ms = None if since is None else datetime_ms(since, "--since")
    until_ms = None if until is None else datetime_ms(until, "--until")
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise UsageError(f"--since {since} is later than --until {until}.")
    default_zone, zones = _parse_zones(zone)
    from slackwater.doctor.diagnosis import DiagnosisRequest

    clusters_dir = None if clusters is None else str(clusters.resolve())
    return DiagnosisRequest(
        paths=[*map(escape_local_path, [*(paths or ()), *([clusters_dir] if clusters_dir is not None else ())])],
        bootstrap=bootstrap,
        settings=settings,
        clusters_dir=clusters_dir,
        groups=group or (),
        since_ms=since_ms,
        until_ms=until_ms,
        zone=default_zone,
        zones=zones,
    )


def escape_local_path(path: str) -> str:
    """Escape a path that exists, so that Spark reads it neither as a pattern nor as a URI."""
    if not os.path.exists(path):
        return path
    return _PATTERN_CHARACTERS.sub(r"\\\1", os.path.abspath(path) if ":" in path else path)


def _is_local(path: str) -> bool:
    """Return whether a path is neither a pattern nor of another file system."""
    return os.path.exists(_unescape(path)) or not _REMOTE_OR_PATTERN.match(path)


def _unescape(path: str) -> str:
    return _ESCAPED.sub(r"\1", path)


def _parse_zones(options: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the default time zone, and the zones by part of a file's path."""
    default, zones = "UTC", {}
    for option in options:
        part, _, name = option.rpartition("=")
        try:
            if _UTC_OFFSET.fullmatch(name) is None:
                ZoneInfo(name)
            else:
                timezone(timedelta(hours=int(name[1:3]), minutes=int(name[-2:])))
        except (KeyError, ValueError, OSError):
            raise UsageError(
                f"--zone {option} is not a time zone. Use Europe/Berlin, +02:00, or eu/=Europe/Berlin."
            ) from None
        if part:
            zones[part] = name
        else:
            default = name
    return default, zones


def _spark_settings(conf: Sequence[str] | None) -> dict[str, str]:
    settings = {}
    for option in conf or ():
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise UsageError(f"--conf {option} is not NAME=VALUE. Use --conf spark.executor.memory=4g.")
        if not name.startswith("spark."):
            raise UsageError(f"--conf {option} is not a Spark setting. Their names begin with `spark.`.")
        settings[name] = value
    return settings


# ---- the diagnosis


def run_diagnosis(request: "DiagnosisRequest", master: str | None, conf: dict[str, str]) -> "Diagnosis":
    """Check the input and run the job, in this process or on Spark."""
    _check_paths(request)
    if request.bootstrap is not None:
        with show_activity(f"connecting to {request.bootstrap}"):
            request = with_cluster_id(request)
    reason = "an option asks for it" if master is not None or conf else needs_spark(request)
    if reason is None:
        try:
            diagnosis = _diagnose_in_process(request)
        except ImportError as error:
            if error.name not in _PACKAGES:
                raise
            raise UsageError("The doctor needs two more packages: pip install 'slackwater[doctor]'.") from None
        if diagnosis is not None:
            return diagnosis
        reason = f"the cluster at {request.bootstrap} has many records"
    return diagnose_on_spark(request, master or DEFAULT_MASTER, conf, reason)


def needs_spark(request: "DiagnosisRequest") -> str | None:
    """Return why the paths of a request need Spark; None if they can be read in this process."""
    from slackwater.doctor.history.files import COMPRESSED, DECOMPRESSED, list_local_files

    size = 0
    for path in request.paths:
        if path == STDIN:
            continue
        if not _is_local(path):
            return f"{path} is a pattern or not a local path"
        for file in list_local_files([_unescape(path)]):
            if file.path.endswith(COMPRESSED) and not file.path.endswith(DECOMPRESSED):
                return f"only Spark decompresses {file.path}"
            size += file.size * (_EXPANSION if file.path.endswith(DECOMPRESSED) else 1)
    return f"the input is larger than {MAX_LOCAL_BYTES // 1_000_000} MB" if size > MAX_LOCAL_BYTES else None


def _diagnose_in_process(request: "DiagnosisRequest") -> "Diagnosis | None":
    """Return the diagnosis; None if the cluster is too large."""
    from slackwater.cli.doctor_cluster import read_cluster
    from slackwater.doctor.history.files import list_local_files
    from slackwater.doctor.local.job import diagnose

    live: list[EventRow] = []
    if request.bootstrap is not None:
        with show_activity(f"reading the groups of {request.bootstrap}"):
            rows = read_cluster(request)
        if rows is None:
            return None
        live = rows
    with ExitStack() as stack:
        paths = list(map(_unescape, request.paths))
        files = list_local_files(path for path in paths if path != STDIN)
        if STDIN in paths:
            files.append(stack.enter_context(_standard_input()))
        request = replace(request, paths=[_STDIN_NAME if path == STDIN else path for path in paths])
        read = ReadBytes(sum(file.size for file in files))
        with ProgressLine(read.describe, delay_s=1.0):
            return diagnose(request, files, live, read.add)


@contextmanager
def _standard_input() -> "Iterator[LocalFile]":
    """Copy standard input to a temporary file, which is read twice: the evidence is found in the second pass."""
    from slackwater.doctor.history.files import LocalFile

    if sys.stdin.isatty():
        warn("reading standard input; end it with Ctrl-D")
    with tempfile.NamedTemporaryFile(prefix="slackwater-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        size = copy.tell()
        if not size:
            raise UsageError("Standard input is empty. Pipe log lines into it.")
        yield LocalFile(copy.name, "stdin", size)


def diagnose_on_spark(request: "DiagnosisRequest", master: str, conf: dict[str, str], reason: str) -> "Diagnosis":
    """Start Spark and run its job; the reason is why Spark is needed."""
    if STDIN in request.paths:
        raise UsageError(f"Standard input cannot be read on Spark, and {reason}. Write the lines into a file.")
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UsageError(f"This needs Spark because {reason}: pip install 'slackwater[spark]'.") from None
    from slackwater.cli.spark_session import spark_progress, start_session, stop_at_end
    from slackwater.spark.doctor.job import diagnose

    with show_activity("starting Spark"):
        spark = start_session(
            master, {"spark.ui.showConsoleProgress": "false"} | _small_input_settings(request, master) | conf
        )
    with stop_at_end(spark), spark_progress(spark, "reading the history"):
        return diagnose(spark, request)


def _small_input_settings(request: "DiagnosisRequest", master: str) -> dict[str, str]:
    """For a small input, Java's optimizing compiler costs more time than it saves."""
    from slackwater.doctor.history.files import list_local_files

    if not master.startswith("local") or not all(map(_is_local, request.paths)):
        return {}
    size = sum(file.size for file in list_local_files(map(_unescape, request.paths)))
    return {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"} if size < MAX_LOCAL_BYTES else {}


def _check_paths(request: "DiagnosisRequest") -> None:
    from slackwater.doctor.history.files import list_local_files
    from slackwater.doctor.input_paths import unreadable_path_error

    if STDIN in request.paths and request.clusters_dir is not None:
        raise UsageError("Standard input (-) is in none of the clusters of --clusters. Pass only one of them.")
    local = [_unescape(path) for path in request.paths if path != STDIN and _is_local(path)]
    for path in local:
        if os.path.exists(path) and not os.access(path, os.R_OK):
            raise unreadable_path_error(path)
    if not list_local_files(local) and local and len(local) == len(request.paths):
        raise UsageError(
            f"{', '.join(local)}: no file, or only empty files. Pass logs with lines in them; files and directories "
            "whose names begin with . or _ are not read."
        )


def with_cluster_id(request: "DiagnosisRequest") -> "DiagnosisRequest":
    """Return the request with the cluster's id as its name; fail if this user cannot read its records."""
    from slackwater.client.admin import Admin
    from slackwater.client.admin.group_records import GroupRecordsFollower
    from slackwater.client.config import ADMIN_SETTINGS
    from slackwater.group.internal_topics import OFFSETS_TOPIC

    silence_log()
    settings: dict[str, object] = {"default.api.timeout.ms": str(int(API_TIMEOUT_S * 1000))}
    with Admin(settings | dict(request.settings) | {"bootstrap.servers": request.bootstrap or ""}) as admin:
        cluster = admin.cluster_id
        principal = admin.principal
        entries = admin.follow_groups(GroupRecordsFollower(sys.maxsize), request.groups or [""])
    if OFFSETS_TOPIC in entries.denied:
        raise BrokerError(
            Error.TOPIC_AUTHORIZATION_FAILED,
            f"{OFFSETS_TOPIC} of the cluster at {request.bootstrap} cannot be read; {principal} needs an ACL for Read "
            f"on topic {OFFSETS_TOPIC}. Add it, or pass the brokers' logs instead.",
        )
    common = {name: value for name, value in request.settings.items() if name in ADMIN_SETTINGS}
    return replace(request, cluster=request.cluster or cluster, settings=common)


def _report_no_verdicts(request: "DiagnosisRequest") -> None:
    where = ", ".join(filter(None, (request.bootstrap, *request.paths)))
    if request.groups:
        warn(
            f"{where} contains nothing about group {', '.join(request.groups)} in this time range. "
            "Without --group, all groups are reported."
        )
        raise typer.Exit(BAD_INPUT)
    warn(f"{where} contains nothing about a consumer group in this time range.")


def _print_unknown_lines(request: "DiagnosisRequest") -> None:
    """Print the lines about groups that no template knows, without names and addresses."""
    from slackwater.doctor.history.files import list_local_files
    from slackwater.doctor.history.unknown_lines import find_unknown_lines, report_unknown_lines
    from slackwater.version import __version__

    if not request.paths or not all(map(_is_local, request.paths)):
        raise UsageError(
            "--unknown reads local files and directories. Copy the logs to this machine and pass their paths."
        )
    _check_paths(request)
    files = list_local_files(_unescape(path) for path in request.paths if path != STDIN)
    shapes = find_unknown_lines(files)
    if STDIN in request.paths:
        with _standard_input() as file:
            shapes += [replace(shape, file=_STDIN_NAME) for shape in find_unknown_lines([file])]
    for line in report_unknown_lines(shapes, __version__) if shapes else ("All lines about groups are understood.",):
        print_line(escape_line(line))


# ---- the report page


def _check_report_path(path: Path) -> None:
    parent = path.resolve().parent
    if path.is_dir():
        raise UsageError(f"--html {path} cannot be written: it is a directory. Choose another file.")
    if not parent.is_dir():
        raise UsageError(
            f"--html {path} cannot be written: its directory does not exist. Create the directory {parent} first."
        )
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise UsageError(f"--html {path} is not writable for this user. Choose another file.")


def _write_report(path: Path, diagnosis: "Diagnosis") -> None:
    from slackwater.web.report import report

    try:
        path.write_text(report(diagnosis.verdicts, unrecognized=diagnosis.unrecognized), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path} cannot be written: {error.strerror}.") from None
    warn(f"The report is in {path}.")
