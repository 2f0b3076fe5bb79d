"""`slackwater groups`: inspect and change consumer groups on any cluster."""

import typer

from slackwater.cli.groups.delete import delete, delete_offsets
from slackwater.cli.groups.describe import describe
from slackwater.cli.groups.listing import list_
from slackwater.cli.groups.remove import remove_members
from slackwater.cli.groups.reset import reset_offsets

groups = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Inspect and change consumer groups: state, members, lag; remove members, reset offsets, delete.",
)
groups.command("list")(list_)
groups.command()(describe)
groups.command()(remove_members)
groups.command()(reset_offsets)
groups.command()(delete)
groups.command()(delete_offsets)

__all__ = ["groups"]
