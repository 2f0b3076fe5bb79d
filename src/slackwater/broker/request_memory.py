"""The memory of requests that are not answered yet, over all connections (`queued.max.request.bytes`).

Invariants:
- Only connections that hold more than `MIN_HELD_BYTES` count, so small requests are always read.
- Above the limit, only the connection with the oldest incomplete request is read, so that one of them makes progress.
  A request that does not become complete within `GRACE_S` while the limit is exceeded loses its connection.
"""

import asyncio
from typing import Final, Protocol

from slackwater.escaping import get_logger

log = get_logger("slackwater.broker")
MIN_HELD_BYTES: Final = 64 * 1024
GRACE_S: Final = 10.0


class Holder(Protocol):
    """A connection, as this module uses it."""

    host: str

    @property
    def has_incomplete_request(self) -> bool:
        """Whether a part of a request has arrived."""
        ...

    def memory_changed(self) -> None:
        """Read from the socket again, if `may_read` allows it now."""
        ...

    def abort(self) -> None:
        """Close the connection now."""
        ...


class RequestMemory:
    """The bytes that connections hold; `limit_bytes` below 0 means no limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int) -> None:
        self._loop = loop
        self._limit_bytes = limit_bytes if limit_bytes >= 0 else None
        self._held: dict[Holder, int] = {}  # in the order in which they began to hold memory
        self._paused: set[Holder] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.total_bytes = 0

    def hold(self, holder: Holder, held_bytes: int) -> None:
        """Set the bytes that a connection holds now; 0 when its requests are answered or it is closed."""
        self.total_bytes += held_bytes - self._held.get(holder, 0)
        if held_bytes:
            self._held[holder] = held_bytes
        else:
            self._held.pop(holder, None)
            self._paused.discard(holder)
        if self._is_full() and self._timer is None:
            self._timer = self._loop.call_later(GRACE_S, self._close_oldest, self._oldest())
        elif not self._is_full() and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._resume()

    def may_read(self, holder: Holder) -> bool:
        """Whether the socket of a connection that holds memory may be read."""
        if self._is_full() and holder is not self._oldest():
            self._paused.add(holder)
            return False
        self._paused.discard(holder)
        return True

    def _is_full(self) -> bool:
        return self._limit_bytes is not None and self.total_bytes > self._limit_bytes

    def _oldest(self) -> Holder | None:
        return next((holder for holder in self._held if holder.has_incomplete_request), None)

    def _resume(self) -> None:
        if not self._paused:
            return
        if not self._is_full():
            paused, self._paused = self._paused, set()
            for holder in paused:
                holder.memory_changed()
        elif (oldest := self._oldest()) in self._paused and oldest is not None:
            self._paused.discard(oldest)
            oldest.memory_changed()

    def _close_oldest(self, since: Holder | None) -> None:
        """Close the connection whose request has been the oldest incomplete one for the whole time."""
        self._timer = None
        oldest = self._oldest()
        if oldest is not None and oldest is since:
            log.warning(
                "Closed the connection of %s: its request is incomplete after %d seconds, and requests hold %d bytes "
                "(queued.max.request.bytes is %d).",
                oldest.host,
                GRACE_S,
                self.total_bytes,
                self._limit_bytes,
            )
            oldest.abort()
        if self._is_full():
            self._timer = self._loop.call_later(GRACE_S, self._close_oldest, self._oldest())
