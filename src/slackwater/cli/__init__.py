"""The command line: one file per command."""

from slackwater.cli.app import main

__all__ = ["main"]
