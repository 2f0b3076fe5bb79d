"""One connection to a broker: requests out, responses in, in order.

Invariants:
- Everything runs on the loop of the network thread.
- API versions are negotiated first (KIP-511): the newest that both sides support, unless the caller passes a version.
- A request without a response within its timeout closes the connection, as in the Java client. All requests in flight
  then fail with `NetworkError`.
- A response is limited by its request, before memory is allocated for it. A larger one fails the request with
  `ResponseTooLargeError` and closes the connection.
- TLS and SASL belong to `ConnectionSecurity`, which gets the open connection before the first request.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable
from ssl import SSLContext
from typing import Final, Protocol, Self, TypeVar, cast

from slackwater.client.errors import NetworkError, ResponseTooLargeError, UnsupportedVersionError
from slackwater.client.network.frames import FrameReceiver, FrameSizeError
from slackwater.group.errors import Error, PeerError
from slackwater.version import __version__
from slackwater.wire.apis import API_VERSIONS, APIS, FETCH, Api
from slackwater.wire.codec import response_type
from slackwater.wire.errors import WireError
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchResponse
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request, Response

MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024  # without records; as much as brokers accept in a request by default
R = TypeVar("R", bound=Response)


class ConnectionSecurity(Protocol):
    """TLS and authentication of a connection."""

    ssl: SSLContext | None

    def authenticate(self, connection: "BrokerConnection") -> Awaitable[None]:
        """Authenticate to the broker; raise if it rejects the credentials."""
        ...


class Plaintext:
    """No encryption and no authentication."""

    ssl: SSLContext | None = None

    async def authenticate(self, connection: "BrokerConnection") -> None:
        """Do nothing."""


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
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.last_used_at = self._loop.time()

    @classmethod
    async def connect(
        cls, host: str, port: int, *, client_id: str, timeout_s: float, security: ConnectionSecurity | None = None
    ) -> Self:
        """Open a connection, authenticate, and negotiate API versions."""
        connection = cls(host, port, client_id)
        security = security or Plaintext()
        try:
            async with asyncio.timeout(timeout_s):
                await connection._loop.create_connection(
                    lambda: connection,
                    host,
                    port,
                    ssl=security.ssl,
                    server_hostname=host if security.ssl is not None else None,
                )
                await security.authenticate(connection)
                await connection._negotiate_versions(timeout_s)
        except TimeoutError:
            connection.abort("connecting timed out")
            raise NetworkError(f"{connection} did not respond within {timeout_s:g} s.") from None
        except OSError as error:
            connection.abort("connecting failed")
            raise NetworkError(f"{connection} could not be reached: {error.strerror or error}.") from error
        except ResponseTooLargeError as error:
            raise NetworkError(f"{error} Is this the port of a Kafka broker?") from error
        except BaseException:
            connection.abort("connecting was cancelled")
            raise
        return connection

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

    def send(
        self, request: Request, *, timeout_s: float, version: int | None = None, max_bytes: int = MAX_RESPONSE_BYTES
    ) -> "asyncio.Future[Response]":
        """Send a request; the future receives the response, which may have up to `max_bytes`."""
        future: asyncio.Future[Response] = self._loop.create_future()
        api = request.API
        if version is None:
            version = self.version_of(api)
        correlation_id = self._write(request, version)
        sent = _InFlightRequest(api, correlation_id, version, max_bytes, future)
        sent.timer = self._loop.call_later(timeout_s, self._on_timeout, request.API.name, timeout_s)
        self._in_flight.append(sent)
        return future

    def send_without_response(self, request: Request, *, version: int | None = None) -> None:
        """Send a request that has no response (Produce with acks=0)."""
        self._write(request, self.version_of(request.API) if version is None else version)

    def _write(self, request: Request, version: int) -> int:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise NetworkError(f"The connection to {self} is closed{self._reason()}.")
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        transport.write(encode_request(request, version, correlation_id, self._client_id))
        self.last_used_at = self._loop.time()
        return correlation_id

    def _on_timeout(self, name: str, timeout_s: float) -> None:
        self.abort(f"{name} got no response within {timeout_s:g} s")

    async def _negotiate_versions(self, timeout_s: float) -> None:
        request = ApiVersionsRequest(client_software_name="slackwater", client_software_version=__version__)
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
            _fail(
                sent,
                ResponseTooLargeError(
                    f"{self} announced a response of {frame.size} bytes to {sent.api.name}; this client accepts up to "
                    f"{frame.limit}.{hint}"
                ),
            )
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
        if not sent.future.done():
            sent.future.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail every request in flight."""
        self._transport = None
        self._close_reason = self._close_reason or (str(exc) if exc is not None else "the broker closed it")
        in_flight, self._in_flight = self._in_flight, deque()
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


def _fail(sent: _InFlightRequest, error: Exception) -> None:
    if not sent.future.done():
        sent.future.set_exception(error)
        sent.future.exception()  # mark it as retrieved: a cancelled caller does not read it


def _format_range(low: int, high: int) -> str:
    return f"v{low} to v{high}" if high >= low else "no version"
