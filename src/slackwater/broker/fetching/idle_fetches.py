"""Consumers that have read everything, and ask again and again whether there is more: a thousand of them cost little.

Rules kept here
- An incremental fetch that changes nothing is the last one of its connection but for the correlation id and the
  session's epoch. It is found by comparing bytes, not by reading them; whatever differs is read as usual.
- It waits at once if nothing has happened since the answer before it: no append, no other request of the session, and
  no log that begins or ends elsewhere. Otherwise it is read as usual, which is slower and never wrong.
- Between two requests it goes on hanging on its partitions, so that an append in between is seen. An append ends it: in
  the middle of a wait with an answer, as any other fetch (`handlers.fetch`).
- Waits whose time is up have no news and no write to wait for: their answers leave at once.
- Over a lent socket the next request is known before it comes: most likely it is the last one with the next number in
  both places. A thousand consumers share the processor's cache, so what is asked of each is kept close together.
- Only fetches that take any byte (`fetch.min.bytes` 1, what consumers ask unless told otherwise) are kept so.
"""

import logging
import os
import struct
from collections.abc import Callable, Sequence
from typing import Final

from slackwater.broker.connection import RequestContext
from slackwater.broker.fetching.sessions import FetchSessions, Session
from slackwater.broker.fetching.waits import FetchWaits
from slackwater.broker.storage.log.checkpoint import Checkpoint
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.topics import Partition
from slackwater.wire.apis import FETCH
from slackwater.wire.envelope import PreencodedResponse, RequestHeader, encode_request
from slackwater.wire.messages.fetch import FetchRequest
from slackwater.wire.repeats import CountedFrames

log = logging.getLogger("slackwater.broker.fetch")
_FETCH: Final = FETCH.key
_NUMBER: Final = struct.Struct(">i")
_PACK_INTO: Final = _NUMBER.pack_into
_MOST: Final = 2**31 - 1
_NONE: Final = -1
# Behind a request's size, API and version stands its correlation id; in an answer, behind its size.
_ID_AT: Final = 8
_ANSWERED_AT: Final = 4


class IdleFetch(RequestContext):
    """The fetch of a consumer that waits in vain: one object for all of its requests, one after the other."""

    __slots__ = (
        "_answer",
        "_correlation_id",
        "_ends",
        "_epoch_at",
        "_expected",
        "_frame",
        "_frames",
        "_handlers",
        "_is_fresh",
        "_number",
        "_partitions",
        "_read",
        "_session",
        "_sessions",
        "_wait_ms",
        "_waits",
        "_woken",
        "bucket",
        "epoch",
        "is_waiting",
        "socket",
    )

    def __init__(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: Session,
        answer: PreencodedResponse,
        partitions: Sequence[Partition],
        *,
        sessions: FetchSessions,
        waits: FetchWaits,
        read: Callable[[RequestContext, int], None],
    ) -> None:
        """Take the requests that will say what this one says, and which `answer` answers if there is nothing.

        `read` answers if there is something; it is given the request, and the epoch that the session had then.
        """
        header = RequestHeader(context.api_key, context.version, context.correlation_id, context.client_id)
        super().__init__(context.connection, header, context.since)
        self._frames = _frames(header, request)
        self._session = session
        self.epoch = session.epoch
        self._sessions = sessions
        self._waits = waits
        self._wait_ms = request.max_wait_ms
        self._read = read
        self._answer = answer
        self._handlers = (
            context.connection.handlers
        )  # a fault may take the place of one, and wants to see every request
        self._correlation_id = b""
        self._is_fresh = True
        self._partitions = partitions
        self._ends: tuple[tuple[PartitionLog, Checkpoint, int], ...] = tuple(
            (each.log, each.log.checkpoint, each.log.log_end_offset) for each in partitions
        )
        self._woken = self._wake  # one object, for partitions to know it by
        self.bucket = 0.0
        self.is_waiting = False
        self.socket = _NONE  # that is lent to it
        self._number = 0  # the correlation id of the last request over it
        self._expected = self._frame = bytearray()  # the next request over it, and the answer to the last one
        self._epoch_at = self._frames.number_at
        for partition in partitions:
            partition.waiters[self._woken] = None

    def again(self, data: bytes, since: float) -> bool:
        """Whether this is the same request once more, and there is still nothing: then it waits from now on."""
        correlation_id = self._frames.correlation_id(data, self.epoch) if self._is_fresh else None
        if correlation_id is None or not self._may_wait():
            return False
        self._correlation_id = correlation_id
        self._begin(since)
        return True

    def _may_wait(self) -> bool:
        """Whether nothing has happened since the last answer."""
        session = self._session
        if not self._is_fresh or session.epoch != self.epoch or session.is_over or not self._handlers[_FETCH].idles:
            return False
        for partition_log, checkpoint, end in self._ends:
            if partition_log.log_end_offset != end or partition_log.checkpoint is not checkpoint:
                return False
        return True

    def _begin(self, since: float) -> None:
        session = self._session
        self._sessions.again(session, since)
        self.epoch = session.epoch
        self.since = since
        self.is_waiting = True
        self._waits.begin(self, self._wait_ms)

    # --- over a lent socket -------------------------------------------------------------------------------------------

    def borrow(self, socket: int, data: bytes) -> None:
        """Answer over this socket, and hear what comes over it; last came this, which waits now."""
        self.socket = socket
        self._expected = bytearray(data)
        self._frame = bytearray(self._answer.frame_for(self._correlation_id))
        (number,) = _NUMBER.unpack(self._correlation_id)
        self._expect(number)

    def give_back(self) -> None:
        """The socket is not lent any more."""
        self.socket = _NONE
        self._correlation_id = _NUMBER.pack(self._number)

    def received(self, data: bytes, since: float) -> None:
        """Most likely it is the same request once more, and there is still nothing; otherwise it is read as usual."""
        expected = self._expected
        number = self._number + 1 if data == expected else self._other_number(data)
        if number is None or self.is_waiting or not self._may_wait():
            self.connection.come_back()
            self.connection.data_received(data)
            return
        # `_begin` and `_expect`, without the calls
        session = self._session
        self._sessions.again(session, since)
        self.epoch = epoch = session.epoch
        self.since = since
        self.is_waiting = True
        self._waits.begin(self, self._wait_ms)
        self._number = number
        _PACK_INTO(expected, _ID_AT, number + 1 if number < _MOST else number)
        _PACK_INTO(expected, self._epoch_at, epoch)

    def ended(self) -> None:
        """The client has gone."""
        self.connection.come_back()

    def _other_number(self, data: bytes) -> int | None:
        """The correlation id of the same request, if this is it: some clients count those of all connections."""
        found = self._frames.correlation_id(data, self.epoch)
        return None if found is None else int.from_bytes(found, signed=True)

    def _expect(self, number: int) -> None:
        """With this correlation id it waits now; most likely with the next one it will come again."""
        self._number = number
        # Who starts to count again is read byte by byte.
        _PACK_INTO(self._expected, _ID_AT, number + 1 if number < _MOST else number)
        _PACK_INTO(self._expected, self._epoch_at, self.epoch)

    def _write(self) -> None:
        frame = self._frame
        _PACK_INTO(frame, _ANSWERED_AT, self._number)
        try:
            sent = os.write(self.socket, frame)
        except OSError:
            sent = 0  # there is no room, or nobody: the transport finds out which
        if sent < len(frame):
            self.connection.rest_of_idle(bytes(frame[sent:]))

    # --- the end of a wait --------------------------------------------------------------------------------------------

    def finish(self) -> RequestContext | None:
        """The time is up."""
        if not self.is_waiting:
            return None
        self.is_waiting = False
        try:
            if self._session.epoch != self.epoch:
                self._end()  # asked again over another connection: that is an error, and told as one
                return None
            if self.socket == _NONE:
                self.connection.answer_idle(self._answer.frame_for(self._correlation_id))
            else:
                self._write()
            if not self._is_fresh:
                self.drop()
        except Exception:
            log.exception("A fetch that waited failed.")
        return self

    def retire(self) -> None:
        """Take no more requests."""
        self._is_fresh = False
        if not self.is_waiting:
            self.drop()

    def drop(self) -> None:
        """Leave nothing behind."""
        self._is_fresh = False
        if self.is_waiting:
            self.is_waiting = False
            self._waits.cancel(self)
        for partition in self._partitions:
            partition.waiters.pop(self._woken, None)

    def _wake(self) -> None:
        """A partition grew, or went away."""
        waited = self.is_waiting
        self.drop()
        if waited:
            try:
                self._end()
            except Exception:
                log.exception("A fetch that waited failed.")

    def _end(self) -> None:
        self.drop()
        self.connection.end_idle(self)
        (self.correlation_id,) = _NUMBER.unpack(self._correlation_id)
        self.frame = None
        self._read(self, self.epoch)


def _frames(header: RequestHeader, request: FetchRequest) -> CountedFrames:
    """What finds this request with another correlation id and another epoch."""
    epoch = request.session_epoch
    frame = encode_request(request, header.api_version, 0, header.client_id)
    request.session_epoch = ~epoch
    other = encode_request(request, header.api_version, 0, header.client_id)
    request.session_epoch = epoch
    return CountedFrames(frame, other)
