"""The server's half of PLAIN, SCRAM and OAUTHBEARER. Messages that a client sees are those of Kafka 4.3.

Invariants:
- A `Rejected` carries the message for the client. Any other `SaslAuthenticationError` is for the log only: the client
  learns that its credentials are invalid, and not why.
- Passwords are compared in constant time.
"""

import hmac
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from slackwater.security.errors import SaslAuthenticationError
from slackwater.security.oauthbearer import ERROR_ACKNOWLEDGED
from slackwater.security.scram import MIN_ITERATIONS, ClientFirst, ScramAlgorithm, ScramCredential, ScramServerExchange

_OTHER_IDENTITY: Final = "Authentication failed: Client requested an authorization id that is different from username"
_HEADER: Final = re.compile(rb"n,(?:a=([^,]*))?,")
_PAIR: Final = re.compile(rb"([A-Za-z]+)=(.*)", re.DOTALL)
_BEARER: Final = re.compile(rb"bearer +([^ ]+)", re.IGNORECASE)
_SEPARATOR: Final = b"\x01"


class Rejected(SaslAuthenticationError):
    """A rejection whose message the client gets; `reason` is for the log."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


@dataclass(frozen=True, slots=True)
class Identity:
    """Who has authenticated; `expires_at_ms` is the end of a token, on the wall clock."""

    name: str
    expires_at_ms: int | None = None


class ServerMechanism(Protocol):
    """One authentication of a server."""

    identity: Identity | None
    """The client, when the authentication is complete."""

    def respond(self, message: bytes) -> bytes:
        """Return the response to a message of the client, or raise."""
        ...


class PlainServerMechanism:
    """PLAIN (RFC 4616)."""

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        self._password_of = password_of
        self.identity: Identity | None = None

    def respond(self, message: bytes) -> bytes:
        """Check name and password."""
        tokens = message.decode(errors="replace").split("\0")
        if len(tokens) != 3:
            raise Rejected(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, name, password = tokens
        if not name:
            raise Rejected("Authentication failed: username not specified")
        if not password:
            raise Rejected("Authentication failed: password not specified")
        expected = self._password_of(name)
        is_equal = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_equal:
            raise Rejected("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise Rejected(_OTHER_IDENTITY)
        self.identity = Identity(name)
        return b""


class ScramServerMechanism:
    """SCRAM-SHA-256 and SCRAM-SHA-512."""

    def __init__(
        self, mechanism: ScramAlgorithm, credential_of: Callable[[str, ScramAlgorithm], ScramCredential | None]
    ) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._name = ""
        self._server: ScramServerExchange | None = None
        self.identity: Identity | None = None

    def respond(self, message: bytes) -> bytes:
        """Answer the first message with salt and nonce, and the last with the server's signature."""
        if self._server is not None:
            response = self._server.final(message)
            self.identity = Identity(self._name)
            return response
        first = ClientFirst.parse(message)
        credential = self._credential_of(first.username, self._mechanism)
        if "tokenauth" in first.extensions:
            raise SaslAuthenticationError("delegation tokens are not supported")
        if credential is None:
            raise SaslAuthenticationError("Authentication failed: Invalid user credentials")
        if first.authorization_id not in ("", first.username):
            raise Rejected(_OTHER_IDENTITY)
        if credential.iterations < MIN_ITERATIONS:
            raise SaslAuthenticationError(f"the credential has {credential.iterations} iterations; it needs 4096")
        self._name = first.username
        self._server = ScramServerExchange(self._mechanism, first, credential)
        return self._server.first()


class OAuthBearerServerMechanism:
    """OAUTHBEARER (RFC 7628)."""

    def __init__(self, validate: Callable[[str], Identity]) -> None:
        self._validate = validate
        self._error: Rejected | None = None
        self.identity: Identity | None = None

    def respond(self, message: bytes) -> bytes:
        """Check the token; an invalid one gets an error that the client confirms before the authentication fails."""
        if self._error is not None:
            if message == ERROR_ACKNOWLEDGED:
                raise self._error
            raise SaslAuthenticationError("a second message followed an invalid token")
        authorization_id, token = _parse_bearer(message)
        try:
            identity = self._validate(token)
        except SaslAuthenticationError as error:
            answer = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            self._error = Rejected(answer, f"{answer}: {error}")
            return answer.encode()
        if authorization_id not in ("", identity.name):
            raise Rejected(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({identity.name})"
            )
        self.identity = identity
        return b""


def _parse_bearer(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the token of a first message, in linear time: anybody can send one."""
    header, *parts = message.split(_SEPARATOR)
    pairs = [_PAIR.fullmatch(part) for part in parts[:-2]]
    values = {pair[1]: pair[2] for pair in pairs if pair}
    bearer = _BEARER.fullmatch(values.get(b"auth", b""))
    start = _HEADER.fullmatch(header)
    if start is None or bearer is None or not all(pairs) or parts[-2:] != [b"", b""]:
        raise SaslAuthenticationError("Invalid OAUTHBEARER client first message")
    return (start[1] or b"").decode(errors="replace"), bearer[1].decode(errors="replace")
