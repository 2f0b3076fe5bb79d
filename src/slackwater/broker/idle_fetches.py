"""Consumers that have read everything, and ask again and again whether there is more: a thousand of them cost little.

Rules kept here
- An incremental fetch that changes nothing is the last one of its connection but for the correlation id and the
  session's epoch. It is found by comparing bytes, not by reading them; whatever differs is read as usual.
- It waits at once if nothing has happened since the answer before it: no append, no other request of the session, and
  no log that begins or ends elsewhere. Otherwise it is read as usual, which is slower and never wrong.
- Between two requests it goes on hanging on its partitions, so that an append in between is seen. An append ends it: in
  the middle of a wait with an answer, as any other fetch (`handlers.fetch`).
- Waits whose time is up have no news and no write to wait for: their answers leave at once.
- Only fetches that take any byte (`fetch.min.bytes` 1, what consumers ask unless told otherwise) are kept so.
"""

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final

from slackwater.broker.connection import Call
from slackwater.broker.fetch_sessions import FetchSessions, Session
from slackwater.broker.fetch_waits import FetchWaits
from slackwater.broker.log.checkpoint import Checkpoint
from slackwater.broker.log.partition_log import PartitionLog
from slackwater.broker.topics import Partition
from slackwater.wire.apis import FETCH
from slackwater.wire.envelope import FixedAnswer, RequestHeader, encode_request
from slackwater.wire.messages.fetch import FetchRequest
from slackwater.wire.repeats import CountedFrames

log = logging.getLogger("slackwater.broker.fetch")
_FETCH: Final = FETCH.key
_NUMBER: Final = struct.Struct(">i")


class IdleFetch(Call):
    """The fetch of a consumer that waits in vain: one object for all of its requests, one after the other."""

    __slots__ = (
        "_answer",
        "_correlation_id",
        "_ends",
        "_frames",
        "_handlers",
        "_is_fresh",
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
    )

    def __init__(
        self,
        call: Call,
        request: FetchRequest,
        session: Session,
        answer: FixedAnswer,
        partitions: Sequence[Partition],
        *,
        sessions: FetchSessions,
        waits: FetchWaits,
        read: Callable[[Call, int], None],
    ) -> None:
        """Take the requests that will say what this one says, and which `answer` answers if there is nothing.

        `read` answers if there is something; it is given the request, and the epoch that the session had then.
        """
        header = RequestHeader(call.api_key, call.version, call.correlation_id, call.client_id)
        super().__init__(call.connection, header, call.since)
        self._frames = _frames(header, request)
        self._session = session
        self.epoch = session.epoch
        self._sessions = sessions
        self._waits = waits
        self._wait_ms = request.max_wait_ms
        self._read = read
        self._answer = answer
        self._handlers = call.connection.handlers  # a fault may take the place of one, and wants to see every request
        self._correlation_id = b""
        self._is_fresh = True
        self._partitions = partitions
        self._ends: list[tuple[PartitionLog, Checkpoint, int]] = [
            (each.log, each.log.checkpoint, each.log.log_end_offset) for each in partitions
        ]
        self._woken = self._wake  # one object, for partitions to know it by
        self.bucket = 0.0
        self.is_waiting = False
        for partition in partitions:
            partition.waiting[self._woken] = None

    def again(self, data: bytes, since: float) -> bool:
        """Whether this is the same request once more, and there is still nothing: then it waits from now on."""
        session, epoch = self._session, self.epoch
        if not self._is_fresh or session.epoch != epoch or session.is_over:
            return False
        correlation_id = self._frames.correlation_id(data, epoch)
        if correlation_id is None or not self._handlers[_FETCH].idles:
            return False
        for partition_log, checkpoint, end in self._ends:
            if partition_log.log_end_offset != end or partition_log.checkpoint is not checkpoint:
                return False
        self._sessions.again(session)
        self.epoch = session.epoch
        self._correlation_id = correlation_id
        self.since = since
        self.is_waiting = True
        self._waits.begin(self, self._wait_ms)
        return True

    def finish(self) -> Call | None:
        """The time is up."""
        if not self.is_waiting:
            return None
        self.is_waiting = False
        try:
            if self._session.epoch != self.epoch:
                self._end()  # asked again over another connection: that is an error, and told as one
                return None
            self.connection.answer_idle(self._answer.frame_for(self._correlation_id))
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
            partition.waiting.pop(self._woken, None)

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
        (self.correlation_id,) = _NUMBER.unpack(self._correlation_id)
        self.frame = None
        self.connection.end_idle(self)
        self._read(self, self.epoch)


def _frames(header: RequestHeader, request: FetchRequest) -> CountedFrames:
    """What finds this request with another correlation id and another epoch."""
    epoch = request.session_epoch
    frame = encode_request(request, header.api_version, 0, header.client_id)
    request.session_epoch = ~epoch
    other = encode_request(request, header.api_version, 0, header.client_id)
    request.session_epoch = epoch
    return CountedFrames(frame, other)
