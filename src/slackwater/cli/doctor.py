"""`slackwater doctor`: why a group rebalanced, who brought it about, and what to set.

Rules kept here
- A short verdict per group, with the two or three lines that decide it; calm groups are one line.
- Exit codes for scripts: 0 calm, 1 action needed, 2 could not tell, 3 bad input.
- What can be known to be wrong before Spark is started is said before: a minute is a long time for a wrong path.
- How far Spark is, is shown on standard error, if that is a terminal. What Java prints there is kept aside, and told
  only if Spark does not start.
"""

import json
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from slackwater.cli.checked import BAD_INPUT, UNKNOWN_STATE
from slackwater.cli.printing import count, discard_output, warn
from slackwater.cli.times import datetime_ms
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest
    from slackwater.doctor.prescriptions import Prescription
    from slackwater.doctor.timeline.pauses import LagEstimate
    from slackwater.doctor.verdict import Verdict

NO_CLUSTER: Final = "cluster"
_SURE: Final = 0.8
_PRESCRIBED: Final = 3
_UNREAD: Final = 3
_ELSEWHERE: Final = re.compile(r"[a-zA-Z][\w+.-]+:|.*[*?\[{]")
"""Paths of other file systems, and patterns: Spark knows what is there."""
_SPECIAL: Final = re.compile(r"([{}\[\]*?\\])")
_BRIEF_BYTES: Final = 64_000_000
_OFFSET: Final = re.compile(r"[+-]\d\d:?\d\d")
_PLAIN: Final = re.compile(r"^(?:.*Application has been killed\. Reason: (?=.)|(?=Invalid .* size))(.+)$", re.MULTILINE)
"""What Spark and Java say of themselves before something else fails for it."""
_LOOK_AGAIN_S: Final = 0.3
_BAR: Final = 24


def doctor(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH", help="Logs of brokers and clients, dumps of __consumer_offsets; files, directories."
        ),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="A running cluster to read as well.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(metavar="GROUP", help="Only this group; repeatable.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Nothing before this time (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Nothing after this time.")] = None,
    clusters: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Each sub-directory is a cluster of its own, all in one run.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the whole report as one page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
    zone: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[PART=]ZONE",
            help="The zone of stamps that name none, else UTC; of files whose path has PART in it. Repeatable.",
        ),
    ] = None,
    spark_master: Annotated[str, typer.Option(metavar="URL", help="Where Spark runs.")] = "local[*]",
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; repeatable.")
    ] = None,
) -> None:
    """Say why groups rebalanced: cause, culprits, evidence, and what to set.

    Reads the history of any cluster: brokers' and clients' logs, __consumer_offsets, our own __group_events. Exit code
    0: all is calm, 1: somebody has to act, 2: what was read does not tell, 3: the input was wrong.
    """
    try:
        patient = replace(
            _patient(paths, bootstrap, group, since, until, clusters, zone or ()), with_timeline=html is not None
        )
        if html is not None:
            _check_page(html)
        found = _examined(patient, spark_master, _settings(conf))
    except UsageError as error:
        warn(str(error))
        raise typer.Exit(BAD_INPUT) from None
    except SlackwaterError as error:  # the cluster does not answer, or not this user
        warn(str(error))
        raise typer.Exit(UNKNOWN_STATE) from None
    if not found.verdicts:
        _tell_nothing(patient)
    elif absent := sorted(set(patient.groups) - {verdict.group for verdict in found.verdicts}):
        warn(f"Nothing that was read is about the group {', '.join(absent)}, in the time that was asked for.")
    raise typer.Exit(_told(found, html, as_json=as_json))


def _told(found: "Diagnosis", html: Path | None, *, as_json: bool) -> int:
    """Print and write what was found; the exit code. A page that cannot be written costs nobody the verdict."""
    from slackwater.doctor.diagnosis import exit_code

    code = exit_code(found.verdicts)
    try:
        if as_json:
            typer.echo(json.dumps(to_json(found.verdicts), ensure_ascii=False))
        else:
            _tell(found)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has read enough
        discard_output()
    except OSError as error:
        warn(f"The verdict cannot be written to standard output: {error.strerror}.")
        discard_output()
        code = BAD_INPUT
    _warn_of_unread(found)
    try:
        if html is not None:
            _write(html, found)
    except UsageError as error:
        warn(str(error))
        code = BAD_INPUT
    return code


def to_json(verdicts: "Sequence[Verdict]") -> dict[str, object]:
    """Verdicts by cluster and group."""
    clusters: dict[str, dict[str, dict[str, object]]] = {}
    for verdict in verdicts:
        groups = clusters.setdefault(verdict.cluster or NO_CLUSTER, {"groups": {}})
        groups["groups"][verdict.group] = verdict.to_json()
    return {"clusters": clusters}


def _patient(
    paths: Sequence[str] | None,
    bootstrap: str | None,
    group: Sequence[str] | None,
    since: str | None,
    until: str | None,
    clusters: Path | None,
    zone: Sequence[str],
) -> "DiagnosisRequest":
    if not paths and bootstrap is None and clusters is None:
        raise UsageError("Nothing to read: name log files, --clusters DIR, or a cluster with --bootstrap.")
    if not all((*(paths or ()), *(group or ()))):
        raise UsageError("A path or a --group is an empty text. Is a variable of the shell not set?")
    if clusters is not None and not clusters.is_dir():
        raise UsageError(f"--clusters {clusters} is no directory; each cluster is a sub-directory of it.")
    since_ms = None if since is None else datetime_ms(since, "--since")
    until_ms = None if until is None else datetime_ms(until, "--until")
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise UsageError(f"--since {since} is later than --until {until}.")
    default, zones = _zones(zone)
    from slackwater.doctor.diagnosis import DiagnosisRequest

    below = None if clusters is None else str(clusters.resolve())
    return DiagnosisRequest(
        paths=[*map(_literal, paths or ()), *([_literal(below)] if below is not None else ())],
        bootstrap=bootstrap,
        clusters_dir=below,
        groups=group or (),
        since_ms=since_ms,
        until_ms=until_ms,
        zone=default,
        zones=zones,
    )


def _literal(path: str) -> str:
    """A path that is there as it is written is no pattern and no URI, whatever it looks like."""
    if not os.path.exists(path):
        return path
    return _SPECIAL.sub(r"\\\1", os.path.abspath(path) if ":" in path else path)


def _zones(words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The zone of all stamps that name none, and those of the files whose path has a part in it."""
    from datetime import timedelta, timezone
    from zoneinfo import ZoneInfo

    default, zones = "UTC", {}
    for word in words:
        part, _, name = word.rpartition("=")
        try:
            if _OFFSET.fullmatch(name) is None:
                ZoneInfo(name)
            else:
                timezone(timedelta(hours=int(name[1:3]), minutes=int(name[-2:])))
        except (KeyError, ValueError, OSError):
            raise UsageError(
                f"--zone {word} names no zone; write Europe/Berlin, +02:00, or eu/=Europe/Berlin."
            ) from None
        if part:
            zones[part] = name
        else:
            default = name
    return default, zones


def _need_spark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UsageError("The doctor runs on Spark, which is not here: pip install 'slackwater[spark]'.") from None


def _settings(conf: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for one in conf or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise UsageError(f"--conf {one} is no NAME=VALUE; write --conf spark.executor.memory=4g.")
        if not name.startswith("spark."):
            raise UsageError(f"--conf {one} is no setting of Spark's: their names begin with spark.; was that meant?")
        found[name] = value
    return found


def _examined(patient: "DiagnosisRequest", master: str, conf: dict[str, str]) -> "Diagnosis":
    _need_spark()
    _check_paths(patient)
    if patient.bootstrap is not None:
        with _said(f"looking at {patient.bootstrap}"):
            patient = _named(patient)
    from slackwater.spark.doctor.job import diagnose

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # what goes wrong is told in a sentence
    with _said("starting Spark"):
        spark = _session(master, {"spark.ui.showConsoleProgress": "false"} | _brief(patient, master) | conf)
    with _stopped(spark), _Progress(spark, "reading the history"):
        return diagnose(spark, patient)


@contextmanager
def _stopped(spark: "SparkSession") -> Iterator[None]:
    """Stop Spark at the end. Ctrl-C is no error of Spark's, and is not told as one."""

    def interrupt(*_: object) -> None:
        logging.disable(logging.CRITICAL)
        raise KeyboardInterrupt

    mine = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, interrupt) if mine else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        if sys.exc_info()[0] is KeyboardInterrupt:
            with suppress(Exception):
                spark.stop()
        else:
            spark.stop()


def _brief(patient: "DiagnosisRequest", master: str) -> dict[str, str]:
    """Settings for a log of which Spark makes short work: to compile Java thoroughly would take longer than reading."""
    if not master.startswith("local") or any(_ELSEWHERE.match(path) for path in patient.paths):
        return {}
    size = sum(file.stat().st_size for path in patient.paths for file in _files(Path(path)))
    return {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"} if size < _BRIEF_BYTES else {}


def _check_paths(patient: "DiagnosisRequest") -> None:
    """Local paths that hold nothing are told at once."""
    local = [Path(path) for path in patient.paths if not _ELSEWHERE.match(path)]
    for path in local:
        if not path.exists():
            raise UsageError(f"Nothing is at {path}. Name a file or a directory that exists.")
        if not os.access(path, os.R_OK):
            raise UsageError(f"{path} may not be read by this user. Ask for the right to read it.")
    if local and len(local) == len(patient.paths) and not any(map(_holds_something, local)):
        where = ", ".join(map(str, local))
        raise UsageError(f"There is nothing in {where}: no file, or only empty ones. Name logs with lines in them.")


def _holds_something(path: Path) -> bool:
    return any(file.stat().st_size for file in _files(path))


def _files(path: Path) -> Iterator[Path]:
    """The file, or all files below the directory; a link leads where it leads, but not round in a circle."""
    if path.is_file():
        yield path
        return
    seen: set[str] = set()
    for here, below, names in os.walk(path, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        yield from (file for name in names if (file := Path(here, name)).is_file())


def _named(patient: "DiagnosisRequest") -> "DiagnosisRequest":
    """The patient with the cluster's id as its name, once it has answered and lets its records be read."""
    from slackwater.cli.connecting import open_admin
    from slackwater.client.admin.generations import OFFSETS_TOPIC
    from slackwater.client.admin.group_log import GroupLogFollower

    with open_admin(patient.bootstrap, None) as admin:
        cluster = admin.cluster_id
        written = admin.follow_groups(GroupLogFollower(sys.maxsize), patient.groups or [""])
    if OFFSETS_TOPIC in written.refused:
        raise BrokerError(
            Error.TOPIC_AUTHORIZATION_FAILED,
            f"The cluster at {patient.bootstrap} does not let this user read {OFFSETS_TOPIC}. Ask for the right to "
            "read it, or give the brokers' logs instead.",
        )
    return replace(patient, cluster=patient.cluster or cluster)


def _session(master: str, conf: dict[str, str]) -> "SparkSession":
    """A session; why there is none is told in a sentence, from what Java printed."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from slackwater.spark.doctor.job import create_session

    with tempfile.TemporaryFile() as printed:
        try:
            with _java_aside(printed):
                return create_session(master, conf)
        except (PySparkException, Py4JError, OSError) as error:
            printed.seek(0)
            why = _why(f"{error}\n{printed.read().decode(errors='replace')}")
            raise UsageError(f"Spark could not be started on {master}: {why}") from None


def _why(text: str) -> str:
    """The one line that tells, of an exception of Java's and all that it brings along."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if plain := _PLAIN.search(text):
        return plain[1]
    told = next((line for line in lines if re.match(r"(?:Caused by|: )?.*(?:Exception|Error): ", line)), None)
    found = told or next(iter(lines), "Java does not say why")
    return re.sub(r"^.*?(?:Exception|Error): ", "", found)[:300]


@contextmanager
def _java_aside(printed: IO[bytes]) -> Iterator[None]:
    """Let the standard error of what is started meanwhile go to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(printed.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Say what takes its time, for as long as it does."""
    shown = sys.stderr.isatty()
    if shown:
        typer.echo(f"\r\033[K{what} …", err=True, nl=False)
    try:
        yield
    finally:
        if shown:
            typer.echo("\r\033[K", err=True, nl=False)


class _Progress:
    """A bar on standard error, of the tasks of what Spark is at, for as long as the block lasts."""

    def __init__(self, spark: "SparkSession", what: str) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._what = what
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> None:
        if sys.stderr.isatty():
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
            typer.echo("\r\033[K", err=True, nl=False)

    def _show(self) -> None:
        while not self._over.is_set():
            stages = [info for one in self._tracker.getActiveStageIds() if (info := self._tracker.getStageInfo(one))]
            tasks, done = sum(one.numTasks for one in stages), sum(one.numCompletedTasks for one in stages)
            filled = _BAR * done // tasks if tasks else 0
            bar = f" [{'█' * filled}{'·' * (_BAR - filled)}] {done} of {tasks} tasks" if tasks else " …"
            typer.echo(f"\r\033[K{self._what}{bar}", err=True, nl=False)
            self._over.wait(_LOOK_AGAIN_S)


def _check_page(path: Path) -> None:
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise UsageError(f"--html {path} cannot be written: its directory does not exist, or it is one itself.")
    if not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
        raise UsageError(f"--html {path} cannot be written by this user. Name a file where you may write.")


def _write(path: Path, found: "Diagnosis") -> None:
    from slackwater.web.report import report

    try:
        path.write_text(report(found.verdicts, unread=found.unread), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path} cannot be written: {error.strerror}.") from None
    warn(f"the report is in {path}")


def _tell_nothing(patient: "DiagnosisRequest") -> None:
    """Nothing was found, and nothing was wrong with the input but perhaps what was asked for."""
    where = ", ".join(filter(None, (patient.bootstrap, *patient.paths)))
    if patient.groups:
        warn(
            f"Nothing at {where} is about the group {', '.join(patient.groups)}, in the time that was asked for. "
            "Without --group all groups are told that there are."
        )
        raise typer.Exit(BAD_INPUT)
    warn(f"Nothing at {where} is about a consumer group, in the time that was asked for.")


def _tell(found: "Diagnosis") -> None:
    calm = [verdict for verdict in found.verdicts if verdict.cause == "healthy"]
    for verdict in found.verdicts:
        if verdict.cause != "healthy":
            _tell_verdict(verdict)
    if calm:
        names = _few([verdict.group for verdict in calm], 8)
        typer.echo(f"healthy: {names}")
    for text, unsure in _unsure(calm).items():
        typer.echo(f"  not certain of {_few(unsure, 3)}: {text}")


def _unsure(calm: "Sequence[Verdict]") -> dict[str, list[str]]:
    """What was not there to read, and of which calm groups it would have told more."""
    found: dict[str, list[str]] = {}
    for verdict in calm:
        for text in verdict.missing:
            found.setdefault(text, []).append(verdict.group)
    return found


def _warn_of_unread(found: "Diagnosis") -> None:
    """Beside any output: what looked relevant and was not understood is in no verdict."""
    for file, lines, example in found.unread[:_UNREAD]:
        warn(f"{file}: {count(lines, 'line')} about groups not understood, such as: {example[:160]}")
    if others := found.unread[_UNREAD:]:
        more = sum(one[1] for one in others)
        warn(f"{count(more, 'line')} in {count(len(others), 'more file')} about groups not understood")


def _few(names: Sequence[str], shown: int) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _tell_verdict(verdict: "Verdict") -> None:
    from slackwater.doctor.causes.rules import CAUSES

    where = f"{verdict.cluster}: " if verdict.cluster else ""
    who = (
        f", by {', '.join(verdict.culprits[:5])}{' …' if len(verdict.culprits) > 5 else ''}" if verdict.culprits else ""
    )
    typer.echo(f"{where}{verdict.group}: {verdict.cause}{who}")
    storm = ", a storm" if verdict.storm else ""
    typer.echo(
        f"  {CAUSES[verdict.cause].summary}{storm}; {count(verdict.rebalances, 'rebalance')}, "
        f"{count(verdict.changes, 'change')}; {_sureness(verdict.confidence)}"
    )
    if verdict.secondary:
        typer.echo(f"  overloaded by what they took over: {_few(verdict.secondary, 5)}")
    for one in verdict.also:
        by = f", by {_few(one.culprits, 5)}" if one.culprits else ""
        typer.echo(f"  also: {one.cause}{by}")
    if verdict.lag is not None:
        typer.echo(f"  {_behind(verdict.lag)}")
    for line in verdict.evidence:
        typer.echo(f"    {_clock(line.time_ms)}  {line.what}  [{line.where or line.source}]")
    for text in verdict.missing:
        typer.echo(f"  not certain: {text}")
    if verdict.alternatives:
        typer.echo(f"  it could also be: {', '.join(verdict.alternatives)}")
    _tell_prescriptions(verdict)
    typer.echo("")


def _tell_prescriptions(verdict: "Verdict") -> None:
    from slackwater.doctor.prescriptions.libraries import library_of

    written = (line.line for line in verdict.evidence if line.line and line.source == "client_log")
    library = library_of(written, heartbeats_between_messages="handler_blocks" in verdict.figures)
    shown = verdict.prescriptions[:_PRESCRIBED]
    for prescription in shown:
        typer.echo(f"  {prescription.order}. {prescription.what}")
        for line in _to_paste(prescription, library):
            typer.echo(f"       {line}")
        if prescription.price != "none":
            typer.echo(f"     price: {prescription.price}")
        for text in prescription.caution:
            typer.echo(f"     caution: {text}")
    if left := len(verdict.prescriptions) - len(shown):
        typer.echo(f"  {left} more with --html or --json")
    if any(one.properties.keys() - {"broker"} for one in shown):
        names = f"{library}'s" if library else "Kafka's own"
        typer.echo(f"  settings are under {names} names; --html and --json have every library's")


def _to_paste(prescription: "Prescription", library: str | None) -> Sequence[str]:
    """The lines as this group's library has them, or else under Kafka's own names."""
    known = prescription.properties.get(library or "") or prescription.properties.get("broker")
    return known or [f"{setting}={value}" for setting, value in prescription.settings.items()]


def _behind(lag: "LagEstimate") -> str:
    said = f"up to {lag.most_behind:,} records behind, at {_clock(lag.most_behind_ms)[:16]}"
    stopped = f"rounds had lasted {lag.stopped_ms / 1000:,.0f} s"
    if lag.by_pauses is None:
        return f"{said}; {stopped}, in which only what moves is stopped"
    return f"{said}; {lag.by_pauses / lag.most_behind:.0%} of it because of rebalances ({stopped})"


def _sureness(confidence: float) -> str:
    word = "sure" if confidence >= _SURE else "likely" if confidence > 0.5 else "could not tell"
    return f"{word} ({confidence:.2f})"


def _clock(time_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
