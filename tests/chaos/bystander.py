"""Members that only send heartbeats, in a process of their own so that nothing but the broker delays them.

Invariants:
- A member joins once and keeps its id and generation on every connection, so a lost session is seen as an error.
- The busy member measures latencies. The calm member has the shortest session that Kafka allows and heartbeats as
  seldom as clients do, so a stall of a few seconds would cost its session.
- A heartbeat whose connection breaks is not reported: the broker was killed.
"""

import contextlib
import multiprocessing
import socket
import struct
import threading
import time
from multiprocessing.connection import Connection
from typing import Final, NamedTuple, TypeVar

from slackwater.group.errors import Error
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request, Response
from tests.broker.bystander import processor_wait_s
from tests.chaos.load import BYSTANDER_PARTITION, group_name
from tests.chaos.oracles import Violation
from tests.chaos.oracles.heartbeats import Heartbeat
from tests.chaos.oracles.liveness import read_exactly

VERSION: Final = 3
BUSY_INTERVAL_S: Final = 0.05
BUSY_SESSION_MS: Final = 10_000
CALM_INTERVAL_S: Final = 2.0
CALM_SESSION_MS: Final = 6_000
CONNECT_S: Final = 30.0
RETRY_S: Final = 0.02
END_S: Final = 10.0
# A coordinator that has just started, or whose disk is full, answers so. Clients try again.
_RETRIABLE: Final = (Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE)
R = TypeVar("R", bound=Response)


class Report(NamedTuple):
    """The heartbeats since the last report, and when the heartbeat without a response was sent, if there is one."""

    heartbeats: list[Heartbeat]
    pending_since: float | None


class Bystanders:
    """The process of the members, which try to connect until there is a broker."""

    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, port), name="bystanders", daemon=True)
        self._process.start()
        theirs.close()

    def wait_until_joined(self) -> None:
        """Wait until the members are in their groups."""
        if not self._connection.poll(CONNECT_S):
            raise Violation(f"the bystanders did not join their groups within {CONNECT_S:g} s")
        self._connection.recv()

    def set_broker(self, pid: int) -> None:
        """Name the process of the broker, whose waits for a processor are not counted."""
        self._connection.send(pid)

    def report(self) -> Report:
        """Return what happened since the last report."""
        self._connection.send(None)
        report: Report = self._connection.recv()
        return report

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(END_S)
        if self._process.is_alive():
            self._process.kill()


def _serve(connection: Connection, port: int) -> None:
    """Run the members; a message is the broker's process id, or None to request a report."""
    members = [
        Member(group_name("busy", BYSTANDER_PARTITION), port, BUSY_INTERVAL_S, BUSY_SESSION_MS),
        Member(group_name("calm", BYSTANDER_PARTITION), port, CALM_INTERVAL_S, CALM_SESSION_MS),
    ]
    for member in members:
        threading.Thread(target=member.run, name=member.group, daemon=True).start()
    for member in members:
        member.has_joined.wait()
    connection.send(None)
    with contextlib.suppress(EOFError, OSError):  # the other process has ended
        while True:
            broker_pid = connection.recv()
            if broker_pid is not None:
                for member in members:
                    member.broker_pid = broker_pid
                continue
            heartbeats = [heartbeat for member in members for heartbeat in member.take()]
            pending = [member.pending_since for member in members if member.pending_since is not None]
            connection.send(Report(heartbeats, min(pending, default=None)))


class Member:
    """The only member of its group, in a thread."""

    def __init__(self, group: str, port: int, interval_s: float, session_ms: int) -> None:
        self.group = group
        self.broker_pid: int | None = None
        self.pending_since: float | None = None
        self.has_joined = threading.Event()
        self._port, self._interval_s, self._session_ms = port, interval_s, session_ms
        self._member_id, self._generation = "", -1
        self._heartbeats: list[Heartbeat] = []
        self._lock = threading.Lock()

    def take(self) -> list[Heartbeat]:
        """Return the heartbeats since the last call."""
        with self._lock:
            heartbeats, self._heartbeats = self._heartbeats, []
        return heartbeats

    def run(self) -> None:
        """Send heartbeats until the process ends."""
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._work(connection)
            self.pending_since = None
            time.sleep(RETRY_S)

    def _work(self, connection: socket.socket) -> None:
        while True:
            if not self._member_id:
                self._join(connection)
            self._heartbeat(connection)
            time.sleep(self._interval_s)

    def _join(self, connection: socket.socket) -> None:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        join = JoinGroupRequest(self.group, self._session_ms, self._session_ms, "", None, "consumer", protocols)
        joined = _request(connection, join, JoinGroupResponse)
        assignments = [SyncGroupRequestAssignment(joined.member_id, b"")]
        sync = SyncGroupRequest(self.group, joined.generation_id, joined.member_id, assignments=assignments)
        synced = _request(connection, sync, SyncGroupResponse)
        if joined.error_code or synced.error_code:
            raise ConnectionError("cannot join now")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        self.has_joined.set()

    def _heartbeat(self, connection: socket.socket) -> None:
        request = HeartbeatRequest(self.group, self._generation, self._member_id)
        self.pending_since = sent_at = time.monotonic()
        waits = [(path, processor_wait_s(path)) for path in ("thread-self", str(self.broker_pid))]
        error = Error(_request(connection, request, HeartbeatResponse).error_code)
        waited_s = max(processor_wait_s(path) - before_s for path, before_s in waits)
        latency_s = time.monotonic() - sent_at
        self.pending_since = None
        if error in _RETRIABLE:
            return
        name = "" if error is Error.NONE else error.name
        with self._lock:
            self._heartbeats.append(Heartbeat(self.group, sent_at, latency_s, max(waited_s, 0.0), name))
        if name:
            self._member_id = ""


def _request(connection: socket.socket, request: Request, kind: type[R]) -> R:
    connection.sendall(encode_request(request, VERSION, 1, "bystander"))
    (size,) = struct.unpack(">i", read_exactly(connection, 4))
    return decode_response(kind, VERSION, read_exactly(connection, size))[1]
