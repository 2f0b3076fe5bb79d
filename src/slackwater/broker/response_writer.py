"""Sends responses whose records are in files.

Invariants:
- Records of a file are sent as fast as the socket takes them, with `sendfile`. At most `CHUNK_BYTES` of them are in
  memory: those that the transport holds while it waits until the socket is writable.
- With TLS, or where `sendfile` is not possible, all records go through the transport in chunks.
- Bytes leave in order: while the transport's buffer has bytes, nothing is written directly to the socket, and while
  records wait, later responses wait behind them.
- One call sends at most `MAX_BYTES_PER_CALL`, so that other connections are served in between.
- If a file cannot be read, the connection is closed: the size of the response has already been sent.
"""

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias, cast

from slackwater.broker.storage.log.file_range import FileRange
from slackwater.escaping import get_logger
from slackwater.wire.encoder_generator import Piece

log = get_logger("slackwater.broker")
ResponsePiece: TypeAlias = Piece | FileRange
WRITE_BUFFER_BYTES: Final = 64 * 1024
CHUNK_BYTES: Final = 2 * WRITE_BUFFER_BYTES  # more than the transport takes without a call of `pause_writing`
MAX_BYTES_PER_CALL: Final = 4 * 1024 * 1024
MAX_COALESCED_BYTES: Final = 16 * 1024  # sent together with what precedes a range, so that the client wakes up once
_MAX_PIECES: Final = 512  # of one call; Linux takes 1,024


def has_ranges(pieces: Sequence[ResponsePiece]) -> bool:
    """Whether some of the pieces are ranges of files."""
    return any(type(piece) is FileRange for piece in pieces)


class ResponseWriter:
    """Writes to one transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # `resume_writing` is called when the buffer is empty: only then may bytes go directly to the socket.
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES, 0)
        socket = transport.get_extra_info("socket")
        is_plain = socket is not None and transport.get_extra_info("sslcontext") is None
        self._socket_fd: int = socket.fileno() if is_plain and hasattr(os, "sendfile") else -1
        self._waiting: deque[ResponsePiece] = deque()
        self.is_paused = False  # by the transport

    @property
    def has_waiting(self) -> bool:
        """Whether there are bytes that neither the socket nor the transport has taken."""
        return bool(self._waiting)

    @property
    def is_blocked(self) -> bool:
        """Whether the client has not read what was written."""
        return self.is_paused or bool(self._waiting)

    def write(self, pieces: Sequence[ResponsePiece]) -> None:
        """Give bytes to the transport; if there are ranges, all pieces wait until `send` is called."""
        if self._waiting or has_ranges(pieces):
            self._waiting += pieces
        else:
            self._transport.writelines(cast("list[Piece]", pieces))

    def send(self) -> bool:
        """Send what waits; True if the next iteration of the event loop should continue."""
        left = MAX_BYTES_PER_CALL
        try:
            while self._waiting and not self.is_paused and not self._transport.is_closing():
                if left <= 0:
                    return True
                left -= self._send_some(left)
        except ConnectionError:
            self.abort()
        except OSError as error:
            log.warning("Closed a connection: cannot read the records of its response: %s.", error.strerror or error)
            self.abort()
        return False

    def abort(self) -> None:
        """Close the connection; what waits is lost."""
        self._waiting.clear()
        self._transport.abort()

    def _send_some(self, max_bytes: int) -> int:
        """Send the next bytes to the socket or give them to the transport; return how many."""
        is_direct = self._socket_fd >= 0 and not self._transport.get_write_buffer_size()
        first = self._waiting[0]
        if is_direct and isinstance(first, FileRange):
            try:
                sent = first.send(self._socket_fd, max_bytes)
            except BlockingIOError:
                pass
            else:
                if not first:
                    self._waiting.popleft()
                return sent
        pieces = self._take(MAX_COALESCED_BYTES if is_direct else CHUNK_BYTES)
        size = sum(map(len, pieces))
        if is_direct:
            pieces = self._send_pieces(pieces)
        if pieces:
            self._transport.writelines(pieces)
        return size

    def _take(self, max_bytes: int) -> list[Piece]:
        """Remove pieces and read ranges, until there are `max_bytes`."""
        pieces: list[Piece] = []
        waiting = self._waiting
        while waiting and max_bytes > 0 and len(pieces) < _MAX_PIECES:
            first = waiting[0]
            if isinstance(first, FileRange):
                piece: Piece = first.read(max_bytes)
                if not first:
                    waiting.popleft()
            else:
                piece = first
                waiting.popleft()
            pieces.append(piece)
            max_bytes -= len(piece)
        return pieces

    def _send_pieces(self, pieces: list[Piece]) -> list[Piece]:
        """Send pieces to the socket; return the rest if it is full."""
        try:
            sent = os.writev(self._socket_fd, pieces)
        except BlockingIOError:
            return pieces
        for number, piece in enumerate(pieces):
            if sent < len(piece):
                return [memoryview(piece)[sent:], *pieces[number + 1 :]]
            sent -= len(piece)
        return []
