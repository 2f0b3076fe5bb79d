"""SASL PLAIN (RFC 4616)."""

from slackwater.group.errors import UsageError

_NUL = "\0"


def plain_message(username: str, password: str, authorization_id: str = "") -> bytes:
    """Return the only message of a client."""
    if _NUL in username + password + authorization_id:
        raise UsageError("The name or the password for SASL PLAIN contains a NUL character; change it.")
    return f"{authorization_id}\0{username}\0{password}".encode()
