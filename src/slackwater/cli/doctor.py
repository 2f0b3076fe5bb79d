"""`slackwater doctor`: find out why groups rebalanced, which members caused it, and what to set.

Invariants:
- Exit codes: 0 healthy, 1 action needed, 2 unknown cause, 3 bad input.
- Input errors that can be detected without Spark are reported before Spark starts.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo

import typer

from slackwater.cli.doctor_output import print_diagnosis, warn_of_unrecognized_lines
from slackwater.cli.exit_codes import BAD_INPUT, UNKNOWN_STATE
from slackwater.cli.printing import discard_output, emit, warn
from slackwater.cli.times import datetime_ms
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError

if TYPE_CHECKING:
    from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest
    from slackwater.doctor.verdict import Verdict

DEFAULT_CLUSTER: Final = "cluster"
_REMOTE_OR_PATTERN: Final = re.compile(r"[a-zA-Z][\w+.-]+:|.*[*?\[{]")
"""Paths that only Spark can resolve: other file systems and patterns."""
_PATTERN_CHARACTERS: Final = re.compile(r"([{}\[\]*?\\])")
_UTC_OFFSET: Final = re.compile(r"[+-]\d\d:?\d\d")
_SMALL_INPUT_BYTES: Final = 64_000_000


def doctor(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH", help="Logs of brokers and clients, dumps of __consumer_offsets; files or directories."
        ),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Also read this running cluster.")
    ] = None,
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
    zone: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[PART=]ZONE",
            help="Time zone of timestamps without one [default: UTC], for all files or those with PART in their path.",
        ),
    ] = None,
    spark_master: Annotated[str, typer.Option(metavar="URL", help="The Spark master.")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A Spark setting; repeatable.")] = None,
) -> None:
    """Find out why groups rebalanced: cause, culprits, evidence, and what to set.

    Reads the history of any cluster: logs of brokers and clients, __consumer_offsets, and Slackwater's __group_events.
    Exit codes: 0 all groups are healthy, 1 a group needs action, 2 a cause is unknown, 3 bad input.
    """
    try:
        request = _request(paths, bootstrap, group, since, until, clusters, zone or ())
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
    raise typer.Exit(_report(diagnosis, html, as_json=as_json))


def _report(diagnosis: "Diagnosis", html: Path | None, *, as_json: bool) -> int:
    """Print the verdicts, write the page and return the exit code. Each is done even if the other fails."""
    from slackwater.doctor.diagnosis import exit_code

    code = exit_code(diagnosis.verdicts)
    try:
        if as_json:
            emit(to_json(diagnosis.verdicts))
        else:
            print_diagnosis(diagnosis)
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
            _write_report(html, diagnosis)
    except UsageError as error:
        warn(str(error))
        code = BAD_INPUT
    return code


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
    group: Sequence[str] | None,
    since: str | None,
    until: str | None,
    clusters: Path | None,
    zone: Sequence[str],
) -> "DiagnosisRequest":
    if not paths and bootstrap is None and clusters is None:
        raise UsageError("Nothing to read. Pass log files, --clusters DIR, or a cluster with --bootstrap.")
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


def run_diagnosis(request: "DiagnosisRequest", master: str, conf: dict[str, str]) -> "Diagnosis":
    """Check the input, start Spark and run the job."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UsageError("The doctor needs Spark: pip install 'slackwater[spark]'.") from None
    _check_paths(request)
    from slackwater.cli.spark_session import SparkProgress, show_activity, start_session, stop_at_end

    if request.bootstrap is not None:
        with show_activity(f"connecting to {request.bootstrap}"):
            request = with_cluster_id(request)
    from slackwater.spark.doctor.job import diagnose

    with show_activity("starting Spark"):
        spark = start_session(
            master, {"spark.ui.showConsoleProgress": "false"} | _small_input_settings(request, master) | conf
        )
    with stop_at_end(spark), SparkProgress(spark, "reading the history"):
        return diagnose(spark, request)


def _small_input_settings(request: "DiagnosisRequest", master: str) -> dict[str, str]:
    """For a small input, Java's optimizing compiler costs more time than it saves."""
    if not master.startswith("local") or any(_REMOTE_OR_PATTERN.match(path) for path in request.paths):
        return {}
    size = sum(file.stat().st_size for path in request.paths for file in list_files(Path(path)))
    return {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"} if size < _SMALL_INPUT_BYTES else {}


def _check_paths(request: "DiagnosisRequest") -> None:
    from slackwater.doctor.input_paths import missing_paths_error, unreadable_path_error

    local = [Path(path) for path in request.paths if not _REMOTE_OR_PATTERN.match(path)]
    for path in local:
        if not path.exists():
            raise missing_paths_error([str(path)])
        if not os.access(path, os.R_OK):
            raise unreadable_path_error(str(path))
    has_data = any(file.stat().st_size for path in local for file in list_files(path))
    if local and len(local) == len(request.paths) and not has_data:
        raise UsageError(f"{', '.join(map(str, local))}: no file, or only empty files. Pass logs with lines in them.")


def list_files(path: Path) -> Iterator[Path]:
    """Yield the file, or all files below the directory; follow links, but not in a circle."""
    if path.is_file():
        yield path
        return
    visited: set[str] = set()
    for directory, below, names in os.walk(path, followlinks=True):
        real = os.path.realpath(directory)
        if real in visited:
            below.clear()
            continue
        visited.add(real)
        yield from (file for name in names if (file := Path(directory, name)).is_file())


def with_cluster_id(request: "DiagnosisRequest") -> "DiagnosisRequest":
    """Return the request with the cluster's id as its name; fail if this user cannot read its records."""
    from slackwater.cli.options import open_admin
    from slackwater.client.admin.group_records import GroupRecordsFollower
    from slackwater.group.internal_topics import OFFSETS_TOPIC

    with open_admin(request.bootstrap, None) as admin:
        cluster = admin.cluster_id
        entries = admin.follow_groups(GroupRecordsFollower(sys.maxsize), request.groups or [""])
    if OFFSETS_TOPIC in entries.denied:
        raise BrokerError(
            Error.TOPIC_AUTHORIZATION_FAILED,
            f"This user is not authorized to read {OFFSETS_TOPIC} of the cluster at {request.bootstrap}. Grant READ on "
            "it, or pass the brokers' logs instead.",
        )
    return replace(request, cluster=request.cluster or cluster)


def _report_no_verdicts(request: "DiagnosisRequest") -> None:
    where = ", ".join(filter(None, (request.bootstrap, *request.paths)))
    if request.groups:
        warn(
            f"{where} contains nothing about group {', '.join(request.groups)} in this time range. "
            "Without --group, all groups are reported."
        )
        raise typer.Exit(BAD_INPUT)
    warn(f"{where} contains nothing about a consumer group in this time range.")


# ---- the report page


def _check_report_path(path: Path) -> None:
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise UsageError(f"--html {path} cannot be written: it is a directory, or its directory does not exist.")
    if not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
        raise UsageError(f"--html {path} is not writable for this user. Choose another file.")


def _write_report(path: Path, diagnosis: "Diagnosis") -> None:
    from slackwater.web.report import report

    try:
        path.write_text(report(diagnosis.verdicts, unrecognized=diagnosis.unrecognized), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path} cannot be written: {error.strerror}.") from None
    warn(f"The report is in {path}.")
