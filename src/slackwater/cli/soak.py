"""`slackwater soak`: run the coordinator and the members with random faults in the simulator."""

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.sim.soak import SoakReport

PROGRESS_INTERVAL_S = 2.0


def soak(
    runs: Annotated[int, typer.Option(help="Number of runs; each has its own seed.")] = 1000,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    keep_going: Annotated[int, typer.Option(help="Stop after this many failures.")] = 1,
    replay: Annotated[int | None, typer.Option(help="Run one seed again and print its events.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run random faults against the coordinator and the members, on a virtual clock.

    Faults are crashes, stalls, network partitions, lost responses, failed writes and reloads. The checkers verify that
    no partition has two owners, no stale commit is accepted, no record is lost, and that the group becomes stable. Exit
    code 1 means that a check failed; the report ends with the command that repeats that run.
    """
    if runs < 1:
        raise UsageError(f"--runs is {runs}; use 1 or more.")
    if keep_going < 1:
        raise UsageError(f"--keep-going is {keep_going}; use 1 or more.")
    if replay is not None:
        _replay(replay)
        return
    from slackwater.sim.soak import SoakReport, run_seeds  # only this command needs the simulator

    started = shown = time.monotonic()  # `shown` is the time of the last progress line

    def progress(report: SoakReport) -> None:
        nonlocal shown
        if not as_json and sys.stderr.isatty() and time.monotonic() - shown > PROGRESS_INTERVAL_S:
            shown = time.monotonic()
            typer.echo(f"\r{report.runs} of {runs} runs, {len(report.failures)} failed ", err=True, nl=False)

    report, interrupted = SoakReport(), False
    try:
        run_seeds(range(seed, seed + runs), stop_at=keep_going, report=report, progress=progress)
    except KeyboardInterrupt:
        interrupted = True  # report the runs so far
    seconds = time.monotonic() - started
    if shown > started:
        typer.echo("\r\033[K", err=True, nl=False)  # overwrite the progress line
    if as_json:
        typer.echo(json.dumps(_report(report, seconds)))
    else:
        for failure in report.failures:
            typer.echo(failure.report())
        hours = report.member_ms / 3_600_000
        typer.echo(
            f"{report.runs} runs, {len(report.failures)} failed: "
            f"{report.virtual_ms / 3_600_000:.1f} hours of faults, {hours:.1f} member-hours, {report.steps} steps "
            f"in {seconds:.1f} s ({hours / seconds:.1f} member-hours/s)"
        )
    if report.failures:
        raise typer.Exit(1)
    if interrupted:
        raise typer.Exit(130)


def _replay(seed: int) -> None:
    from slackwater.sim.soak import run_seed

    simulation, failure = run_seed(seed)
    typer.echo(str(simulation.scenario))
    for line in simulation.trace:
        typer.echo(line)
    if failure is not None:
        typer.echo(f"seed {seed}: {failure.error}")
        raise typer.Exit(1)
    typer.echo(f"seed {seed}: all checks passed")


def _report(report: "SoakReport", seconds: float) -> dict[str, object]:
    return {
        "runs": report.runs,
        "failures": [{"seed": failure.seed, "what": failure.error} for failure in report.failures],
        "steps": report.steps,
        "virtual_ms": report.virtual_ms,
        "member_ms": report.member_ms,
        "seconds": round(seconds, 3),
    }
