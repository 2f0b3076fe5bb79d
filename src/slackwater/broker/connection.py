"""One client's connection: frames in, answers out, in the order of the requests.

Rules kept here
- Requests of one connection are done one after another, as Kafka does them: the next begins when the one before it has
  its answer, so a client that commits and then asks for its offset sees what it committed, and a parked JoinGroup or
  Fetch holds up its own connection alone. A run of the same `PIPELINED` request is the exception: none of them can see
  another's outcome, so all that came together are decided, and written, together.
- A run of requests that say what the last of their kind said is neither cut into frames nor decoded: its bytes are
  compared with those of that one (`repeats`), and its answers are one piece. What a frame may do does not depend on it.
  So it is with the fetches of a consumer that has read everything (`idle_fetches`). When they go on, its socket is lent
  (`idle_sockets`): then they and their answers pass by here, until something else comes or leaves.
- What is ready at the end of a turn leaves in one write.
- A malformed frame ends this connection and no other: earlier answers are still sent, then it is closed.
- Everything is bounded: the size of a frame, the requests that wait, in number and in bytes (the socket is not read
  meanwhile), and what a client that never reads can make us keep: nothing more is begun for it while it does not take
  what it is owed.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, cast

from slackwater.broker.fetching.idle_sockets import IdleSockets
from slackwater.broker.repeats import FEWEST, MOST_WASTED, Remembered, Repeats, Run
from slackwater.wire.apis import FETCH, HEARTBEAT, OFFSET_COMMIT, PRODUCE
from slackwater.wire.envelope import RequestHeader, RequestReader, encode_response, response_pieces
from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader
from slackwater.wire.schema import Request, Response
from slackwater.wire.writing import Piece

if TYPE_CHECKING:
    from slackwater.broker.fetching.idle_fetches import IdleFetch
    from slackwater.broker.handlers import Handler

MOST_READY_BYTES: Final = 1024 * 1024  # answers that are not sent yet; the next request waits for them to leave
MOST_QUEUED_BYTES: Final = 1024 * 1024  # requests that have not begun; the socket is not read meanwhile
PIPELINED: Final = frozenset(api.key.to_bytes(2, "big") for api in (HEARTBEAT, OFFSET_COMMIT, PRODUCE))
REPEATED: Final = frozenset(api.key.to_bytes(2, "big") for api in (HEARTBEAT, OFFSET_COMMIT))
LENT_AFTER: Final = 3  # such fetches in a row: a client that asks for other things in between would come and go
_FETCH: Final = FETCH.key.to_bytes(2, "big")
# Behind a frame's size: the API, two bytes, and its version, two bytes.
_API_AT: Final = 4
_API_ENDS_AT: Final = 6
_VERSION_ENDS_AT: Final = 8


class RequestContext:
    """One request and the answer it is owed."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "frame", "since", "version")
    count: ClassVar = 1

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
    def has_response(self) -> bool:
        """Whether it has its answer, or needs none any more."""
        return self.frame is not None

    def respond(self, response: Response) -> None:
        """Answer; it leaves when everything before it has left."""
        self.frame = frame = encode_response(response, self.version, self.correlation_id)
        self.connection.ready(len(frame))

    def respond_encoded(self, frame: bytes) -> None:
        """Answer with what is encoded already."""
        self.frame = frame
        self.connection.ready(len(frame))

    def respond_with_records(self, response: Response) -> None:
        """Answer with what carries records, which are not copied: a new megabyte for each answer costs the most."""
        self.frame = frame = response_pieces(response, self.version, self.correlation_id)
        self.connection.in_pieces = True
        self.connection.ready(sum(map(len, frame)))

    def skip_response(self) -> None:
        """The client wants none (Produce with acks=0)."""
        self.frame = b""
        self.connection.ready(0)


class Desk(Protocol):
    """What a connection needs of the broker."""

    max_request_bytes: int
    max_waiting: int
    handlers: dict[int, "Handler"]  # those asked for so far
    idle_sockets: IdleSockets | None  # None where sockets cannot be lent

    def opened(self, connection: "Connection") -> bool:
        """A client has connected; False turns it away."""
        ...

    def closed(self, connection: "Connection") -> None:
        """A client has gone."""
        ...

    def handle(self, context: RequestContext, request: Request) -> None:
        """Do what is asked, and answer now or later; a WireError ends the connection."""
        ...

    def repeats(self, header: RequestHeader, request: Request, frame: bytes) -> Repeats | None:
        """What takes the requests that will say what this one says, if its API has such."""
        ...

    def handle_repeats(self, connection: "Connection", repeats: Repeats, data: bytes) -> int:
        """Do what is asked by the requests that this begins with; how many bytes those are, 0 if they are others."""
        ...

    def flush_later(self, connection: "Connection") -> None:
        """Call `flush` at the end of this turn."""
        ...

    def answered(self, calls: "Sequence[RequestContext | Run]") -> None:
        """These answers leave now."""
        ...

    def malformed(self, connection: "Connection", error: WireError) -> None:
        """A client sent what cannot be read."""
        ...


class Connection(asyncio.Protocol):
    """The server's side of one socket."""

    __slots__ = (
        "_begun",
        "_closing",
        "_desk",
        "_dirty",
        "_frames",
        "_full",
        "_idled",
        "_lent",
        "_open",
        "_queue",
        "_queued_bytes",
        "_reader",
        "_reading",
        "_ready_bytes",
        "_remembered",
        "_run",
        "_transport",
        "_waiting",
        "heard",
        "host",
        "idle",
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
        self._waiting: deque[RequestContext | Run] = (
            deque()
        )  # what has begun, in order; the answers leave in this order
        self._begun = 0  # how many requests those are
        self._open = 0  # how many of them have no answer yet
        self._remembered: dict[bytes, Remembered] = {}  # by API and version, what the last one said
        self._run = b""  # the API of the request that began last
        self._transport: asyncio.Transport | None = None
        self._dirty = False
        self._closing = False
        self._reading = True
        self._full = False  # the client does not read its answers
        self._idled = 0  # how many fetches in a row were taken by their bytes
        self._lent: IdleFetch | None = None  # who has the socket, and speaks for this connection meanwhile
        self.heard = 0.0  # when it last sent something
        self.in_pieces = False  # an answer that is ready carries records
        self.idle: IdleFetch | None = None  # takes the fetches that come while there is nothing new
        self.host = ""
        self.listener: tuple[str, int] = ("", 0)  # the address it came to

    @property
    def waiting(self) -> int:
        """How many requests wait for their answer."""
        return self._begun + len(self._queue) if self._lent is None else int(self._lent.is_waiting)

    @property
    def last_heard(self) -> float:
        """When it last sent something."""
        return self.heard if self._lent is None else self._lent.since

    @property
    def handlers(self) -> Mapping[int, "Handler"]:
        """What the broker does with requests."""
        return self._desk.handlers

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
        self.come_back()
        self._transport = None
        self._queue.clear()
        self._waiting.clear()
        self._begun = 0
        self._desk.closed(self)

    def data_received(self, data: bytes) -> None:
        """Take the frames that are whole by now."""
        if self._closing:
            return
        self.heard = monotonic()
        idle = self.idle
        if (
            idle is not None
            and not (self._open or self._waiting or self._queue or self._full)
            and idle.again(data, self.heard)
        ):
            self._run = _FETCH
            self._open = self._begun = 1
            self._idled += 1
            if self._idled >= LENT_AFTER:
                self._lend(idle, data)
            return
        self._idled = 0
        if self._remembered and (taken := self._begin_repeats(data)):
            data = data[taken:]
            if not data:
                self._read_or_not()
                return
        frame = self._frames.whole(data)
        if frame is not None and not (self._open or self._queue or self._full or self._ready_bytes):
            self._begin_one(frame)  # the usual case: a client that waits for its answer before it asks again
            return
        try:
            frames = self._frames.feed(data) if frame is None else [frame]
        except WireError as error:
            self._refuse(error)
            return
        if self.idle is not None and self._frames.pending_bytes:
            self.idle.retire()  # it knows whole frames only
        if self._queue:
            self._queue.extend(frames)
            self._queued_bytes += sum(map(len, frames))
        elif not self._begin(frames):
            return
        elif len(frames) > 1 and self._run in REPEATED and not self._queue:
            self._remember(frames[-2], frames[-1])
        if self._frames.refused and not self._queue:
            self._refuse(WireError(self._frames.refused))
            return
        if self._queue or self._full or not self._reading or self._begun >= self._desk.max_waiting:
            self._read_or_not()

    def _lend(self, idle: "IdleFetch", data: bytes) -> None:
        """Let the fetch that has just begun to wait, and those behind it, have the socket."""
        sockets, transport = self._desk.idle_sockets, self._transport
        if sockets is None or transport is None or not self._reading or transport.is_closing():
            return
        if transport.get_write_buffer_size() or transport.get_extra_info("sslcontext") is not None:
            return  # not all that was written has left; or the bytes on the socket are not those of the protocol
        transport.pause_reading()
        idle.borrow(transport.get_extra_info("socket").fileno(), data)
        sockets.lend(idle.socket, idle)
        self._lent = idle

    def come_back(self) -> None:
        """The socket is not lent any more, and its transport reads it again."""
        idle, sockets = self._lent, self._desk.idle_sockets
        if idle is None or sockets is None:
            return
        sockets.give_back(idle.socket, idle)
        idle.give_back()
        self._lent = None
        self._idled = 0
        self.heard = idle.since
        self._open = self._begun = int(idle.is_waiting)
        if not self._closing and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

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

    def _begin_one(self, frame: bytes) -> None:
        """Begin with a request that nothing holds up."""
        desk = self._desk
        try:
            header, request = self._reader.decode(frame)
            self._run = frame[:2]
            self._open = 1
            self._begun += 1
            context = RequestContext(self, header, self.heard)
            self._waiting.append(context)
            desk.handle(context, request)
        except WireError as error:
            self._refuse(error)
            return
        if self._queue or self._full or not self._reading or self._begun >= desk.max_waiting:
            self._read_or_not()

    def _begin(self, frames: Iterable[bytes]) -> bool:
        """Begin with these requests as far as they may begin; the rest waits. False if one cannot be read."""
        since, waiting, decode, handle = self.heard, self._waiting, self._reader.decode, self._desk.handle
        rest = iter(frames)
        for frame in rest:
            if self._closing:
                return True  # cut off while the ones before were handled: what comes behind them has not been sent
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
                self._begun += 1
                context = RequestContext(self, header, since)
                waiting.append(context)
                handle(context, request)
            except WireError as error:
                self._refuse(error)
                return False
        return True

    def _begin_repeats(self, data: bytes) -> int:
        """Begin with the requests there that say what the last of their kind said; how many bytes they take."""
        remembered = self._remembered.get(data[_API_AT:_VERSION_ENDS_AT])
        if remembered is None or remembered.repeats is None or len(data) < FEWEST * remembered.repeats.size:
            return 0
        if self._queue or self._full or self._frames.pending_bytes or self._ready_bytes > MOST_READY_BYTES:
            return 0
        if self._open and data[_API_AT:_API_ENDS_AT] != self._run:
            return 0
        taken = self._desk.handle_repeats(self, remembered.repeats, data)
        if taken:
            self._run = data[_API_AT:_API_ENDS_AT]
            remembered.wasted = 0
        return taken

    def keep_idle(self, idle: "IdleFetch") -> None:
        """Let this take the fetches that come while there is nothing new; it is dropped as soon as it may be wrong."""
        self.forget_idle()
        if not self._closing and not self._frames.pending_bytes and self._desk.max_waiting > 1:
            self.idle = idle
        else:
            idle.drop()

    def forget_idle(self) -> None:
        """The next fetch is read as usual."""
        if self.idle is not None:
            idle, self.idle = self.idle, None
            idle.drop()

    def answer_idle(self, frame: bytes) -> None:
        """Answer the fetch that waited in vain: at once if nothing comes behind it, because no write is waited for."""
        self._open = self._begun = 0
        if self._transport is not None and not self._closing:
            self._transport.write(frame)
            if self._queue and not self._dirty:
                self._dirty = True
                self._desk.flush_later(self)

    def rest_of_idle(self, rest: bytes) -> None:
        """Not all of an answer has left over the lent socket: the transport does the rest, or finds that it is gone."""
        self.come_back()
        if self._transport is not None:
            self._transport.write(rest)

    def end_idle(self, idle: "IdleFetch") -> None:
        """The fetch that waited has news after all, and is answered like any other."""
        self.come_back()
        self._open = self._begun = 1
        self._waiting.append(idle)

    def begin_run(self, run: Run) -> None:
        """These requests have begun, together."""
        self._open += run.count
        self._begun += run.count
        self._waiting.append(run)

    def _remember(self, before: bytes, frame: bytes) -> None:
        """Keep what the last request said, if the one before it, which came with it, may have said the same."""
        start = frame[: _VERSION_ENDS_AT - _API_AT]
        if len(before) != len(frame) or before[: len(start)] != start:
            return
        remembered = self._remembered.get(start)
        if remembered is None:
            remembered = self._remembered[start] = Remembered()
        if remembered.wasted < MOST_WASTED:
            remembered.wasted += 1
            header, request = self._reader.decode(frame)
            remembered.repeats = self._desk.repeats(header, request, frame)

    def _refuse(self, error: WireError) -> None:
        self._desk.malformed(self, error)
        self._closing = True
        self._queue.clear()
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def ready(self, size: int, count: int = 1) -> None:
        """A context, or so many in a run, has its answer of this size; if it is first in line, something can leave."""
        self._open -= count
        self._ready_bytes += size
        if not self._dirty and self._waiting and self._waiting[0].frame is not None:
            self._dirty = True
            self._desk.flush_later(self)

    def flush(self) -> None:
        """Send every answer that no earlier one holds back, and begin what waited for it."""
        self._dirty = False
        waiting = self._waiting
        if len(waiting) == 1 and not self._open and not self.in_pieces:  # the usual case
            context = waiting.pop()
            self._begun = 0
            self._desk.answered((context,))
            self._write(context.frame)  # type: ignore[arg-type]  # it has its answer, which is not in pieces
        elif out := self._take_answered():
            self._desk.answered(out)
            self._send(out)
        if not (self._queue or self._full) and self._reading and self._begun < self._desk.max_waiting:
            return  # the usual case: nothing waits, and the socket is read
        if self._queue and not self._open and not self._closing and not self._full:
            queue, self._queue = self._queue, deque()
            self._queued_bytes = 0
            if not self._begin(queue):
                return
            if self._frames.refused and not self._queue:
                self._refuse(WireError(self._frames.refused))
                return
        self._read_or_not()

    def _write(self, data: bytes) -> None:
        self._ready_bytes -= len(data)
        if self._transport is not None and data:
            self._transport.write(data)

    def _send(self, out: list[RequestContext | Run]) -> None:
        pieces: list[Piece] = []
        for context in out:
            if isinstance(context.frame, list):
                pieces += context.frame
            elif context.frame:
                pieces.append(context.frame)
        in_pieces, self.in_pieces = self.in_pieces, False
        if in_pieces:
            self._ready_bytes -= sum(map(len, pieces))
            if self._transport is not None:
                self._transport.writelines(pieces)
        else:
            self._write(b"".join(pieces))

    def _take_answered(self) -> list[RequestContext | Run]:
        waiting = self._waiting
        if not self._open:  # all of them, which is the usual case
            out = list(waiting)
            waiting.clear()
            self._begun = 0
            return out
        out = []
        while waiting and waiting[0].frame is not None:
            out.append(waiting.popleft())
            self._begun -= out[-1].count
        return out

    def close(self) -> None:
        """Close after what is ready has been sent."""
        self._closing = True
        self.come_back()
        self._queue.clear()
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection; what was not sent is lost."""
        self._closing = True
        self.come_back()
        if self._transport is not None:
            self._transport.abort()

    def _read_or_not(self) -> None:
        """Read on only while the client takes its answers and not too many requests wait."""
        self.come_back()
        wanted = not self._full and self._begun + len(self._queue) < self._desk.max_waiting
        wanted = wanted and self._queued_bytes <= MOST_QUEUED_BYTES
        transport = self._transport
        if wanted == self._reading or transport is None or transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()
