"""The client's side of one socket: requests out, answers in, in order.

Rules kept here
- Everything here runs on the network's loop.
- The versions are agreed on first (KIP-511): the newest that both sides know, unless the caller asks for one.
- A request that is not answered in time ends the connection, as in the Java client: what comes after it would be late
  as well. Everybody who waits hears `NetworkError`.
- What has to happen before the first request (TLS, SASL) is the `Security`'s: it gets the open connection.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable
from ssl import SSLContext
from typing import Final, Protocol, Self, TypeVar, cast

from slackwater.client.errors import NetworkError, UnsupportedVersionError
from slackwater.client.network.frames import FrameReceiver
from slackwater.group.errors import Error, PeerError
from slackwater.version import __version__
from slackwater.wire.apis import API_VERSIONS, APIS, Api
from slackwater.wire.codec import response_type
from slackwater.wire.envelope import decode_response, encode_request
from slackwater.wire.errors import WireError
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchResponse
from slackwater.wire.schema import Request, Response

MAX_ANSWER_BYTES: Final = 2**31 - 1
R = TypeVar("R", bound=Response)


class Security(Protocol):
    """How a connection becomes a trusted one."""

    ssl: SSLContext | None

    def authenticate(self, connection: "BrokerConnection") -> Awaitable[None]:
        """Prove who we are; raises if the broker does not believe it."""
        ...


class Plaintext:
    """Neither encryption nor proof."""

    ssl: SSLContext | None = None

    async def authenticate(self, connection: "BrokerConnection") -> None:
        """Nothing to do."""


class _Waiting:
    """A request that was sent."""

    __slots__ = ("answer", "correlation_id", "future", "timer", "version")

    def __init__(
        self, correlation_id: int, answer: type[Response], version: int, future: "asyncio.Future[Response]"
    ) -> None:
        self.correlation_id = correlation_id
        self.answer = answer
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
        self._frames = FrameReceiver(MAX_ANSWER_BYTES)
        self._waiting: deque[_Waiting] = deque()
        self._next_id = 0
        self._why = ""
        self._versions: dict[int, tuple[int, int]] = {}
        self._agreed: dict[int, int] = {}
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.used = self._loop.time()

    @classmethod
    async def connect(
        cls, host: str, port: int, *, client_id: str, timeout_s: float, security: Security | None = None
    ) -> Self:
        """Open a connection, prove who we are, and agree on versions."""
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
                await connection._agree(timeout_s)
        except TimeoutError:
            connection.abort("it did not answer in time")
            raise NetworkError(f"{connection} did not answer within {timeout_s:g} s.") from None
        except OSError as error:
            connection.abort("it could not be reached")
            raise NetworkError(f"{connection} could not be reached: {error.strerror or error}.") from error
        except BaseException:
            connection.abort("it was given up")
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
        """How many requests wait for their answer."""
        return len(self._waiting)

    # --- requests -----------------------------------------------------------------------------------------------------

    def version_of(self, api: Api) -> int:
        """The newest version of a request that both sides know."""
        version = self._agreed.get(api.key)
        if version is None:
            low, high = self._versions.get(api.key, (0, -1))
            version = min(high, api.latest_stable)
            if version < max(low, api.min_version):
                raise UnsupportedVersionError(
                    f"{self} speaks {_range(low, high)} of {api.name}, and we speak "
                    f"{_range(api.min_version, api.latest_stable)}; a newer broker is needed."
                )
            self._agreed[api.key] = version
        return version

    def supports(self, api: Api) -> bool:
        """Whether there is a version of this request that both sides know."""
        low, high = self._versions.get(api.key, (0, -1))
        return max(low, api.min_version) <= min(high, api.latest_stable)

    async def request(self, request: Request, kind: type[R], *, timeout_s: float, version: int | None = None) -> R:
        """Send a request and wait for its answer."""
        return cast(R, await self.send(request, timeout_s=timeout_s, version=version))

    def send(self, request: Request, *, timeout_s: float, version: int | None = None) -> "asyncio.Future[Response]":
        """Send a request; the future has the answer."""
        future: asyncio.Future[Response] = self._loop.create_future()
        api = request.API
        if version is None:
            version = self.version_of(api)
        correlation_id = self._write(request, version)
        waiting = _Waiting(correlation_id, response_type(api), version, future)
        waiting.timer = self._loop.call_later(timeout_s, self._overdue, request.API.name, timeout_s)
        self._waiting.append(waiting)
        return future

    def send_without_response(self, request: Request, *, version: int | None = None) -> None:
        """Send a request that is never answered (Produce with acks=0)."""
        self._write(request, self.version_of(request.API) if version is None else version)

    def _write(self, request: Request, version: int) -> int:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise NetworkError(f"The connection to {self} is closed{self._reason()}.")
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        transport.write(encode_request(request, version, correlation_id, self._client_id))
        self.used = self._loop.time()
        return correlation_id

    def _overdue(self, name: str, timeout_s: float) -> None:
        self.abort(f"{name} was not answered within {timeout_s:g} s")

    async def _agree(self, timeout_s: float) -> None:
        request = ApiVersionsRequest(client_software_name="slackwater", client_software_version=__version__)
        answer = await self.request(
            request, ApiVersionsResponse, timeout_s=timeout_s, version=API_VERSIONS.latest_stable
        )
        if answer.error_code == Error.UNSUPPORTED_VERSION:
            newest = next((row.max_version for row in answer.api_keys if row.api_key == API_VERSIONS.key), 0)
            answer = await self.request(request, ApiVersionsResponse, timeout_s=timeout_s, version=newest)
        if answer.error_code:
            raise PeerError(f"{self} answered ApiVersions with {Error(answer.error_code).name}.")
        self._versions = {
            row.api_key: (row.min_version, row.max_version) for row in answer.api_keys if row.api_key in APIS
        }

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the socket is to write what comes."""
        return self._frames.next_room()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand out the answers that are whole by now."""
        try:
            for frame in self._frames.written(nbytes):
                self._take(frame)
        except WireError as error:
            self.abort(f"it sent what cannot be read: {error}")

    def _take(self, frame: bytes | bytearray) -> None:
        if not self._waiting:
            raise WireError("An answer to nothing.")
        waiting = self._waiting.popleft()
        if waiting.timer is not None:
            waiting.timer.cancel()
        try:
            # The records of a fetch stay where they lie. What else is in an answer may be kept, or be a key.
            body = cast(bytes, frame) if waiting.answer is FetchResponse else bytes(frame)
            correlation_id, answer = decode_response(waiting.answer, waiting.version, body)
            if correlation_id != waiting.correlation_id:
                raise WireError(f"Correlation id {correlation_id} where {waiting.correlation_id} was due.")
        except WireError as error:
            _fail(waiting, PeerError(f"{self}: {error}"))
            raise
        if not waiting.future.done():
            waiting.future.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone, and with it every answer that was due."""
        self._transport = None
        self._why = self._why or (str(exc) if exc is not None else "the broker closed it")
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if one.timer is not None:
                one.timer.cancel()
            _fail(one, NetworkError(f"The connection to {self} was lost{self._reason()}."))
        if not self.lost.done():
            self.lost.set_result(None)

    def close(self) -> None:
        """Close the connection."""
        self._why = self._why or "it was closed here"
        if self._transport is not None:
            self._transport.close()

    def abort(self, why: str) -> None:
        """Cut the connection."""
        self._why = self._why or why
        if self._transport is not None:
            self._transport.abort()

    def _reason(self) -> str:
        return f": {self._why}" if self._why else ""


def _fail(waiting: _Waiting, error: Exception) -> None:
    if not waiting.future.done():
        waiting.future.set_exception(error)
        waiting.future.exception()  # a caller that has gone away need not look at it


def _range(low: int, high: int) -> str:
    return f"v{low} to v{high}" if high >= low else "no version"
