"""`slackwater soak`: try to break the group machines with random faults, for as long as asked."""

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.sim.soak import SoakReport

SHOW_EVERY_S = 2.0


def soak(
    runs: Annotated[int, typer.Option(help="How many runs, each from a seed of its own.")] = 1000,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    keep_going: Annotated[int, typer.Option(help="Stop after this many failures.")] = 1,
    replay: Annotated[int | None, typer.Option(help="Play one seed again, and tell its whole story.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the account as JSON.")] = False,
) -> None:
    """Run random faults against the coordinator and the members, on a virtual clock.

    Crashes, stalls, cut links, lost answers, failed writes, reloads: the checkers watch that no partition has two
    owners, no old commit lands, no record is lost, and that the group comes to rest. Exit code 1 means that a promise
    was broken; the report ends with the one command that plays that run again.
    """
    if runs < 1:
        raise UsageError(f"--runs is {runs}; use 1 or more.")
    if keep_going < 1:
        raise UsageError(f"--keep-going is {keep_going}; use 1 or more.")
    if replay is not None:
        _replay(replay)
        return
    from slackwater.sim.soak import SoakReport, run_seeds  # other commands do without the simulator

    started = shown = time.monotonic()  # `shown` moves on with every line of progress

    def progress(account: SoakReport) -> None:
        nonlocal shown
        if not as_json and sys.stderr.isatty() and time.monotonic() - shown > SHOW_EVERY_S:
            shown = time.monotonic()
            typer.echo(f"\r{account.runs} of {runs} runs, {len(account.failures)} failed ", err=True, nl=False)

    account, interrupted = SoakReport(), False
    try:
        run_seeds(range(seed, seed + runs), stop_at=keep_going, account=account, progress=progress)
    except KeyboardInterrupt:
        interrupted = True  # what was run so far is told all the same
    seconds = time.monotonic() - started
    if shown > started:
        typer.echo("\r\033[K", err=True, nl=False)  # the account takes the place of the progress
    if as_json:
        typer.echo(json.dumps(_account(account, seconds)))
    else:
        for failure in account.failures:
            typer.echo(failure.report())
        hours = account.member_ms / 3_600_000
        typer.echo(
            f"{account.runs} runs, {len(account.failures)} failed: "
            f"{account.virtual_ms / 3_600_000:.1f} hours of faults, {hours:.1f} member-hours, {account.steps} steps "
            f"in {seconds:.1f} s ({hours / seconds:.1f} member-hours/s)"
        )
    if account.failures:
        raise typer.Exit(1)
    if interrupted:
        raise typer.Exit(130)


def _replay(seed: int) -> None:
    from slackwater.sim.soak import run_seed

    world, failure = run_seed(seed)
    typer.echo(str(world.plan))
    for line in world.story:
        typer.echo(line)
    if failure is not None:
        typer.echo(f"seed {seed}: {failure.what}")
        raise typer.Exit(1)
    typer.echo(f"seed {seed}: every promise kept")


def _account(account: "SoakReport", seconds: float) -> dict[str, object]:
    return {
        "runs": account.runs,
        "failures": [{"seed": failure.seed, "what": failure.what} for failure in account.failures],
        "steps": account.steps,
        "virtual_ms": account.virtual_ms,
        "member_ms": account.member_ms,
        "seconds": round(seconds, 3),
    }
