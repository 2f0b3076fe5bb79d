"""Sockets of consumers that wait in vain, read and written without the event loop's own machinery.

Rules kept here
- A connection lends its socket while all that comes over it is the fetch that says what the last one said, and all that
  leaves is that there is nothing: then the loop's transport is half of what such a fetch costs. The first bytes that
  say anything else bring it back, and are read as usual.
- All lent sockets hang on one epoll, and that hangs on the loop: those who ask at the same time are heard in one go.
- The transport stays the owner. It reads nothing while its socket is lent, and has nothing left to write; the end of a
  connection is its to find, so a socket that has ended is given back.
- Where there is no epoll nothing is lent.
"""

import asyncio
import contextlib
import os
import select
from time import monotonic
from typing import Final, Protocol

READ_BYTES: Final = 448
"""More than a fetch has that changes nothing; the rest of what is longer is read as usual. Little room costs little."""
MOST_AT_ONCE: Final = 256


class Borrower(Protocol):
    """Who hears what comes over a lent socket."""

    def received(self, data: bytes, since: float, /) -> None:
        """These bytes came; at this time, as all that came with them."""
        ...

    def ended(self) -> None:
        """There is no more to read."""
        ...


class IdleSockets:
    """The sockets that are lent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._borrowers: dict[int, Borrower] = {}
        loop.add_reader(self._epoll.fileno(), self._read)

    def __len__(self) -> int:
        return len(self._borrowers)

    def lend(self, socket: int, borrower: Borrower) -> None:
        """Let this one hear what comes over a socket, which its transport does not read."""
        self._borrowers[socket] = borrower
        self._epoll.register(socket, select.EPOLLIN)

    def give_back(self, socket: int, borrower: Borrower) -> None:
        """It hears no more of it."""
        if self._borrowers.get(socket) is borrower:
            del self._borrowers[socket]
            with contextlib.suppress(OSError):  # it is closed: then it hangs there no more
                self._epoll.unregister(socket)

    def close(self) -> None:
        """The loop ends."""
        self._loop.remove_reader(self._epoll.fileno())
        self._borrowers.clear()
        self._epoll.close()

    def _read(self) -> None:
        borrowers, read, since = self._borrowers, os.read, monotonic()
        for socket, _ in self._epoll.poll(0, MOST_AT_ONCE):
            borrower = borrowers.get(socket)
            if borrower is None:
                continue  # given back for what came over another one, in this turn
            try:
                data = read(socket, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if data:
                borrower.received(data, since)
            else:
                borrower.ended()


def idle_sockets(loop: asyncio.AbstractEventLoop) -> IdleSockets | None:
    """What sockets can be lent to."""
    return IdleSockets(loop) if hasattr(select, "epoll") else None
