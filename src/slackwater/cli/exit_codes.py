"""Commands whose exit code reports the state of a cluster: 1 is an alert, 2 is unknown, 3 is a wrong command line.

Invariants:
- Only an alert exits with 1. Output that cannot be written because the disk is full exits with 3; output whose reader
  has closed exits with 2.
"""

from typing import Any, Final

from typer import Context, Exit
from typer.core import TyperCommand

from slackwater.cli.printing import OUTPUT_ERRORS, discard_output, flush_output, warn

USAGE: Final = 2
UNKNOWN_STATE: Final = 2
BAD_INPUT: Final = 3


class ExitCodeCommand(TyperCommand):
    """A command for scripts that check its exit code."""

    def make_context(self, *arguments: Any, **more: Any) -> Context:
        """Parse the command line."""
        try:
            return super().make_context(*arguments, **more)  # type: ignore[return-value]
        except Exception as error:
            # Typer bundles a copy of Click, so there are two families of errors: both have `exit_code`.
            if getattr(error, "exit_code", None) == USAGE:
                error.exit_code = BAD_INPUT  # type: ignore[attr-defined]
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            result = super().invoke(ctx)
        except OSError as error:
            if not isinstance(error, BrokenPipeError) and error.errno not in OUTPUT_ERRORS:
                raise
            discard_output()
            raise _exit_for(error) from None
        if (failure := flush_output(quiet=True)) is not None:
            raise _exit_for(failure)
        return result


def _exit_for(error: OSError) -> Exit:
    if isinstance(error, BrokenPipeError):
        return Exit(UNKNOWN_STATE)
    warn(f"The output cannot be written: {error.strerror}.")
    return Exit(BAD_INPUT)
