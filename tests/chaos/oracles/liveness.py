"""The broker answers: whatever happened before, a Metadata request on a new connection gets its response in seconds."""

import socket
import struct
from typing import Final

from slackwater.wire.messages.metadata import MetadataRequest
from slackwater.wire.request_response import encode_request
from tests.chaos.oracles import Violation

ANSWER_S: Final = 10.0


def check_answers(port: int, seconds: float = ANSWER_S) -> None:
    """Raise `Violation` if the broker does not answer in time."""
    try:
        with socket.create_connection(("127.0.0.1", port), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(encode_request(MetadataRequest(topics=None), 12, 1, "liveness"))
            (size,) = struct.unpack(">i", read_exactly(connection, 4))
            read_exactly(connection, size)
    except OSError as error:
        raise Violation(f"no response to a Metadata request within {seconds:g} s: {error}") from error


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes; raise `ConnectionError` if the connection ends before."""
    data = bytearray()
    while len(data) < size:
        received = connection.recv(min(size - len(data), 1 << 20))
        if not received:
            raise ConnectionError("the broker closed the connection")
        data += received
    return bytes(data)
