"""SASL OAUTHBEARER (RFC 7628): the messages of a client.

Invariants:
- A token is never part of a `repr` or of an error.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.group.errors import UsageError

_SEPARATOR: Final = "\x01"
ERROR_ACKNOWLEDGED: Final = b"\x01"  # a client's answer to an error of the server, which then ends the authentication
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]*")


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token and the time at which it expires, in milliseconds since 1970."""

    value: str = field(repr=False)
    expires_at_ms: int


def bearer_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """Return the first message: the token and SASL extensions (KIP-342)."""
    if not _TOKEN.fullmatch(token):
        raise UsageError("The OAUTHBEARER token has characters that RFC 6750 does not allow in a bearer token.")
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not _EXTENSION_VALUE.fullmatch(value):
            raise UsageError(f"The SASL extension {name!r} is invalid: a name has letters and is not `auth`.")
    pairs = "".join(f"{name}={value}{_SEPARATOR}" for name, value in extensions.items())
    return f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{pairs}{_SEPARATOR}".encode()


def token_subject(token: str) -> str:
    """Return the subject that a JWT names, without a check of its signature; empty if there is none."""
    _, _, rest = token.partition(".")
    body, dot, _ = rest.partition(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))) if dot else {}
    except ValueError:
        return ""
    return str(claims.get("sub", "")) if isinstance(claims, dict) else ""


def rejection_reason(message: bytes) -> str:
    """Return the reason in the server's error; empty if the message is not an error."""
    try:
        answer = json.loads(message)
    except ValueError:
        return ""
    return str(answer.get("status", "")) if isinstance(answer, dict) else ""
