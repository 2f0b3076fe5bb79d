"""The `slackwater` command line: its commands and their help."""

from typing import Annotated

import typer

from slackwater.cli import broker
from slackwater.cli.consume import consume
from slackwater.cli.demo import demo
from slackwater.cli.doctor import doctor
from slackwater.cli.exit_codes import ExitCodeCommand
from slackwater.cli.groups import groups
from slackwater.cli.produce import produce
from slackwater.cli.soak import soak
from slackwater.cli.topics import topics
from slackwater.cli.watch import watch
from slackwater.version import __version__

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
    """Handle the options that belong to no command."""


@app.command(
    "broker",
    help=broker.SUMMARY,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run_broker(context: typer.Context) -> None:
    """List the command in the help; it parses its own arguments."""
    broker.main(context.args)


app.add_typer(groups, name="groups")
app.add_typer(topics, name="topics")
app.command()(produce)
app.command()(consume)
app.command(cls=ExitCodeCommand)(doctor)
app.command(cls=ExitCodeCommand)(watch)
app.command()(demo)
app.command()(soak)
