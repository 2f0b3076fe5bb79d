"""NAME=VALUE on the command line; without Typer, so that `slackwater broker` can use it."""

from collections.abc import Iterable

from slackwater.group.errors import UsageError


def parse_pairs(words: Iterable[str], option: str = "") -> dict[str, str]:
    """Parse NAME=VALUE words of an option, or without an option topic settings as arguments."""
    values = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            if not option:
                raise UsageError(f"{word} is not NAME=VALUE. Use for example retention.ms=3600000.")
            raise UsageError(f"{option} {word} is not a setting. Use {option} name=value.")
        values[name.strip()] = value.strip()
    return values
