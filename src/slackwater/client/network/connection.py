"""One connection to a broker: requests out, responses in, in order.

Invariants:
- Everything runs on the loop of the network thread.
- API versions are negotiated first (KIP-511): the newest that both sides support, unless the caller passes a version.
- A request without a response within its timeout closes the connection, as in the Java client. All requests in flight
  then fail with `NetworkError`.
- A response is limited by its request, before memory is allocated for it. A larger one fails the request with
  `ResponseTooLargeError` and closes the connection.
- TLS and SASL belong to `ConnectionSecurity`, which authenticates between ApiVersions and the first request.
- Before its session ends, a connection waits for its responses and authenticates again (KIP-368). Requests wait
  meanwhile.
"""

import asyncio
import random
from collections import deque
from ssl import SSLContext, SSLError
from typing import Final, Protocol, Self, TypeVar, cast

from slackwater.client.errors import NetworkError, ResponseTooLargeError, UnsupportedVersionError
from slackwater.client.network.frames import FrameReceiver, FrameSizeError
from slackwater.client.network.protocol_probe import ALERT_SIZES, expects_tls, is_plaintext
from slackwater.group.errors import Error, PeerError, SlackwaterError
from slackwater.security.errors import SslAuthenticationError
from slackwater.security.tls import describe_tls_error, not_tls
from slackwater.version import __version__
from slackwater.wire.apis import API_VERSIONS, APIS, FETCH, Api
from slackwater.wire.codec import response_type
from slackwater.wire.errors import WireError
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchResponse
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request, Response

MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024  # without records; as much as brokers accept in a request by default
NEEDS_SASL: Final = "if this port needs SASL, set security.protocol to SASL_PLAINTEXT or SASL_SSL"
CLIENT_SOFTWARE: Final = "slackwater"  # the name of this client in ApiVersions (KIP-511)
REAUTHENTICATE_AT: Final = (0.85, 0.95)  # the part of a session's time, chosen at random as in Java
R = TypeVar("R", bound=Response)


class ConnectionSecurity(Protocol):
    """TLS and authentication of a connection."""

    @property
    def principal(self) -> str:
        """The principal of this client, such as `User:alice`; empty if only the broker knows it."""
        ...

    @property
    def has_certificate(self) -> bool:
        """Whether this client has a TLS certificate."""
        ...

    @property
    def has_sasl(self) -> bool:
        """Whether this client authenticates with SASL."""
        ...

    def tls(self) -> SSLContext | None:
        """Return the TLS context for a new connection; None without TLS."""
        ...

    async def authenticate(self, connection: "BrokerConnection", timeout_s: float) -> int:
        """Authenticate to the broker; return the time of the session in milliseconds, 0 without a limit."""
        ...


class Plaintext:
    """No encryption and no authentication."""

    principal = "User:ANONYMOUS"
    has_certificate = False
    has_sasl = False

    def tls(self) -> SSLContext | None:
        """No TLS."""
        return None

    async def authenticate(self, connection: "BrokerConnection", timeout_s: float) -> int:
        """Do nothing."""
        return 0


class _InFlightRequest:
    """A request whose response has not arrived."""

    __slots__ = ("api", "correlation_id", "future", "max_bytes", "response_type", "timer", "version")

    def __init__(
        self, api: Api, correlation_id: int, version: int, max_bytes: int, future: "asyncio.Future[Response]"
    ) -> None:
        self.api = api
        self.max_bytes = max_bytes
        self.correlation_id = correlation_id
        self.response_type = response_type(api)
        self.version = version
        self.future = future
        self.timer: asyncio.TimerHandle | None = None


class BrokerConnection(asyncio.BufferedProtocol):
    """A connection to a broker."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReceiver(self._max_response_bytes)
        self._in_flight: deque[_InFlightRequest] = deque()
        self._next_id = 0
        self._close_reason = ""
        self._versions: dict[int, tuple[int, int]] = {}
        self._negotiated: dict[int, int] = {}
        self._lost_with: Exception | None = None
        self._is_anonymous = False  # connected without SASL, and no request of the client was answered yet
        self.may_need_sasl = False  # the broker closed the connection at its first request
        self._held: list[tuple[bytes, _InFlightRequest | None]] | None = None  # requests during a re-authentication
        self._drained: asyncio.Future[None] | None = None
        self._session_task: asyncio.Task[None] | None = None
        self.features_epoch = -1
        self.finalized_features: dict[str, int] = {}  # the level of each feature of the cluster
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.last_used_at = self._loop.time()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        security: ConnectionSecurity | None = None,
        client_software: str = CLIENT_SOFTWARE,
    ) -> Self:
        """Open a connection, negotiate API versions, and authenticate."""
        connection = cls(host, port, client_id)
        security = security or Plaintext()
        context = security.tls()
        try:
            async with asyncio.timeout(timeout_s):
                await connection._loop.create_connection(
                    lambda: connection,
                    host,
                    port,
                    ssl=context,
                    server_hostname=host if context is not None else None,
                )
                await connection._negotiate_versions(client_software, timeout_s)
                session_ms = await security.authenticate(connection, timeout_s)
        except Exception as error:
            connection.abort(_ABORT_REASONS.get(type(error), "connecting failed"))
            raise await connection._connect_error(error, context, security, timeout_s) from error
        except BaseException:
            connection.abort("connecting was cancelled")
            raise
        connection._is_anonymous = not security.has_sasl
        connection._start_session(security, session_ms, timeout_s)
        return connection

    async def _connect_error(
        self, error: Exception, context: SSLContext | None, security: ConnectionSecurity, timeout_s: float
    ) -> Exception:
        """Return the error that names the cause of a failed attempt to connect."""
        tls_error = error if isinstance(error, SSLError) else self._lost_with
        if isinstance(tls_error, SSLError) and context is not None:
            text = describe_tls_error(tls_error, str(self), has_certificate=security.has_certificate)
            return SslAuthenticationError(text)
        is_closed = isinstance(error, NetworkError | OSError) and not isinstance(error, TimeoutError)
        was_opened = self._transport is not None or self.lost.done()
        is_refused = isinstance(error, ConnectionRefusedError)
        if context is not None and is_closed and not is_refused:
            if await is_plaintext(self.host, self.port, timeout_s):
                return SslAuthenticationError(not_tls(str(self)))
        elif context is None and (
            _is_alert(error) or (is_closed and was_opened and await expects_tls(self.host, self.port, timeout_s))
        ):
            return SslAuthenticationError(
                f"{self} expects TLS; set security.protocol to SSL or SASL_SSL, or use another port."
            )
        match error:
            case TimeoutError():
                return NetworkError(f"{self} did not respond within {timeout_s:g} s.")
            case OSError():
                return NetworkError(f"{self} could not be reached: {error.strerror or error}.")
            case ResponseTooLargeError():
                return NetworkError(f"{error} Is this the port of a Kafka broker?")
        return error

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._in_flight)

    # --- requests -----------------------------------------------------------------------------------------------------

    def version_of(self, api: Api) -> int:
        """Return the newest version of a request that both sides support."""
        version = self._negotiated.get(api.key)
        if version is None:
            low, high = self._versions.get(api.key, (0, -1))
            version = min(high, api.latest_stable)
            if version < max(low, api.min_version):
                raise UnsupportedVersionError(
                    f"{self} supports {_format_range(low, high)} of {api.name}, this client supports "
                    f"{_format_range(api.min_version, api.latest_stable)}; use a newer broker."
                )
            self._negotiated[api.key] = version
        return version

    def supports(self, api: Api) -> bool:
        """Whether both sides support a common version of this request."""
        low, high = self._versions.get(api.key, (0, -1))
        return max(low, api.min_version) <= min(high, api.latest_stable)

    async def request(
        self,
        request: Request,
        response: type[R],
        *,
        timeout_s: float,
        version: int | None = None,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> R:
        """Send a request and return its response."""
        return cast(R, await self.send(request, timeout_s=timeout_s, version=version, max_bytes=max_bytes))

    async def request_unqueued(
        self, request: Request, response: type[R], *, timeout_s: float, version: int | None = None
    ) -> R:
        """Send a request also during a re-authentication, and return its response."""
        held, self._held = self._held, None
        try:
            future = self.send(request, timeout_s=timeout_s, version=version)
        finally:
            self._held = held
        return cast(R, await future)

    def send(
        self, request: Request, *, timeout_s: float, version: int | None = None, max_bytes: int = MAX_RESPONSE_BYTES
    ) -> "asyncio.Future[Response]":
        """Send a request; the future receives the response, which may have up to `max_bytes`."""
        future: asyncio.Future[Response] = self._loop.create_future()
        api = request.API
        if version is None:
            version = self.version_of(api)
        correlation_id, frame = self._encode(request, version)
        sent = _InFlightRequest(api, correlation_id, version, max_bytes, future)
        sent.timer = self._loop.call_later(timeout_s, self._on_timeout, request.API.name, timeout_s)
        self._write(frame, sent)
        return future

    def send_without_response(self, request: Request, *, version: int | None = None) -> None:
        """Send a request that has no response (Produce with acks=0)."""
        self._write(self._encode(request, self.version_of(request.API) if version is None else version)[1], None)

    def _encode(self, request: Request, version: int) -> tuple[int, bytes]:
        if not self.is_open:
            raise NetworkError(f"The connection to {self} is closed{self._reason()}.")
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id, encode_request(request, version, correlation_id, self._client_id)

    def _write(self, frame: bytes, sent: _InFlightRequest | None) -> None:
        self.last_used_at = self._loop.time()
        if self._held is not None:
            self._held.append((frame, sent))
            return
        assert self._transport is not None
        self._transport.write(frame)
        if sent is not None:
            self._in_flight.append(sent)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _start_session(self, security: ConnectionSecurity, session_ms: int, timeout_s: float) -> None:
        if session_ms > 0:
            self._session_task = self._loop.create_task(self._renew_session(security, session_ms, timeout_s))

    async def _renew_session(self, security: ConnectionSecurity, session_ms: int, timeout_s: float) -> None:
        """Authenticate again before each session ends, until the connection is lost."""
        while session_ms > 0:
            await asyncio.sleep(session_ms / 1000 * random.uniform(*REAUTHENTICATE_AT))
            self._held = []
            try:
                if self._in_flight:
                    self._drained = self._loop.create_future()
                    await self._drained
                session_ms = await security.authenticate(self, timeout_s)
            except SlackwaterError as error:
                self.abort(f"the re-authentication failed: {error}")
                return
            held, self._held = self._held, None
            for frame, sent in held:
                self._write(frame, sent)

    def _on_timeout(self, name: str, timeout_s: float) -> None:
        self.abort(f"{name} got no response within {timeout_s:g} s")

    async def _negotiate_versions(self, client_software: str, timeout_s: float) -> None:
        request = ApiVersionsRequest(client_software_name=client_software, client_software_version=__version__)
        response = await self.request(
            request, ApiVersionsResponse, timeout_s=timeout_s, version=API_VERSIONS.latest_stable
        )
        if response.error_code == Error.UNSUPPORTED_VERSION:
            newest = next((row.max_version for row in response.api_keys if row.api_key == API_VERSIONS.key), 0)
            response = await self.request(request, ApiVersionsResponse, timeout_s=timeout_s, version=newest)
        if response.error_code:
            raise PeerError(f"{self} rejected ApiVersions: {Error(response.error_code).name}.")
        self._versions = {
            row.api_key: (row.min_version, row.max_version) for row in response.api_keys if row.api_key in APIS
        }
        self.features_epoch = response.finalized_features_epoch
        self.finalized_features = {row.name: row.max_version_level for row in response.finalized_features}

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the open socket."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer that the socket writes to."""
        return self._frames.next_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Process the complete responses."""
        try:
            for frame in self._frames.on_written(nbytes):
                self._on_frame(frame)
        except FrameSizeError as error:
            self._on_too_large(error)
        except WireError as error:
            self.abort(f"the response is invalid: {error}")

    def _max_response_bytes(self, index: int) -> int:
        return self._in_flight[index].max_bytes if index < len(self._in_flight) else MAX_RESPONSE_BYTES

    def _on_too_large(self, frame: FrameSizeError) -> None:
        if self._in_flight:
            sent = self._in_flight[0]  # connection_lost cancels its timer
            hint = " Raise fetch.max.bytes if record batches are that large." if sent.api is FETCH else ""
            error = ResponseTooLargeError(
                f"{self} announced a response of {frame.size} bytes to {sent.api.name}; this client accepts up to "
                f"{frame.limit}.{hint}"
            )
            error.__cause__ = frame
            _fail(sent, error)
        self.abort(f"a response of {frame.size} bytes was announced")

    def _on_frame(self, frame: bytes | bytearray) -> None:
        if not self._in_flight:
            raise WireError("A response without a request.")
        sent = self._in_flight.popleft()
        if sent.timer is not None:
            sent.timer.cancel()
        try:
            # Fetched records are not copied. Other responses are: their fields may be kept, or used as dict keys.
            body = cast(bytes, frame) if sent.response_type is FetchResponse else bytes(frame)
            correlation_id, response = decode_response(sent.response_type, sent.version, body)
            if correlation_id != sent.correlation_id:
                raise WireError(f"The correlation id is {correlation_id}, expected {sent.correlation_id}.")
        except WireError as error:
            _fail(sent, PeerError(f"{self}: {error}"))
            raise
        self._is_anonymous = False
        if not sent.future.done():
            sent.future.set_result(response)
        if self._drained is not None and not self._in_flight:
            self._drained.set_result(None)
            self._drained = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail every request in flight."""
        self._transport = None
        if self._is_anonymous and self._in_flight and not self._close_reason:
            self.may_need_sasl = True
            self._close_reason = f"the broker closed it at the first request; {NEEDS_SASL}"
        self._close_reason = self._close_reason or (str(exc) if exc is not None else "the broker closed it")
        self._lost_with = exc
        if self._session_task is not None:
            self._session_task.cancel()
        in_flight = [*self._in_flight, *(sent for _, sent in self._held or () if sent is not None)]
        self._in_flight, self._held = deque(), None
        for sent in in_flight:
            if sent.timer is not None:
                sent.timer.cancel()
            _fail(sent, NetworkError(f"The connection to {self} was lost{self._reason()}."))
        if not self.lost.done():
            self.lost.set_result(None)

    def close(self) -> None:
        """Close the connection."""
        self._close_reason = self._close_reason or "it was closed by this client"
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close the connection at once; `reason` is part of the error of every request in flight."""
        self._close_reason = self._close_reason or reason
        if self._transport is not None:
            self._transport.abort()

    def _reason(self) -> str:
        return f": {self._close_reason}" if self._close_reason else ""


_ABORT_REASONS: Final[dict[type, str]] = {TimeoutError: "connecting timed out"}


def _is_alert(error: Exception) -> bool:
    """Whether the broker answered with a TLS alert, which reads as a response of a huge size."""
    size = error.__cause__
    return isinstance(error, ResponseTooLargeError) and isinstance(size, FrameSizeError) and size.size in ALERT_SIZES


def _fail(sent: _InFlightRequest, error: Exception) -> None:
    if not sent.future.done():
        sent.future.set_exception(error)
        sent.future.exception()  # mark it as retrieved: a cancelled caller does not read it


def _format_range(low: int, high: int) -> str:
    return f"v{low} to v{high}" if high >= low else "no version"
