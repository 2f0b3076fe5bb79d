"""SASL on one connection, without I/O: SaslHandshake, then SaslAuthenticate until it is complete or has failed.

Error codes and messages are those of Kafka 4.3. Before the end of its session, a client authenticates again with
the same two requests (KIP-368); the handlers of both call `handshake` and `authenticate` for it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from time import monotonic
from typing import Final

from slackwater.broker.connection import MAX_SOFTWARE_NAME, Connection
from slackwater.group.errors import Error
from slackwater.security.errors import SaslAuthenticationError
from slackwater.security.server_mechanisms import Rejected, ServerMechanism
from slackwater.wire.apis import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from slackwater.wire.errors import WireError
from slackwater.wire.frames import frame
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from slackwater.wire.request_response import decode_request, encode_response
from slackwater.wire.schema import Request, Response

MIN_REAUTHENTICATION_INTERVAL_S: Final = 1.0
_ALLOWED: Final = (API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key)


@dataclass(frozen=True, slots=True)
class EnabledMechanism:
    """One enabled mechanism of a listener."""

    start: Callable[[], ServerMechanism]
    max_session_ms: int = 0  # 0: no limit


@dataclass(frozen=True, slots=True)
class SaslOptions:
    """What a listener accepts."""

    mechanisms: Mapping[str, EnabledMechanism]
    api_versions: Callable[[ApiVersionsRequest, int], ApiVersionsResponse]
    wall_ms: Callable[[], int]
    failure_delay_s: float


@dataclass(frozen=True, slots=True)
class Session:
    """An authenticated client; `ends_at` is on the monotonic clock."""

    principal: str
    mechanism: str
    ends_at: float = math.inf


class _State(Enum):
    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    RAW_TOKENS = auto()  # after SaslHandshake v0


class SaslAuthentication:
    """The authentication of one connection, the first and later ones."""

    def __init__(self, options: SaslOptions) -> None:
        self._options = options
        self._state = _State.VERSIONS_OR_HANDSHAKE
        self._name = ""  # of the selected mechanism
        self._mechanism: ServerMechanism | None = None
        self._reauthenticated_at = -math.inf
        self._client_software = ""
        self.session: Session | None = None
        self.failure: str | None = None
        """The reason of a failure, for the log. The connection is closed after the response."""

    @property
    def failure_delay_s(self) -> float:
        """How long the response to a failed authentication waits."""
        return self._options.failure_delay_s

    def attach(self, connection: Connection) -> None:
        """Give the session to its connection.

        During a re-authentication, other requests are rejected as if the session had expired.
        """
        assert self.session is not None
        connection.principal = self.session.principal
        connection.session_ends_at = -math.inf if self.is_in_progress else self.session.ends_at
        connection.authentication = self
        connection.client_software = self._client_software

    def on_frame(self, data: bytes) -> bytes:
        """Return the framed response to a frame of a client that is not authenticated yet; it may be empty."""
        if self._state is _State.RAW_TOKENS:
            response = self.authenticate(data)
            return b"" if response is None or self.failure is not None else frame(response.auth_bytes)
        api_key = int.from_bytes(data[:2], "big", signed=True)
        if api_key not in _ALLOWED:
            api = APIS.get(api_key)
            stage = "authentication" if self._state is _State.AUTHENTICATE else "handshake"
            self.failure = f"Unexpected Kafka request of type {api.name if api else api_key} during SASL {stage}."
            return b""
        try:
            header, request = decode_request(data)
        except WireError as error:
            self.failure = str(error)
            return b""
        answer = self._respond(request, header.api_version)
        return b"" if answer is None else encode_response(answer, header.api_version, header.correlation_id)

    def _respond(self, request: Request, version: int) -> Response | None:
        match request, self._state:
            case SaslAuthenticateRequest(), _State.AUTHENTICATE:
                return self.authenticate(request.auth_bytes)
            case SaslHandshakeRequest(), _State.VERSIONS_OR_HANDSHAKE | _State.HANDSHAKE:
                return self.handshake(request, version)
            case ApiVersionsRequest(), _State.VERSIONS_OR_HANDSHAKE:
                response = self._options.api_versions(request, version)
                if response.error_code == Error.NONE:
                    self._state = _State.HANDSHAKE
                    self._client_software = request.client_software_name[:MAX_SOFTWARE_NAME]
                return response
            case SaslHandshakeRequest(), _:
                self.failure = "Unexpected Kafka request of type SASL_HANDSHAKE during SASL authentication."
                return SaslHandshakeResponse(error_code=Error.ILLEGAL_SASL_STATE)
            case ApiVersionsRequest(), _State.AUTHENTICATE:
                self.failure = "Unexpected Kafka request of type API_VERSIONS during SASL authentication."
                return ApiVersionsResponse(error_code=Error.ILLEGAL_SASL_STATE)
            case _:
                self.failure = f"Unexpected Kafka request of type {request.API.name} during SASL handshake."
                return None

    def try_start_reauthentication(self) -> bool:
        """Start a re-authentication with the client's handshake; False if it may not authenticate again now."""
        if self.session is None or self.session.ends_at == math.inf:
            return False
        now = monotonic()
        if now - self._reauthenticated_at < MIN_REAUTHENTICATION_INTERVAL_S:
            return False
        self._reauthenticated_at = now
        return True

    @property
    def is_in_progress(self) -> bool:
        """Whether a handshake waits for SaslAuthenticate."""
        return self._mechanism is not None

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        """Select the mechanism."""
        names = list(self._options.mechanisms)
        mechanism = self._options.mechanisms.get(request.mechanism)
        if mechanism is None:
            self.failure = f"Unsupported SASL mechanism {request.mechanism}"
            return SaslHandshakeResponse(error_code=Error.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
        self._name = request.mechanism
        self._mechanism = mechanism.start()
        self._state = _State.AUTHENTICATE if version >= 1 else _State.RAW_TOKENS
        return SaslHandshakeResponse(mechanisms=names)

    def authenticate(self, message: bytes) -> SaslAuthenticateResponse | None:
        """Make one step of the mechanism; no response to a re-authentication with another mechanism, as in Kafka."""
        mechanism = self._mechanism
        assert mechanism is not None
        if self.session is not None and self.session.mechanism != self._name:
            self.failure = f"re-authentication with {self._name} after {self.session.mechanism}"
            return None
        text = "authentication" if self.session is None else "re-authentication"
        try:
            response = mechanism.respond(message)
            if mechanism.identity is None:
                return SaslAuthenticateResponse(auth_bytes=response)
            lifetime_ms = self._complete(f"User:{mechanism.identity.name}", mechanism.identity.expires_at_ms)
        except Rejected as error:
            return self._rejected(str(error), error.reason)
        except SaslAuthenticationError as error:
            message_text = (
                f"Authentication failed during {text} due to invalid credentials with SASL mechanism {self._name}"
            )
            return self._rejected(message_text, f"{message_text}: {error}")
        return SaslAuthenticateResponse(auth_bytes=response, session_lifetime_ms=lifetime_ms)

    def _complete(self, principal: str, expires_at_ms: int | None) -> int:
        """Start the session; return its lifetime, 0 if it has no end."""
        if self.session is not None and self.session.principal != principal:
            raise Rejected(
                "Cannot change principals during re-authentication from "
                f"{self.session.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            )
        limits = []
        if expires_at_ms is not None:
            limits.append(max(0, expires_at_ms - self._options.wall_ms()))
        if max_session_ms := self._options.mechanisms[self._name].max_session_ms:
            limits.append(max_session_ms)
        self._mechanism = None
        self.session = Session(principal, self._name, monotonic() + min(limits) / 1000 if limits else math.inf)
        return min(limits, default=0)

    def _rejected(self, message: str, reason: str) -> SaslAuthenticateResponse:
        self.failure = reason
        self._mechanism = None
        return SaslAuthenticateResponse(error_code=Error.SASL_AUTHENTICATION_FAILED, error_message=message)
