"""`slackwater`: what holds for all its commands.

Rules kept here
- A mistake of the user is one sentence on standard error and exit code 2, never a traceback. What was asked for and
  could not be done is one sentence and exit code 1.
- Ctrl-C ends any command with exit code 130 and nothing half-written.
- `slackwater broker` without a mistake in its options starts without Typer: see `options`.
"""

import sys

from slackwater.group.errors import SlackwaterError, UsageError


def main() -> None:
    """Run the program."""
    try:
        _run(sys.argv[1:])
    except UsageError as error:
        print(f"slackwater: {error}", file=sys.stderr)
        sys.exit(2)
    except SlackwaterError as error:
        print(f"slackwater: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _run(words: list[str]) -> None:
    if words[:1] == ["broker"]:
        from slackwater.cli.broker import broker
        from slackwater.cli.options import read

        arguments = read(broker, words[1:])
        if arguments is not None:
            broker(**arguments)
            return
    from slackwater.cli.app import app

    app()
