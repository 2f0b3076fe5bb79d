"""How the commands find their cluster, and how they speak: the options they share.

Rules kept here
- Where the cluster is: `--bootstrap`, else what the `--config` file says, else $SLACKWATER_BOOTSTRAP, else
  localhost:9092.
- What is dangerous is shown first and asked about; `--yes` answers, `--dry-run` only shows. Where nobody can be asked
  (standard input is no terminal, or the output is JSON) one of the two is needed.
"""

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.client.admin import Admin

VARIABLE: Final = "SLACKWATER_BOOTSTRAP"
DEFAULT: Final = "localhost:9092"
PATIENCE_S: Final = 15.0

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        help=f"The cluster; else --config's, else ${VARIABLE}, else {DEFAULT}.",
        show_default=False,
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A properties file with a client's settings.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A client's setting under Kafka's name; repeatable."),
]


def quietly() -> None:
    """Let the client's log say nothing: what goes wrong is the command's to tell, once."""
    logging.getLogger("slackwater").addHandler(logging.NullHandler())


def aloud() -> None:
    """Let the client's warnings be seen, for a command that goes on when something goes wrong."""
    logging.basicConfig(level=logging.WARNING, format="slackwater: %(message)s", stream=sys.stderr)


def client_settings(bootstrap: str | None, config: Path | None, more: Iterable[str] | None = None) -> dict[str, object]:
    """A client's settings: of the file, then of the command line."""
    settings: dict[str, object] = {}
    if config is not None:
        from slackwater.broker.config import read_properties

        settings |= read_properties(config)
    settings |= pairs(more or (), "--set")
    where = bootstrap or settings.get("bootstrap.servers") or os.environ.get(VARIABLE) or DEFAULT
    return settings | {"bootstrap.servers": where}


def pairs(words: Iterable[str], option: str) -> dict[str, str]:
    """NAME=VALUE words as a dictionary."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} {word} is no setting; write {option} name=value.")
        found[name.strip()] = value.strip()
    return found


def administrator(bootstrap: str | None, config: Path | None) -> "Admin":
    """An administrator of the cluster; to be closed."""
    from slackwater.client.admin import Admin

    quietly()
    patience = {"default.api.timeout.ms": str(int(PATIENCE_S * 1000))}
    return Admin(patience | client_settings(bootstrap, config))


def may_go_on(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask, unless the answer was given; no ends the command with exit code 1."""
    if yes:
        return
    if as_json:
        raise UsageError("--json asks nobody; add --yes to do it, or --dry-run to see what would be done.")
    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask here; add --yes to do it, or --dry-run to see what would be done.")
    if not typer.confirm(question):
        typer.echo("Nothing was changed.")
        raise typer.Exit(1)
