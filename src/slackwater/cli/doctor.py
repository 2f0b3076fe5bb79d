"""`slackwater doctor`: why a group rebalanced, who brought it about, and what to set.

Rules kept here
- A short verdict per group, with the two or three lines that decide it; calm groups are one line.
- Exit codes for scripts: 0 calm, 1 action needed, 2 could not tell, 3 bad input.
- Spark is loaded when it is needed, and what it does meanwhile is shown on standard error, if that is a terminal.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slackwater.cli.printing import count, warn
from slackwater.cli.times import datetime_ms
from slackwater.group.errors import SlackwaterError, UsageError

if TYPE_CHECKING:
    from slackwater.doctor.examination import Diagnosis, Patient
    from slackwater.doctor.verdict import Verdict

BAD_INPUT: Final = 3
NO_CLUSTER: Final = "cluster"
_SURE: Final = 0.8
_PRESCRIBED: Final = 3


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
    zone: Annotated[str, typer.Option(metavar="ZONE", help="The zone of stamps that name none.")] = "UTC",
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
        patient = _patient(paths, bootstrap, group, since, until, clusters, zone)
        found = _examined(patient, spark_master, _settings(conf))
    except UsageError as error:
        warn(str(error))
        raise typer.Exit(BAD_INPUT) from None
    except SlackwaterError as error:
        warn(str(error))
        raise typer.Exit(BAD_INPUT) from None
    if html is not None:
        _write(html, found)
    if as_json:
        typer.echo(json.dumps(to_json(found.verdicts), ensure_ascii=False))
    else:
        _tell(found)
    from slackwater.doctor.examination import exit_code

    raise typer.Exit(exit_code(found.verdicts))


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
    zone: str,
) -> "Patient":
    if not paths and bootstrap is None and clusters is None:
        raise UsageError("Nothing to read: name log files, --clusters DIR, or a cluster with --bootstrap.")
    if clusters is not None and not clusters.is_dir():
        raise UsageError(f"--clusters {clusters} is no directory; each cluster is a sub-directory of it.")
    since_ms = None if since is None else datetime_ms(since, "--since")
    until_ms = None if until is None else datetime_ms(until, "--until")
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise UsageError(f"--since {since} is later than --until {until}.")
    from slackwater.doctor.examination import Patient

    below = None if clusters is None else str(clusters.resolve())
    return Patient(
        paths=[*(paths or ()), *([below] if below is not None else ())],
        bootstrap=bootstrap,
        below=below,
        groups=group or (),
        since_ms=since_ms,
        until_ms=until_ms,
        zone=zone,
    )


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
            raise UsageError(f"--conf {one} is no NAME=VALUE.")
        found[name] = value
    return found


def _examined(patient: "Patient", master: str, conf: dict[str, str]) -> "Diagnosis":
    _need_spark()
    from slackwater.spark.doctor import examine, session

    bars = {"spark.ui.showConsoleProgress": "true" if sys.stderr.isatty() else "false"}
    with _said("starting Spark"):
        spark = session(master, bars | conf)
    try:
        with _said("reading the history"):
            return examine(spark, patient)
    finally:
        spark.stop()


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


def _write(path: Path, found: "Diagnosis") -> None:
    try:
        from slackwater.web.report import report
    except ImportError:
        raise UsageError("--html needs the report's page, which this installation does not have.") from None
    path.write_text(report(found.verdicts), encoding="utf-8")
    warn(f"the report is in {path}")


def _tell(found: "Diagnosis") -> None:
    calm = [verdict for verdict in found.verdicts if verdict.cause == "healthy"]
    for verdict in found.verdicts:
        if verdict.cause != "healthy":
            _tell_verdict(verdict)
    if calm:
        names = ", ".join(verdict.group for verdict in calm[:8])
        more = f" and {len(calm) - 8} more" if len(calm) > 8 else ""
        typer.echo(f"healthy: {names}{more}")
    for file, lines, example in found.unread[:3]:
        warn(f"{file}: {count(lines, 'line')} about groups not understood, such as: {example[:160]}")


def _tell_verdict(verdict: "Verdict") -> None:
    from slackwater.doctor.causes.rules import CAUSES

    where = f"{verdict.cluster}: " if verdict.cluster else ""
    who = (
        f", by {', '.join(verdict.culprits[:5])}{' …' if len(verdict.culprits) > 5 else ''}" if verdict.culprits else ""
    )
    typer.echo(f"{where}{verdict.group}: {verdict.cause}{who}")
    storm = ", a storm" if verdict.storm else ""
    typer.echo(
        f"  {CAUSES[verdict.cause].says}{storm}; {count(verdict.rebalances, 'rebalance')}, "
        f"{count(verdict.changes, 'change')}; {_sureness(verdict.confidence)}"
    )
    for line in verdict.evidence:
        typer.echo(f"    {_clock(line.time_ms)}  {line.what}  [{line.where or line.source}]")
    for text in verdict.missing:
        typer.echo(f"  not certain: {text}")
    if verdict.alternatives:
        typer.echo(f"  it could also be: {', '.join(verdict.alternatives)}")
    for prescription in verdict.prescriptions[:_PRESCRIBED]:
        typer.echo(f"  {prescription.order}. {prescription.what}")
        for setting, value in prescription.settings.items():
            typer.echo(f"       {setting}={value}")
        if prescription.price != "none":
            typer.echo(f"     price: {prescription.price}")
    typer.echo("")


def _sureness(confidence: float) -> str:
    word = "sure" if confidence >= _SURE else "likely" if confidence > 0.5 else "could not tell"
    return f"{word} ({confidence:.2f})"


def _clock(time_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
