"""The command line: one file per command."""

from slackwater.cli.program import main

__all__ = ["main"]
