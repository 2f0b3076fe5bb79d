"""TLS and SASL of a client's connections.

Invariants:
- If the broker limits the time of a session (KIP-368), `BrokerConnection` calls `authenticate` on the same connection
  again before it ends.
- SASL mechanisms have no I/O of their own; a token that must be fetched is fetched in another thread.
- A token is used again until four fifths of its time have passed, as in Java.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, Protocol

from slackwater.group.errors import Error, SlackwaterError, UsageError
from slackwater.security.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from slackwater.security.oauthbearer import (
    ERROR_ACKNOWLEDGED,
    BearerToken,
    bearer_message,
    rejection_reason,
    token_subject,
)
from slackwater.security.plain import plain_message
from slackwater.security.scram import ScramAlgorithm, ScramClient
from slackwater.security.tls import ClientTls, ReloadedContext
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from slackwater.client.network.connection import BrokerConnection

TokenProvider = Callable[[], object]
Exchange = Callable[[bytes], Awaitable[bytes]]  # sends a message and returns the broker's answer
_REFRESH_AT: Final = 0.8
TOKEN_TIMEOUT_S: Final = 8.0  # below socket.connection.setup.timeout.ms, whose error would name the broker
_HANDSHAKE_VERSION: Final = 1
_HINTS: Final = {
    "OAUTHBEARER": "Check the expiry, the audience and the issuer of the token, and the clock of this machine.",
    "GSSAPI": "Check the broker's principal and its keytab, and the clocks of both machines.",
}


class ClientSaslMechanism(Protocol):
    """A SASL mechanism of a client."""

    @property
    def name(self) -> str:
        """Its SASL name."""
        ...

    @property
    def principal(self) -> str:
        """The user name, or an empty string if only the broker knows it."""
        ...

    @property
    def acl_principal(self) -> str:
        """The principal in an error about a missing ACL; empty if only the broker knows it."""
        ...

    async def run(self, exchange: Exchange, host: str) -> None:
        """Exchange the messages of the mechanism."""
        ...


@dataclass(frozen=True, slots=True)
class PlainMechanism:
    """PLAIN."""

    username: str
    password: str = field(repr=False)
    name: str = "PLAIN"

    @property
    def principal(self) -> str:
        """The user name."""
        return self.username

    @property
    def acl_principal(self) -> str:
        """The user."""
        return f"User:{self.username}"

    async def run(self, exchange: Exchange, host: str) -> None:
        """Send the name and the password."""
        await exchange(plain_message(self.username, self.password))


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """SCRAM-SHA-256 or SCRAM-SHA-512; `is_token` for the id and the HMAC of a delegation token."""

    mechanism: ScramAlgorithm
    username: str
    password: str = field(repr=False)
    is_token: bool = False

    @property
    def name(self) -> str:
        """The SASL name."""
        return self.mechanism.value

    @property
    def principal(self) -> str:
        """The user name; the owner of a delegation token is unknown."""
        return "" if self.is_token else self.username

    @property
    def acl_principal(self) -> str:
        """The user; the owner of a delegation token is unknown."""
        return "" if self.is_token else f"User:{self.username}"

    async def run(self, exchange: Exchange, host: str) -> None:
        """Prove that this client has the password, and let the broker prove that it has the credential."""
        extensions = (("tokenauth", "true"),) if self.is_token else ()
        client = ScramClient(self.mechanism, self.username, self.password, extensions=extensions)
        client.verify(await exchange(client.final(await exchange(client.first()))))


class OAuthBearerMechanism:
    """OAUTHBEARER with the tokens of a provider."""

    name = "OAUTHBEARER"
    principal = ""

    def __init__(
        self, provider: TokenProvider, extensions: Mapping[str, str], timeout_s: float = TOKEN_TIMEOUT_S
    ) -> None:
        """`provider` returns a token, or a token and its expiry in milliseconds since 1970."""
        self._provider = provider
        self._timeout_s = timeout_s
        self._extensions = dict(extensions)
        self._token: BearerToken | None = None
        self._refresh_at_ms = 0.0

    @property
    def acl_principal(self) -> str:
        """The subject of the token; the broker may take the principal from another claim."""
        subject = token_subject(self._token.value) if self._token is not None else ""
        return f"the principal of the token with sub = {subject}" if subject else ""

    async def run(self, exchange: Exchange, host: str) -> None:
        """Send a token."""
        token = await self._current_token()
        answer = await exchange(bearer_message(token.value, self._extensions))
        if answer:
            self._token = None
            await exchange(ERROR_ACKNOWLEDGED)
            raise SaslAuthenticationError(f"the broker rejected the token: {rejection_reason(answer) or 'no reason'}")

    async def _current_token(self) -> BearerToken:
        now_ms = time.time() * 1000
        if self._token is None or now_ms >= self._refresh_at_ms:
            self._token = await self._new_token()
            self._refresh_at_ms = now_ms + (self._token.expires_at_ms - now_ms) * _REFRESH_AT
        return self._token

    async def _new_token(self) -> BearerToken:
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                given = await asyncio.to_thread(self._provider)
                if inspect.isawaitable(given):
                    given = await given
        except SlackwaterError:
            raise
        except Exception as error:
            if limit.expired():
                raise SaslAuthenticationError(
                    f"sasl.oauthbearer.token.provider gave no token within {self._timeout_s:g} s."
                ) from error
            raise SaslAuthenticationError(
                f"sasl.oauthbearer.token.provider raised {type(error).__name__}; it must return a token."
            ) from error
        match given:
            case str():
                return BearerToken(given, 0)  # unknown expiry: a new token for every authentication
            case (str() as value, int() | float() as expires_at_ms, *_):
                return BearerToken(value, int(expires_at_ms))
        raise UsageError(
            f"sasl.oauthbearer.token.provider returned {type(given).__name__}; return the token, or the token and its "
            "expiry in milliseconds since 1970."
        )


@dataclass(frozen=True, slots=True)
class TlsSaslSecurity:
    """TLS and SASL of all connections of one client; a `ConnectionSecurity`."""

    context: ReloadedContext | None
    mechanism: ClientSaslMechanism | None
    certificate: ClientTls | None = None

    def tls(self) -> SSLContext | None:
        """Return the TLS context for a new connection."""
        return self.context.get() if self.context is not None else None

    @property
    def has_sasl(self) -> bool:
        """Whether there is a SASL mechanism."""
        return self.mechanism is not None

    @property
    def has_certificate(self) -> bool:
        """Whether this client has a TLS certificate."""
        return self.certificate is not None

    @property
    def principal(self) -> str:
        """The principal, such as `User:alice`; empty if only the broker knows it."""
        if self.mechanism is not None:
            return self.mechanism.acl_principal
        if self.certificate is None:
            return "User:ANONYMOUS"
        subject = self.certificate.subject()
        return f"the principal of the certificate {subject}" if subject else ""

    async def authenticate(self, connection: "BrokerConnection", timeout_s: float) -> int:
        """Authenticate; return the time of the session in milliseconds, 0 without a limit."""
        mechanism = self.mechanism
        if mechanism is None:
            return 0
        handshake = await connection.request_unqueued(
            SaslHandshakeRequest(mechanism=mechanism.name),
            SaslHandshakeResponse,
            timeout_s=timeout_s,
            version=_HANDSHAKE_VERSION,
        )
        if handshake.error_code:
            raise _handshake_error(connection, mechanism.name, Error(handshake.error_code), handshake.mechanisms)
        lifetime_ms = 0

        async def exchange(message: bytes) -> bytes:
            nonlocal lifetime_ms
            response = await connection.request_unqueued(
                SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, timeout_s=timeout_s
            )
            if response.error_code:
                reason = response.error_message or Error(response.error_code).name
                raise SaslAuthenticationError(_rejected(connection, mechanism, _readable(reason)))
            lifetime_ms = response.session_lifetime_ms
            return bytes(response.auth_bytes)

        try:
            await mechanism.run(exchange, connection.host)
        except SaslAuthenticationError as error:
            text = str(error)
            if str(connection) in text or text.startswith("sasl."):
                raise
            raise SaslAuthenticationError(_rejected(connection, mechanism, text)) from error
        return lifetime_ms


async def refuse_sasl_port(connection: "BrokerConnection", timeout_s: float) -> None:
    """Raise if the broker expects SASL. It closes such a connection at any other request, without an answer."""
    handshake = await connection.request(
        SaslHandshakeRequest(mechanism=""), SaslHandshakeResponse, timeout_s=timeout_s, version=_HANDSHAKE_VERSION
    )
    if handshake.error_code == Error.UNSUPPORTED_SASL_MECHANISM:
        raise IllegalSaslStateError(
            f"{connection} needs SASL; set security.protocol to SASL_PLAINTEXT or SASL_SSL, and sasl.mechanism to one "
            f"of {', '.join(sorted(handshake.mechanisms))}."
        )


def _handshake_error(
    connection: "BrokerConnection", mechanism: str, error: Error, offered: list[str]
) -> AuthenticationError:
    if error is Error.UNSUPPORTED_SASL_MECHANISM:
        return UnsupportedSaslMechanismError(
            f"{connection} does not offer sasl.mechanism = {mechanism}; it offers {', '.join(sorted(offered))}."
        )
    if error is Error.ILLEGAL_SASL_STATE:
        return IllegalSaslStateError(
            f"{connection} is a port without SASL; use another port, or security.protocol = PLAINTEXT or SSL."
        )
    return SaslAuthenticationError(f"{connection} rejected SaslHandshake: {error.name}.")


def _rejected(connection: "BrokerConnection", mechanism: ClientSaslMechanism, reason: str) -> str:
    user = f" as {mechanism.principal}" if mechanism.principal else ""
    hint = _HINTS.get(mechanism.name, "Check the user name and the password.")
    return f"{connection} rejected the {mechanism.name} authentication{user}: {reason.rstrip('.')}. {hint}"


def _readable(reason: str) -> str:
    """Return the status of an OAUTHBEARER error, which is JSON, or the text itself."""
    return rejection_reason(reason.encode()) or reason
