"""One client's connection: frames in, answers out, in the order of the requests.

Rules kept here
- Requests of one connection are done one after another, as Kafka does them: the next begins when the one before it has
  its answer, so a client that commits and then asks for its offset sees what it committed, and a parked JoinGroup or
  Fetch holds up its own connection alone. A run of the same `PIPELINED` request is the exception: none of them can see
  another's outcome, so all that came together are decided, and written, together.
- What is ready at the end of a turn leaves in one write.
- A malformed frame ends this connection and no other: earlier answers are still sent, then it is closed.
- Everything is bounded: the size of a frame, the requests that wait, in number and in bytes (the socket is not read
  meanwhile), and what a client that never reads can make us keep: nothing more is begun for it while it does not take
  what it is owed.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Final, Protocol, cast

from slackwater.wire.apis import HEARTBEAT, OFFSET_COMMIT, PRODUCE
from slackwater.wire.envelope import RequestHeader, RequestReader, encode_response, response_pieces
from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader
from slackwater.wire.schema import Request, Response
from slackwater.wire.writing import Piece

MOST_READY_BYTES: Final = 1024 * 1024  # answers that are not sent yet; the next request waits for them to leave
MOST_QUEUED_BYTES: Final = 1024 * 1024  # requests that have not begun; the socket is not read meanwhile
PIPELINED: Final = frozenset(api.key.to_bytes(2, "big") for api in (HEARTBEAT, OFFSET_COMMIT, PRODUCE))


class Call:
    """One request and the answer it is owed."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "frame", "since", "version")

    def __init__(self, connection: "Connection", header: RequestHeader, since: float) -> None:
        self.connection = connection
        self.api_key, self.version, self.correlation_id, self.client_id = header
        self.since = since  # when its last byte came, on the monotonic clock
        self.frame: bytes | list[Piece] | None = None  # in pieces where it carries records; None: not answered yet

    @property
    def host(self) -> str:
        """Where the client is, as Kafka shows it."""
        return self.connection.host

    @property
    def is_answered(self) -> bool:
        """Whether it has its answer, or needs none any more."""
        return self.frame is not None

    def answer(self, response: Response) -> None:
        """Answer; it leaves when everything before it has left."""
        self.frame = frame = encode_response(response, self.version, self.correlation_id)
        self.connection.ready(len(frame))

    def answer_frame(self, frame: bytes) -> None:
        """Answer with what is encoded already."""
        self.frame = frame
        self.connection.ready(len(frame))

    def answer_records(self, response: Response) -> None:
        """Answer with what carries records, which are not copied: a new megabyte for each answer costs the most."""
        self.frame = frame = response_pieces(response, self.version, self.correlation_id)
        self.connection.in_pieces = True
        self.connection.ready(sum(map(len, frame)))

    def no_answer(self) -> None:
        """The client wants none (Produce with acks=0)."""
        self.frame = b""
        self.connection.ready(0)


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
        """Do what is asked, and answer now or later; a WireError ends the connection."""
        ...

    def flush_later(self, connection: "Connection") -> None:
        """Call `flush` at the end of this turn."""
        ...

    def answered(self, calls: list[Call]) -> None:
        """These answers leave now."""
        ...

    def malformed(self, connection: "Connection", error: WireError) -> None:
        """A client sent what cannot be read."""
        ...


class Connection(asyncio.Protocol):
    """The server's side of one socket."""

    __slots__ = (
        "_closing",
        "_desk",
        "_dirty",
        "_frames",
        "_full",
        "_open",
        "_queue",
        "_queued_bytes",
        "_reader",
        "_reading",
        "_ready_bytes",
        "_run",
        "_transport",
        "_waiting",
        "heard",
        "host",
        "in_pieces",
        "listener",
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._frames = FrameReader(desk.max_request_bytes)
        self._reader = RequestReader()
        self._queue: deque[bytes] = deque()  # requests that have not begun
        self._queued_bytes = 0
        self._ready_bytes = 0  # of answers that are not sent yet
        self._waiting: deque[Call] = deque()  # requests that have begun, in order; their answers leave in this order
        self._open = 0  # how many of those have no answer yet
        self._run = b""  # the API of the request that began last
        self._transport: asyncio.Transport | None = None
        self._dirty = False
        self._closing = False
        self._reading = True
        self._full = False  # the client does not read its answers
        self.heard = 0.0  # when it last sent something
        self.in_pieces = False  # an answer that is ready carries records
        self.host = ""
        self.listener: tuple[str, int] = ("", 0)  # the address it came to

    @property
    def waiting(self) -> int:
        """How many requests wait for their answer."""
        return len(self._waiting) + len(self._queue)

    @property
    def is_stuck(self) -> bool:
        """Whether the client does not take what it is owed."""
        return self._full

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's own class is none of asyncio's
        peer = transport.get_extra_info("peername")
        self.host = f"/{peer[0]}" if peer else "/"
        self.listener = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self.heard = monotonic()
        if not self._desk.opened(self):
            self._closing = True
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone; answers that come now go nowhere."""
        self._closing = True
        self._transport = None
        self._queue.clear()
        self._waiting.clear()
        self._desk.closed(self)

    def data_received(self, data: bytes) -> None:
        """Take the frames that are whole by now."""
        if self._closing:
            return
        self.heard = monotonic()
        try:
            frames = self._frames.feed(data)
        except WireError as error:
            self._refuse(error)
            return
        if self._queue:
            self._queue.extend(frames)
            self._queued_bytes += sum(map(len, frames))
        elif not self._begin(frames):
            return
        if self._frames.refused and not self._queue:
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
        self.heard = monotonic()
        self.flush()

    # --- requests and answers -----------------------------------------------------------------------------------------

    def _begin(self, frames: Iterable[bytes]) -> bool:
        """Begin with these requests as far as they may begin; the rest waits. False if one cannot be read."""
        since, waiting, decode, handle = self.heard, self._waiting, self._reader.decode, self._desk.handle
        rest = iter(frames)
        for frame in rest:
            api = frame[:2]
            must_wait = self._open and (api != self._run or api not in PIPELINED)
            if must_wait or self._ready_bytes > MOST_READY_BYTES or self._full:
                self._queue.append(frame)
                self._queue.extend(rest)
                self._queued_bytes = sum(map(len, self._queue))
                break
            try:
                header, request = decode(frame)
                self._run = api
                self._open += 1
                call = Call(self, header, since)
                waiting.append(call)
                handle(call, request)
            except WireError as error:
                self._refuse(error)
                return False
        return True

    def _refuse(self, error: WireError) -> None:
        self._desk.malformed(self, error)
        self._closing = True
        self._queue.clear()
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def ready(self, size: int) -> None:
        """A call has its answer of this size; if it is the first in line, something can leave."""
        self._open -= 1
        self._ready_bytes += size
        if not self._dirty and self._waiting and self._waiting[0].frame is not None:
            self._dirty = True
            self._desk.flush_later(self)

    def flush(self) -> None:
        """Send every answer that no earlier one holds back, and begin what waited for it."""
        self._dirty = False
        out = self._take_answered()
        if out:
            self._desk.answered(out)
            self._send(out)
        if self._queue and not self._open and not self._closing and not self._full:
            queue, self._queue = self._queue, deque()
            self._queued_bytes = 0
            if not self._begin(queue):
                return
            if self._frames.refused and not self._queue:
                self._refuse(WireError(self._frames.refused))
                return
        self._read_or_not()

    def _send(self, out: list[Call]) -> None:
        pieces: list[Piece] = []
        for call in out:
            if isinstance(call.frame, list):
                pieces += call.frame
            elif call.frame:
                pieces.append(call.frame)
        in_pieces, self.in_pieces = self.in_pieces, False
        if in_pieces:
            self._ready_bytes -= sum(map(len, pieces))
            if self._transport is not None:
                self._transport.writelines(pieces)
        else:
            data = b"".join(pieces)
            self._ready_bytes -= len(data)
            if self._transport is not None:
                self._transport.write(data)

    def _take_answered(self) -> list[Call]:
        waiting = self._waiting
        if not self._open:  # all of them, which is the usual case
            out = list(waiting)
            waiting.clear()
            return out
        out = []
        while waiting and waiting[0].frame is not None:
            out.append(waiting.popleft())
        return out

    def close(self) -> None:
        """Close after what is ready has been sent."""
        self._closing = True
        self._queue.clear()
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection; what was not sent is lost."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _read_or_not(self) -> None:
        """Read on only while the client takes its answers and not too many requests wait."""
        transport = self._transport
        wanted = not self._full and len(self._waiting) + len(self._queue) < self._desk.max_waiting
        wanted = wanted and self._queued_bytes <= MOST_QUEUED_BYTES
        if transport is None or transport.is_closing() or wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()
