"""`advertised.listeners`: the address that clients are told.

Rules kept here
- There is one listener for clients, so the first that is not the controller's counts.
"""

from slackwater.group.errors import UsageError


def advertised_address(text: str) -> tuple[str, int] | None:
    """The host and port in a list such as PLAINTEXT://kafka:9092, or None where it is empty."""
    for listener in filter(None, map(str.strip, text.split(","))):
        name, scheme_ends, address = listener.partition("://")
        host, _, port = address.rpartition(":")
        if not scheme_ends or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise UsageError(f"advertised.listeners = {text} cannot be read; write PLAINTEXT://HOST:PORT.")
        if name.upper() != "CONTROLLER":
            return host.removeprefix("[").removesuffix("]"), int(port)
    return None
