"""One client connection: read frames, decode, dispatch, write the responses in order.

Invariants:
- Requests of one connection are processed one after another, as in Kafka: a request starts when the one before it has
  its response, so a waiting JoinGroup or Fetch blocks only its own connection. Consecutive requests of one API in
  `PIPELINED` are the exception: none of them depends on the outcome of another, so they are processed together.
- Responses leave in the order of the requests. All responses that are ready at the end of an event loop iteration leave
  in one write.
- A malformed frame closes this connection and no other. Responses to earlier requests are sent first.
- Everything is bounded: the size of a frame, the queued requests (`request_limits`), and the bytes of unsent responses.
"""

import asyncio
from collections import deque
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from slackwater.broker.connection_handler import ConnectionHandler
from slackwater.broker.request_context import RequestContext
from slackwater.broker.request_limits import RequestLimits, check_incomplete_frame
from slackwater.broker.response_writer import ResponsePiece, ResponseWriter, has_ranges
from slackwater.wire.apis import HEARTBEAT, OFFSET_COMMIT, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from slackwater.wire.encoder_generator import Piece
from slackwater.wire.errors import WireError
from slackwater.wire.frames import LARGE_FRAME_BYTES, FrameReader
from slackwater.wire.request_response import decode_request

if TYPE_CHECKING:
    from slackwater.broker.authentication.sasl import SaslAuthentication

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication, as in Kafka."""
MAX_UNSENT_BYTES: Final = 1024 * 1024
MAX_SOFTWARE_NAME: Final = 100  # characters; the rest of a longer name is not stored
# A smaller request has too few elements to take long.
MIN_LARGE_BYTES: Final = 1_000
PIPELINED: Final = frozenset(api.key.to_bytes(2, "big") for api in (HEARTBEAT, OFFSET_COMMIT, PRODUCE))
_REAUTHENTICATION_APIS: Final = frozenset(api.key.to_bytes(2, "big") for api in (SASL_HANDSHAKE, SASL_AUTHENTICATE))
_PRODUCE: Final = PRODUCE.key.to_bytes(2, "big")


class Connection(asyncio.Protocol):
    """The server side of one socket."""

    def __init__(
        self, handler: ConnectionHandler, listener_name: str = "PLAINTEXT", principal: str = ANONYMOUS
    ) -> None:
        self._handler = handler
        self.listener_name = listener_name
        self.principal = principal
        self._frames = FrameReader(handler.max_request_bytes)
        self._queue: deque[bytes] = deque()  # frames of requests that have not started
        self._limits = RequestLimits(self, handler.request_memory, handler.max_queued_requests)
        self._in_progress: deque[RequestContext] = deque()  # in the order of the requests
        self._without_response = 0  # how many of those in progress have no response yet
        self._last_api = b""  # API key of the request that started last
        self._unsent_bytes = 0  # of responses
        self._transport: asyncio.Transport | None = None
        self._writer: ResponseWriter | None = None  # created when it is needed first
        self._is_send_scheduled = False
        self._is_closing = False
        self.last_received_at = 0.0
        self.host = ""
        self.client_software = ""  # the name in ApiVersions (KIP-511); empty if it is unknown
        self.session_ends_at = inf  # only a client that authenticates again may continue
        self.authentication: SaslAuthentication | None = None  # of a client that has used SASL
        self.local_address: tuple[str, int] = ("", 0)  # that the client connected to

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed or closes after its last response."""
        return self._is_closing

    @property
    def is_write_blocked(self) -> bool:
        """Whether the client has not read its responses."""
        return self._writer is not None and self._writer.is_blocked

    @property
    def pending_requests(self) -> int:
        """The number of requests without a sent response."""
        return len(self._in_progress) + len(self._queue)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection (asyncio callback)."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's class is not a subclass
        peer = transport.get_extra_info("peername")
        self.host = f"/{peer[0]}" if peer else "/"
        self.local_address = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self.last_received_at = monotonic()
        if not self._handler.connection_opened(self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop all requests; later responses are discarded (asyncio callback)."""
        self._is_closing = True
        self._transport = self._writer = None
        self._queue.clear()
        self._in_progress.clear()
        self._frames.clear()  # this object is freed by the garbage collector, perhaps much later
        self._limits.release()
        self._handler.connection_closed(self)

    def data_received(self, data: bytes) -> None:
        """Process the requests that these bytes complete (asyncio callback)."""
        if self._is_closing or self._frames.size_error:
            return
        self.last_received_at = monotonic()
        try:
            frames = self._frames.feed(data)
        except WireError as error:
            if not self._queue:
                self._close_malformed(error)
            return
        self._queue.extend(frames)
        self._limits.queued_bytes += len(data)
        self._process_queue()
        if self._frames.needed_bytes and not self._queue and not self._is_closing:
            try:
                check_incomplete_frame(self._frames)
            except WireError as error:
                self._close_malformed(error)

    def _process_queue(self) -> None:
        """Start as many queued requests as may start now."""
        queue = self._queue
        while queue and not self._is_closing:
            frame = queue[0]
            api = bytes(frame[:2])
            if self._without_response and (api != self._last_api or api not in PIPELINED):
                break
            if self.last_received_at > self.session_ends_at and api not in _REAUTHENTICATION_APIS:
                self._handler.session_expired(self)
                self.close()
                return
            if self.is_write_blocked or self._unsent_bytes > MAX_UNSENT_BYTES:
                break
            queue.popleft()
            try:
                size = len(frame)
                if size >= LARGE_FRAME_BYTES and api != _PRODUCE:
                    frame = bytes(frame)  # only records may be changed
                header, request = decode_request(frame)
                context = RequestContext(self, header, self.last_received_at)
                self._in_progress.append(context)
                self._without_response += 1
                self._last_api = api
                if size < MIN_LARGE_BYTES:
                    self._handler.handle(context, request)
                    continue
                self._limits.processed_bytes += size
                if self._handler.handle_large(context, request, size):
                    self.stop_pipelining()
            except WireError as error:
                self._close_malformed(error)
                return
        if not queue:
            self._limits.queued_bytes = 0
            if self._frames.size_error and not self._is_closing:
                self._close_malformed(WireError(self._frames.size_error))
                return
        self._pause_or_resume_reading()

    def stop_pipelining(self) -> None:
        """Process no other request before the ones in progress have their responses."""
        self._last_api = b""

    def response_ready(self, size: int) -> None:
        """Schedule sending if the oldest request in progress has its response now."""
        self._without_response -= 1
        self._unsent_bytes += size
        if not self._is_send_scheduled and self._in_progress and self._in_progress[0].response is not None:
            self._is_send_scheduled = True
            self._handler.send_later(self)

    def send_responses(self) -> None:
        """Write the responses that no earlier request holds back, then start queued requests."""
        self._is_send_scheduled = False
        in_progress = self._in_progress
        completed: list[RequestContext] = []
        pieces: list[ResponsePiece] = []
        while in_progress and (response := in_progress[0].response) is not None:
            completed.append(in_progress.popleft())
            if isinstance(response, list):
                pieces += response
            elif response:
                pieces.append(response)
        if completed:
            self._handler.responses_sent(completed)
            self._unsent_bytes -= sum(map(len, pieces))
            if self._transport is not None and pieces:
                if self._writer is None and has_ranges(pieces):
                    self._writer = ResponseWriter(self._transport)
                if self._writer is None:
                    self._transport.writelines(cast("list[Piece]", pieces))
                else:
                    self._writer.write(pieces)
        if self._writer is not None and self._writer.has_waiting:
            self._send_waiting(self._writer)
        if not in_progress:
            self._limits.processed_bytes = 0
        if self._queue:
            self._process_queue()
        elif self._limits.is_reached:
            self._pause_or_resume_reading()

    def _send_waiting(self, writer: ResponseWriter) -> None:
        """Send records of files; continue when the socket is writable, or in the next iteration."""
        if writer.send() and not self._is_send_scheduled:
            self._is_send_scheduled = True
            self._handler.send_later(self)
        if self._is_closing and self._transport is not None and not writer.has_waiting:
            self._transport.close()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its responses (asyncio callback)."""
        if self._writer is None and self._transport is not None:
            self._writer = ResponseWriter(self._transport)
        if self._writer is not None:
            self._writer.is_paused = True
        self._pause_or_resume_reading()

    def resume_writing(self) -> None:
        """Continue with a client that reads its responses again (asyncio callback)."""
        if self._writer is not None:
            self._writer.is_paused = False
        self.last_received_at = monotonic()
        self.send_responses()

    @property
    def has_incomplete_request(self) -> bool:
        """Whether a part of a request has arrived."""
        return self._frames.stored_bytes > 0

    def memory_changed(self) -> None:
        """Read again, if the request memory allows it."""
        self._pause_or_resume_reading()

    def _pause_or_resume_reading(self) -> None:
        if self._transport is not None:
            pending = len(self._in_progress) + len(self._queue)
            self._limits.pause_or_resume(self._transport, self._frames.stored_bytes, pending, self.is_write_blocked)

    def close(self) -> None:
        """Close the connection after sending the responses that are ready."""
        self._is_closing = True
        self._queue.clear()
        self.send_responses()
        if self._transport is not None and not (self._writer and self._writer.has_waiting):
            self._transport.close()

    def abort(self) -> None:
        """Close the connection now; unsent responses are lost."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def _close_malformed(self, error: WireError) -> None:
        self._handler.malformed_frame(self, error)
        self.close()
