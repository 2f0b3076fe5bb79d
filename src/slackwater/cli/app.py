"""`slackwater`: the program and what holds for all its commands.

Rules kept here
- A mistake of the user is one sentence on standard error and exit code 2, never a traceback.
- Ctrl-C ends any command with exit code 130 and nothing half-written.
"""

import sys
from typing import Annotated

import typer

from slackwater import __version__
from slackwater.cli.broker import broker
from slackwater.cli.soak import soak
from slackwater.group.errors import UsageError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Kafka's consumer-group system: coordinator, consumer, Spark members, and a doctor for rebalance storms.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slackwater {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options that belong to no command."""


app.command()(broker)
app.command()(soak)


def main() -> None:
    """Run the program."""
    try:
        app()
    except UsageError as error:
        print(f"slackwater: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
