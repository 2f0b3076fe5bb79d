"""A server whose responses are chosen by the test, for example ones that are too large."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from slackwater.wire.apis import API_VERSIONS, APIS
from slackwater.wire.errors import WireError
from slackwater.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from slackwater.wire.request_response import decode_request, encode_response
from slackwater.wire.schema import Request, Response

# Returns the response to a request, or bytes to send instead.
Respond = Callable[[Request], Response | bytes]
CHUNK = bytes(1 << 16)


class HostileServer:
    """Answers ApiVersions correctly and every other request with `respond`; counts the bytes that clients accept.

    If `respond` raises OSError, the connection is closed.
    """

    def __init__(self, respond: Respond, features: Mapping[str, int] | None = None) -> None:
        self._respond = respond
        self.features = features or {}  # the cluster's levels, for the next connection
        self.requests: list[tuple[str, int]] = []  # API and version
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.accepted_bytes = 0
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close all sockets."""
        for connection in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with (
            contextlib.suppress(OSError, WireError, struct.error),
            connection,
            connection.makefile("rb") as requests,
        ):
            while size := requests.read(4):
                header, request = decode_request(requests.read(struct.unpack(">i", size)[0]))
                self.requests.append((request.API.name, header.api_version))
                response = api_versions(self.features) if request.API is API_VERSIONS else self._respond(request)
                if isinstance(response, bytes):
                    self._flood(connection, response)
                else:
                    connection.sendall(encode_response(response, header.api_version, header.correlation_id))

    def _flood(self, connection: socket.socket, start: bytes) -> None:
        connection.sendall(start)
        while True:
            self.accepted_bytes += connection.send(CHUNK)


def api_versions(features: Mapping[str, int]) -> ApiVersionsResponse:
    """All APIs of this package, and the levels of the cluster's features."""
    rows = [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.latest_stable) for api in APIS.values()
    ]
    finalized = [FinalizedFeatureKey(name, level, level) for name, level in features.items()]
    return ApiVersionsResponse(api_keys=rows, finalized_features_epoch=1, finalized_features=finalized)


def announce(size: int) -> bytes:
    """The start of a response of this size."""
    return struct.pack(">i", size)


@contextmanager
def hostile_server(respond: Respond, features: Mapping[str, int] | None = None) -> Iterator[HostileServer]:
    """A running server."""
    server = HostileServer(respond, features)
    try:
        yield server
    finally:
        server.close()
