"""The entry point of `slackwater`, and the rules for all its commands.

Invariants:
- A usage error prints one sentence on standard error and exits with code 2. A failed operation prints one sentence and
  exits with code 1. Neither prints a traceback.
- Output that cannot be written (disk full, reader closed) exits with a code other than 0, also if the error appears
  only when the buffer is flushed. Nothing is left for the interpreter to flush at exit, which would end with code 120.
- Ctrl-C ends every command with exit code 130.
- A standard stream that is closed (`<&-`, `>&-`) is the null device.
"""

import os
import sys

from slackwater.cli.printing import OUTPUT_ERRORS, discard_output, flush_output, warn
from slackwater.group.errors import SlackwaterError, UsageError

FAILED = 1
USAGE_ERROR = 2
INTERRUPTED = 130
BROKER = "broker"  # runs without Typer, see `broker.py`


def main() -> None:
    """Run the command line and exit."""
    _open_closed_streams()
    try:
        code = _run()
    except BaseException:
        flush_output()
        raise
    if flush_output() is not None and not code:
        code = FAILED
    sys.exit(code)


def _open_closed_streams() -> None:
    """Open the null device for closed standard streams, which Python has as None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open until the process ends


def _run() -> int | str | None:
    """Run the command and return its exit code."""
    try:
        if sys.argv[1:2] == [BROKER]:
            from slackwater.cli import broker

            broker.main(sys.argv[2:])
        else:
            from slackwater.cli.app import app

            app()
    except SystemExit as end:
        return end.code
    except UsageError as error:
        warn(str(error))
        return USAGE_ERROR
    except SlackwaterError as error:
        warn(str(error))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        discard_output()
        warn(f"The output cannot be written: {error.strerror}.")
        return FAILED
    return 0
