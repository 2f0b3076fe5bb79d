"""One client's connection: frames in, answers out, in the order of the requests.

Rules kept here
- Answers leave in the order in which their requests came, as Kafka's clients expect; one that is ready waits for those
  before it. What is ready at the end of a turn leaves in one write.
- A malformed frame ends this connection and no other: earlier answers are still sent, then it is closed.
- Everything is bounded: the size of a frame, the requests that wait for an answer (the socket is not read meanwhile),
  and what a client that never reads can make us keep.
"""

import asyncio
from collections import deque
from typing import Protocol

from slackwater.wire.envelope import RequestHeader, decode_request, response_pieces
from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader
from slackwater.wire.schema import Request, Response


class Call:
    """One request and the answer it is owed."""

    __slots__ = ("client_id", "connection", "correlation_id", "frame", "version")

    def __init__(self, connection: "Connection", header: RequestHeader) -> None:
        self.connection = connection
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.frame: bytes | None = None  # None: not answered yet

    @property
    def host(self) -> str:
        """Where the client is, as Kafka shows it."""
        return self.connection.host

    def answer(self, response: Response) -> None:
        """Answer; it leaves when everything before it has left."""
        self.frame = b"".join(response_pieces(response, self.version, self.correlation_id))
        self.connection.ready(self)

    def no_answer(self) -> None:
        """The client wants none (Produce with acks=0)."""
        self.frame = b""
        self.connection.ready(self)


class Desk(Protocol):
    """What a connection needs of the broker."""

    max_request_bytes: int
    max_waiting: int

    def opened(self, connection: "Connection") -> bool:
        """A client has connected; False turns it away."""
        ...

    def closed(self, connection: "Connection") -> None:
        """A client has gone."""
        ...

    def handle(self, call: Call, request: Request) -> None:
        """Do what is asked, and answer now or later."""
        ...

    def flush_later(self, connection: "Connection") -> None:
        """Call `flush` at the end of this turn."""
        ...

    def malformed(self, connection: "Connection", error: WireError) -> None:
        """A client sent what cannot be read."""
        ...


class Connection(asyncio.Protocol):
    """The server's side of one socket."""

    __slots__ = ("_closing", "_desk", "_dirty", "_frames", "_full", "_reading", "_transport", "_waiting", "host")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._frames = FrameReader(desk.max_request_bytes)
        self._waiting: deque[Call] = deque()
        self._transport: asyncio.Transport | None = None
        self._dirty = False
        self._closing = False
        self._reading = True
        self._full = False  # the client does not read its answers
        self.host = ""

    @property
    def waiting(self) -> int:
        """How many requests wait for their answer."""
        return len(self._waiting)

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.host = f"/{peer[0]}" if peer else "/"
        if not self._desk.opened(self):
            self._closing = True
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone; answers that come now go nowhere."""
        self._closing = True
        self._transport = None
        self._waiting.clear()
        self._desk.closed(self)

    def data_received(self, data: bytes) -> None:
        """Take the frames that are whole by now."""
        if self._closing:
            return
        try:
            frames = self._frames.feed(data)
        except WireError as error:
            self._refuse(error)
            return
        for frame in frames:
            if not self._take(frame):
                return
        if self._frames.refused:
            self._refuse(WireError(self._frames.refused))
            return
        self._read_or_not()

    def pause_writing(self) -> None:
        """The client does not read: do not read from it either."""
        self._full = True
        self._read_or_not()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._full = False
        self._read_or_not()

    # --- requests and answers -----------------------------------------------------------------------------------------

    def _take(self, frame: bytes) -> bool:
        try:
            header, request = decode_request(frame)
        except WireError as error:
            self._refuse(error)
            return False
        call = Call(self, header)
        self._waiting.append(call)
        self._desk.handle(call, request)
        return True

    def _refuse(self, error: WireError) -> None:
        self._desk.malformed(self, error)
        self._closing = True
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def ready(self, call: Call) -> None:
        """A call has its answer; if it is the first in line, something can leave."""
        if not self._dirty and self._waiting and self._waiting[0].frame is not None:
            self._dirty = True
            self._desk.flush_later(self)

    def flush(self) -> None:
        """Send every answer that no earlier one holds back."""
        self._dirty = False
        waiting = self._waiting
        out = []
        while waiting and waiting[0].frame is not None:
            out.append(waiting.popleft().frame)
        if out and self._transport is not None:
            self._transport.write(b"".join(frame for frame in out if frame))
        self._read_or_not()

    def close(self) -> None:
        """Close after what is ready has been sent."""
        self.flush()
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def _read_or_not(self) -> None:
        """Read on only while the client takes its answers and not too many requests wait."""
        transport = self._transport
        wanted = not self._full and len(self._waiting) < self._desk.max_waiting
        if transport is None or transport.is_closing() or wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()
