"""A server that speaks enough of the protocol to announce responses that are too large."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slackwater.wire.apis import API_VERSIONS, APIS
from slackwater.wire.errors import WireError
from slackwater.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from slackwater.wire.request_response import decode_request, encode_response
from slackwater.wire.schema import Request, Response

# Returns the response to a request, or bytes to send instead.
Respond = Callable[[Request], Response | bytes]
CHUNK = bytes(1 << 16)


class HostileServer:
    """Answers ApiVersions correctly and every other request with `respond`; counts the bytes that clients accept."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
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
        with contextlib.suppress(OSError, WireError, struct.error), connection.makefile("rb") as requests:
            while size := requests.read(4):
                header, request = decode_request(requests.read(struct.unpack(">i", size)[0]))
                response = api_versions() if request.API is API_VERSIONS else self._respond(request)
                if isinstance(response, bytes):
                    self._flood(connection, response)
                else:
                    connection.sendall(encode_response(response, header.api_version, header.correlation_id))

    def _flood(self, connection: socket.socket, start: bytes) -> None:
        connection.sendall(start)
        while True:
            self.accepted_bytes += connection.send(CHUNK)


def api_versions() -> ApiVersionsResponse:
    """All APIs of this package."""
    rows = [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.latest_stable) for api in APIS.values()
    ]
    return ApiVersionsResponse(api_keys=rows)


def announce(size: int) -> bytes:
    """The start of a response of this size."""
    return struct.pack(">i", size)


@contextmanager
def hostile_server(respond: Respond) -> Iterator[HostileServer]:
    """A running server."""
    server = HostileServer(respond)
    try:
        yield server
    finally:
        server.close()
