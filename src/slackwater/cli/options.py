"""Options that the commands share: the cluster's address, the client's settings, confirmation.

Invariants:
- The address is `--bootstrap`, else the one in the `--config` file, else $SLACKWATER_BOOTSTRAP, else localhost:9092.
- A destructive command shows what it would do and asks. `--yes` confirms, `--dry-run` only shows. Without a terminal,
  or with JSON output, one of the two is required.
"""

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slackwater.cli.broker import LINE
from slackwater.cli.pairs import parse_pairs
from slackwater.escaping import escape_line
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.client.admin import Admin

VARIABLE: Final = "SLACKWATER_BOOTSTRAP"
DEFAULT: Final = "localhost:9092"
API_TIMEOUT_S: Final = 15.0

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        help=f"The cluster [default: from --config, ${VARIABLE}, or {DEFAULT}]",
        show_default=False,
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A properties file with client settings.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without doing it.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A client setting under Kafka's name; repeatable."),
]


def silence_log() -> None:
    """Drop the client's log lines: the command reports errors itself."""
    logging.getLogger("slackwater").addHandler(logging.NullHandler())


def log_to_stderr(*, verbose: bool = False) -> None:
    """Print the client's warnings, for a command that continues after errors; with `verbose` its log, as in Kafka."""
    level, line = (logging.INFO, LINE) if verbose else (logging.WARNING, "slackwater: %(message)s")
    logging.basicConfig(level=level, format=line, stream=sys.stderr)


def client_settings(bootstrap: str | None, config: Path | None, more: Iterable[str] | None = None) -> dict[str, object]:
    """The client's settings from the file and the command line, which takes precedence."""
    settings: dict[str, object] = {}
    if config is not None:
        from slackwater.properties import read_properties

        settings |= read_properties(config)
    settings |= parse_pairs(more or (), "--set")
    servers = bootstrap or settings.get("bootstrap.servers") or os.environ.get(VARIABLE) or DEFAULT
    return settings | {"bootstrap.servers": servers}


def open_admin(bootstrap: str | None, config: Path | None, more: Iterable[str] | None = None) -> "Admin":
    """An Admin client for the cluster; the caller closes it."""
    from slackwater.client.admin import Admin

    silence_log()
    timeout = {"default.api.timeout.ms": str(int(API_TIMEOUT_S * 1000))}
    return Admin(timeout | client_settings(bootstrap, config, more))


def confirm(question: str, *, yes: bool, as_json: bool, export: bool = False) -> None:
    """Ask for confirmation unless `yes`; end the command with exit code 1 if it is refused."""
    if yes:
        return
    if as_json or export:
        option = "--json" if as_json else "--export"
        raise UsageError(f"{option} does not ask for confirmation; add --yes, or --dry-run to see what would be done.")
    if not sys.stdin.isatty():
        raise UsageError("no terminal to ask for confirmation; add --yes, or --dry-run to see what would be done.")
    if not typer.confirm(escape_line(question)):
        typer.echo("Nothing was changed.")
        raise typer.Exit(1)
