"""What the requests of one connection may hold. Its socket is not read while a limit is exceeded."""

import asyncio
from typing import Final

from slackwater.broker.request_memory import MIN_HELD_BYTES, Holder, RequestMemory
from slackwater.wire.apis import PRODUCE
from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader

MAX_QUEUED_BYTES: Final = 1024 * 1024
MAX_BYTES_WITHOUT_RECORDS: Final = 16 * 1024 * 1024
_PRODUCE: Final = PRODUCE.key.to_bytes(2, "big")


def check_incomplete_frame(frames: FrameReader) -> None:
    """Raise WireError if the request that has begun to arrive is too large for an API without records."""
    if frames.needed_bytes <= MAX_BYTES_WITHOUT_RECORDS:
        return
    api = frames.first_bytes(len(_PRODUCE))
    if len(api) == len(_PRODUCE) and api != _PRODUCE:
        raise WireError(
            f"A request of API {int.from_bytes(api, 'big')} announces {frames.needed_bytes} bytes; "
            f"without records {MAX_BYTES_WITHOUT_RECORDS} are allowed."
        )


class RequestLimits:
    """The bytes that the requests of a connection hold, compared with its own limits and those of all connections."""

    __slots__ = (
        "_connection",
        "_held_bytes",
        "_is_reading",
        "_max_requests",
        "_memory",
        "processed_bytes",
        "queued_bytes",
    )

    def __init__(self, connection: Holder, memory: RequestMemory, max_requests: int) -> None:
        self._connection = connection
        self._memory = memory
        self._max_requests = max_requests
        self._held_bytes = 0  # as reported to the request memory
        self._is_reading = True
        self.queued_bytes = 0
        self.processed_bytes = 0  # of large requests in progress

    @property
    def is_reached(self) -> bool:
        """Whether the socket may be paused, or memory may be held, until a response is sent."""
        return not self._is_reading or bool(self._held_bytes)

    def release(self) -> None:
        """Hold nothing any more: the connection is closed."""
        self._memory.hold(self._connection, 0)

    def pause_or_resume(
        self, transport: asyncio.Transport, incomplete_bytes: int, requests: int, is_write_blocked: bool
    ) -> None:
        """Read from the socket, or stop reading, as the limits require.

        `incomplete_bytes` are those of a request that has not arrived completely; `requests` have no sent response.
        """
        held_bytes = incomplete_bytes + self.queued_bytes + self.processed_bytes
        if held_bytes > MIN_HELD_BYTES or self._held_bytes:
            held_bytes = held_bytes if held_bytes > MIN_HELD_BYTES else 0
            if held_bytes != self._held_bytes:
                self._held_bytes = held_bytes
                self._memory.hold(self._connection, held_bytes)
        should_read = (
            not is_write_blocked
            and self.queued_bytes <= MAX_QUEUED_BYTES
            and requests < self._max_requests
            and (not self._held_bytes or self._memory.may_read(self._connection))
        )
        if should_read == self._is_reading or transport.is_closing():
            return
        self._is_reading = should_read
        if should_read:
            transport.resume_reading()
        else:
            transport.pause_reading()
