"""Responses with records of files, sent past a transport or through it."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from slackwater.broker.response_writer import CHUNK_BYTES, WRITE_BUFFER_BYTES, ResponsePiece, ResponseWriter
from slackwater.broker.storage.log.file_range import FileRange, OpenFile

FILE_BYTES = 3_000_000


class SlowTransport(asyncio.Transport):
    """Keeps what is written until `drain`; without a socket, as with TLS, or in front of one."""

    def __init__(self, connection: socket.socket | None) -> None:
        super().__init__({} if connection is None else {"socket": connection})
        self._socket = connection
        self._limits = (0, 0)
        self._buffer = b""
        self.sent = b""
        self.max_buffered = 0
        self.is_closed = False
        self.writer = ResponseWriter(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low == 0
        self._limits = (high, low)

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._buffer += data
        self.max_buffered = max(self.max_buffered, len(self._buffer))
        if len(self._buffer) > self._limits[0]:
            self.writer.is_paused = True

    def drain(self) -> None:
        """Send what is buffered, as an event loop does when the socket is writable."""
        if self._socket is None:
            self.sent += self._buffer
        else:
            self._socket.setblocking(True)
            self._socket.sendall(self._buffer)
            self._socket.setblocking(False)
        self._buffer = b""
        self.writer.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True


@pytest.fixture
def content() -> bytes:
    return os.urandom(FILE_BYTES)


@pytest.fixture
def records(tmp_path: Path, content: bytes) -> OpenFile:
    path = tmp_path / "records"
    path.write_bytes(content)
    return OpenFile(os.open(path, os.O_RDONLY))


def two_responses(records: OpenFile, content: bytes) -> tuple[list[ResponsePiece], bytes]:
    """Ranges between other bytes, and what the client must receive."""
    pieces: list[ResponsePiece] = [b"first", FileRange(records, 1_000_000, 2_000_000), b"-", memoryview(b"between")]
    pieces += [FileRange(records, 0, 100_000), FileRange(records, 5, 70_000), b"end"]
    expected = b"first" + content[1_000_000:] + b"-between" + content[:100_000] + content[5:70_005] + b"end"
    return pieces, expected


def test_ranges_go_through_a_transport_without_a_socket(records: OpenFile, content: bytes) -> None:
    transport = SlowTransport(None)
    pieces, expected = two_responses(records, content)
    transport.writer.write(pieces)
    while transport.writer.has_waiting:
        transport.writer.send()
        transport.writer.write([])
        transport.drain()
    transport.writer.write([b"next"])
    transport.drain()
    assert transport.sent == expected + b"next"
    assert transport.max_buffered <= WRITE_BUFFER_BYTES + CHUNK_BYTES


def test_ranges_are_sent_past_the_transport(records: OpenFile, content: bytes) -> None:
    server, client = socket.socketpair()
    with server, client:
        server.setblocking(False)
        transport = SlowTransport(server)
        pieces, expected = two_responses(records, content)
        transport.writer.write(pieces)
        received = b""
        client.setblocking(False)
        while transport.writer.has_waiting or transport.get_write_buffer_size():
            transport.writer.send()
            while True:  # until the socket is empty
                try:
                    received += client.recv(1 << 20)
                except BlockingIOError:
                    break
            transport.drain()
        client.setblocking(True)
        server.close()
        while data := client.recv(1 << 20):
            received += data
    assert received == expected
    assert transport.max_buffered <= WRITE_BUFFER_BYTES + CHUNK_BYTES


def test_later_bytes_wait_behind_a_range(records: OpenFile, content: bytes) -> None:
    transport = SlowTransport(None)
    transport.writer.write([FileRange(records, 0, FILE_BYTES)])
    transport.writer.send()
    transport.writer.write([b"next"])
    assert transport.writer.is_blocked
    while transport.writer.has_waiting:
        transport.drain()
        transport.writer.send()
    transport.drain()
    assert transport.sent == content + b"next"


def test_a_file_that_ends_early_closes_the_connection(records: OpenFile) -> None:
    transport = SlowTransport(None)
    transport.writer.write([FileRange(records, FILE_BYTES - 10, 100)])
    transport.writer.send()
    assert transport.is_closed
    assert not transport.writer.has_waiting


def test_a_closed_file_stays_readable_for_its_ranges(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"records")
    file = OpenFile(os.open(path, os.O_RDONLY))
    records = FileRange(file, 0, 7)
    fd = file.fd
    del file
    path.unlink()
    assert records.read(100) == b"records"
    del records
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
