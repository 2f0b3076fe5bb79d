"""The only member of a group, on a blocking socket: for threads, and for a test that blocks the event loop."""

import socket
import struct
from typing import Any

from slackwater.group.errors import Error
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request, Response


class BlockingMember:
    """The only member of a group, on a blocking socket."""

    def __init__(self, port: int, group: str, session_ms: int) -> None:
        self._port = port
        self._socket = self._connect()
        self._group = group
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joined: Any = self.request(
            JoinGroupRequest(group, session_ms, 10_000, protocol_type="consumer", protocols=protocols),
            JoinGroupResponse,
            3,
        )
        self.member_id, self._generation = joined.member_id, joined.generation_id
        self.request(SyncGroupRequest(group, self._generation, self.member_id), SyncGroupResponse, 3)

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=20)

    def reconnect(self) -> None:
        """Close the connection and open another."""
        self._socket.close()
        self._socket = self._connect()

    def request(self, request: Request, kind: type[Response], version: int) -> Response:
        self.send(request, version)
        return self.receive(kind, version)

    def send(self, request: Request, version: int) -> None:
        self._socket.sendall(encode_request(request, version, 1, "member"))

    def receive(self, kind: type[Response], version: int) -> Response:
        (size,) = struct.unpack(">i", self._read(4))
        return decode_response(kind, version, self._read(size))[1]

    def send_heartbeat(self) -> None:
        self.send(HeartbeatRequest(self._group, self._generation, self.member_id), 3)

    def heartbeat_error(self) -> Error:
        response = self.receive(HeartbeatResponse, 3)
        assert isinstance(response, HeartbeatResponse)
        return Error(response.error_code)

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece
            data += piece
        return data
