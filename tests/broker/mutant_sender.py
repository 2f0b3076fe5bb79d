"""Sends damaged frames on many connections, and counts how the broker reacts.

Invariants:
- A frame counts as answered, as closed if the broker closed the connection because of it, or as waiting.
- Frames that the broker did not read because of an earlier one are sent again.
"""

import errno
import selectors
import socket
import struct
from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

CONNECTIONS: Final = 40
PER_CONNECTION: Final = 30
# The request of a connection is waiting if this many other connections ended without progress on this one.
WAITING_AFTER: Final = 2 * CONNECTIONS


class MutantConnection:
    """One connection and the mutants that are sent on it."""

    def __init__(self, port: int, frames: list[bytes]) -> None:
        self.frames = frames
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self._received = b""
        self.responses = 0
        self.since = 0  # number of ended connections at the last progress
        self._unsent = b"".join(frames)
        self.send()

    def send(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                raise
            self._unsent = b""

    def receive(self) -> bool:
        """Read responses; False if the broker has closed the connection."""
        try:
            received = self.socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self._received += received
        position = 0
        while len(self._received) - position >= 4:
            (size,) = struct.unpack_from(">i", self._received, position)
            if len(self._received) - position < 4 + size:
                break
            position += 4 + size
            self.responses += 1
        self._received = self._received[position:]
        self.send()
        return bool(received)


class MutantSender:
    """Sends mutants until each one has a response, closes its connection, or waits."""

    def __init__(self, port: int, frames: Iterator[tuple[bytes, bool]]) -> None:
        self._port = port
        self._frames = frames
        self._retries: deque[tuple[bytes, bool]] = deque()
        self._selector = selectors.DefaultSelector()
        self._connections: dict[MutantConnection, list[tuple[bytes, bool]]] = {}
        self._ended = 0
        self.outcomes: Counter[str] = Counter()

    def run(self) -> None:
        try:
            while True:
                while len(self._connections) < CONNECTIONS and (batch := self._batch()):
                    self._open(batch)
                if not self._connections:
                    return
                self._step()
        finally:
            for connection in list(self._connections):
                self._close(connection)
            self._selector.close()

    def _batch(self) -> list[tuple[bytes, bool]]:
        """Return the next mutants for one connection; a frame with a wrong size is the last."""
        batch: list[tuple[bytes, bool]] = []
        while len(batch) < PER_CONNECTION:
            mutant = self._retries.popleft() if self._retries else next(self._frames, None)
            if mutant is None:
                break
            batch.append(mutant)
            if mutant[1]:
                break
        return batch

    def _open(self, batch: list[tuple[bytes, bool]]) -> None:
        connection = MutantConnection(self._port, [frame for frame, _ in batch])
        connection.since = self._ended
        self._connections[connection] = batch
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def _step(self) -> None:
        events = self._selector.select(0.2)
        for key, _ in events:
            connection: MutantConnection = key.data
            connection.since = self._ended
            if not connection.receive():
                self._end(connection, "closed")
            elif connection.responses >= len(connection.frames):
                self._end(connection, "response")
        for connection in [
            connection
            for connection in self._connections
            if not events or self._ended - connection.since > WAITING_AFTER
        ]:
            self._end(connection, "waiting")

    def _end(self, connection: MutantConnection, outcome: str) -> None:
        batch = self._connections[connection]
        self._close(connection)
        self._ended += 1
        responses = min(connection.responses, len(batch))
        self.outcomes["response"] += responses
        if responses < len(batch):
            self.outcomes[outcome] += 1
            self._retries.extend(batch[responses + 1 :])  # the frames after it were not read

    def _close(self, connection: MutantConnection) -> None:
        del self._connections[connection]
        self._selector.unregister(connection.socket)
        connection.socket.close()
