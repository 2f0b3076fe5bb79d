"""Commands whose exit code says how a cluster is: their 2 is "could not tell", and a wrong command line is 3.

Rules kept here
- 1 is an alarm, and nothing else is 1. What they find and cannot print, because the disk is full, is one sentence and
  3; when whoever reads has gone away, it is 2.
"""

import errno
from typing import Any, Final

from typer import Context, Exit
from typer.core import TyperCommand

from slackwater.cli.printing import discard_output, warn

USAGE: Final = 2
COULD_NOT_TELL: Final = 2
BAD_INPUT: Final = 3
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


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

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            discard_output()
            raise Exit(COULD_NOT_TELL) from None
        except OSError as error:
            if error.errno not in _FULL:
                raise
            warn(f"The output cannot be written: {error.strerror}.")
            raise Exit(BAD_INPUT) from None
