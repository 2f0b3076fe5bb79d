"""`advertised.listeners`: the address that clients get.

There is one listener for clients; the first one that is not named CONTROLLER is used.
"""

from slackwater.group.errors import UsageError


def advertised_address(text: str) -> tuple[str, int] | None:
    """Return host and port of a list such as PLAINTEXT://kafka:9092, or None if it is empty."""
    for listener in filter(None, map(str.strip, text.split(","))):
        name, scheme_ends, address = listener.partition("://")
        host, _, port = address.rpartition(":")
        if not scheme_ends or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise UsageError(f"advertised.listeners = {text} is not valid; use PLAINTEXT://HOST:PORT.")
        if name.upper() != "CONTROLLER":
            return host.removeprefix("[").removesuffix("]"), int(port)
    return None
