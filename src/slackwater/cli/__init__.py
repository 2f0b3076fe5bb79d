"""The command line: one file per command."""

from slackwater.cli.entry_point import main

__all__ = ["main"]
