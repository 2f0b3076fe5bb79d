"""Commands whose exit code says how a cluster is: their 2 is "could not tell", and a wrong command line is 3."""

from typing import Any, Final

from typer import Context
from typer.core import TyperCommand

USAGE: Final = 2
BAD_INPUT: Final = 3


class CheckedCommand(TyperCommand):
    """A command for scripts that look at its exit code."""

    def make_context(self, *arguments: Any, **more: Any) -> Context:
        """Read the command line."""
        try:
            return super().make_context(*arguments, **more)  # type: ignore[return-value]
        except Exception as error:
            # Typer has carried its own copy of Click's errors, and Click's: what they share is their exit code.
            if getattr(error, "exit_code", None) == USAGE:
                error.exit_code = BAD_INPUT  # type: ignore[attr-defined]
            raise
