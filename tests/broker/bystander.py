"""A member whose heartbeats are timed while other clients send hostile requests."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.group.errors import Error

from .blocking_member import BlockingMember

INTERVAL_S = 0.01
RECEIVE_BYTES = 1 << 20


@dataclass
class Bystander:
    """The heartbeats of one member, one after another, in a thread.

    The time that the member or the broker waits for a processor does not count: other processes take it.
    """

    port: int
    broker_pid: int
    session_ms: int = 6_000
    worst_s: float = 0.0
    count: int = 0
    errors: list[Error] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator["Bystander"]:
        """Join a group and send heartbeats until the end of the block."""
        member = BlockingMember(self.port, "bystanders", self.session_ms)
        thread = threading.Thread(target=self._run, args=(member,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(60)
            member.close()

    def take_worst_s(self) -> float:
        """Return the longest heartbeat since the last call, with the one that is under way."""
        seen = self.count
        deadline = time.monotonic() + 60
        while self.count < seen + 2 and time.monotonic() < deadline:
            time.sleep(INTERVAL_S / 5)
        worst, self.worst_s = self.worst_s, 0.0
        return worst

    def _run(self, member: BlockingMember) -> None:
        while not self._stop.wait(INTERVAL_S):
            started = time.perf_counter()
            waits = [(path, processor_wait_s(path)) for path in ("thread-self", str(self.broker_pid))]
            member.send_heartbeat()
            error = member.heartbeat_error()
            waited_s = max(processor_wait_s(path) - before_s for path, before_s in waits)
            self.worst_s = max(self.worst_s, time.perf_counter() - started - waited_s)
            self.count += 1
            if error is not Error.NONE:
                self.errors.append(error)


def processor_wait_s(path: str) -> float:
    """How long a thread, named by its path in /proc, has waited for a processor since it started."""
    with contextlib.suppress(OSError, IndexError):  # the broker has ended
        return int(Path(f"/proc/{path}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def exchange(port: int, frame: bytes, seconds: float = 60.0) -> int | None:
    """Send one request and read its response; return the response's size, or None if the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
        try:
            client.sendall(frame)
            size = _read(client, 4)
            return None if size is None else _skip(client, struct.unpack(">i", size)[0])
        except (ConnectionResetError, BrokenPipeError):
            return None


def _read(client: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        piece = client.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return data


def _skip(client: socket.socket, size: int) -> int | None:
    left = size
    while left:
        piece = client.recv(min(left, RECEIVE_BYTES))
        if not piece:
            return None
        left -= len(piece)
    return size
