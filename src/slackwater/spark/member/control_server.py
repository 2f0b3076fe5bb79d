"""Connects the user's process to the processes in which Spark runs the queries: one JSON object per line.

A query runs in a process that Spark starts. Spark reports the end of a batch to it only when it plans the next one. The
listener in the user's process learns it at once, and sends it over this connection.

    member -> {"hello": {"secret": ..., "checkpoint_id": ..., "group": ..., "instance": ...}}
    server -> {"welcome": {}}  or  {"refused": "reason"}
    server -> {"finished": {offset as in the query's progress}}
    server -> {"task_ended": {"checkpoint_id": ...}}  a task of the running batch has ended
    server -> {"query": {"checkpoint_id": ..., "stateful": true}}
    server -> {"prepare": {"id": ..., "seq": ...}}  the sink is about to commit a batch
    member -> {"prepared": {"id": ..., "inputs": {...}}}  or  {"prepared": {"id": ..., "refused": "reason"}}

The sink of a query connects once per batch, to learn the input offsets that it commits with its output:

    sink -> {"hello": {"secret": ..., "sink": {"query": ..., "batch": ...}}}
    server -> {"inputs": [{...}, ...]}  or  {"refused": "reason"}

A query is identified by its checkpoint id, the `token` in its offsets. `seq` numbers the batches of a source; a
`batch_id` is Spark's number of a micro-batch, which all sources and the sink of a query share.

Invariants:
- The server listens on loopback only. A client authenticates with the secret from the query's options, within
  HELLO_TIMEOUT_S in total. The number of clients that have not authenticated is limited.
- A slow or closed control connection never blocks a query or another member: every member has its own queue and thread.
  A member that does not read is disconnected when its queue is full, and learns the same from Spark later.
"""

import contextlib
import hmac
import json
import queue
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from slackwater.escaping import get_logger

log = get_logger("slackwater.spark.member.control_server")

LOOPBACK: Final = "127.0.0.1"
SEND_TIMEOUT_S: Final = 5
HELLO_TIMEOUT_S: Final = 30.0
MAX_HELLO_BYTES: Final = 64 * 1024
MAX_UNAUTHENTICATED: Final = 64
MAX_QUEUED_MESSAGES: Final = 1_000
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
PREPARE_TIMEOUT_S: Final = 30.0


class ControlAddress(NamedTuple):
    """Address and secret of a control server."""

    host: str
    port: int
    secret: str


@dataclass(frozen=True, slots=True)
class ConnectedMember:
    """An authenticated member."""

    checkpoint_id: str
    group_id: str | None
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """A batch whose sink asks for its input offsets."""

    query_id: str
    batch_id: int


class RunningBatch(NamedTuple):
    """The batch that a query runs, and the checkpoint id and the `seq` of each of its sources that is in a group."""

    batch_id: int
    sources: list[tuple[str, int]]


FindRunningBatch = Callable[[str], RunningBatch | None]
"""Returns the running batch of a query by the query's id; None if another session runs it."""


class MemberConnection:
    """The messages to one member, sent by a thread of its own."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._messages: queue.Queue[bytes | None] = queue.Queue(MAX_QUEUED_MESSAGES)
        self._answers: dict[int, queue.Queue[dict[str, Any] | None]] = {}  # by the number of the question
        self._last_id = 0
        self._is_disconnected = False
        # A timeout for sending only: settimeout() would also limit the wait for the disconnect.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
        threading.Thread(target=self._write, name="slackwater-member-writer", daemon=True).start()

    def send(self, message: Mapping[str, object]) -> bool:
        """Send a message soon; False if the member does not read its messages."""
        try:
            self._messages.put_nowait(json.dumps(message).encode() + b"\n")
        except queue.Full:
            return False
        return True

    def ask(self, seq: int, timeout_s: float) -> dict[str, Any] | None:
        """Ask the member for the input offsets of a batch; None if it does not answer."""
        self._last_id += 1
        number, answers = self._last_id, queue.Queue[dict[str, Any] | None]()
        self._answers[number] = answers
        try:
            if self._is_disconnected or not self.send({"prepare": {"id": number, "seq": seq}}):
                return None
            return answers.get(timeout=timeout_s)
        except queue.Empty:
            return None
        finally:
            del self._answers[number]

    def read_answers(self) -> None:
        """Pass on the member's answers; return when it has disconnected, or `close` was called."""
        with contextlib.suppress(OSError, ValueError, KeyError), self._socket.makefile("rb") as lines:
            while line := lines.readline(MAX_MESSAGE_BYTES):
                answer = parse_message(line)["prepared"]
                if (waiting := self._answers.get(answer["id"])) is not None:
                    waiting.put(answer)
        self._is_disconnected = True
        for waiting in list(self._answers.values()):
            waiting.put(None)

    def close(self) -> None:
        """Close the connection; messages that are not sent yet are dropped."""
        _close(self._socket)
        with contextlib.suppress(queue.Full):  # then the thread sends, and fails
            self._messages.put_nowait(None)

    def finish(self) -> None:
        """Close the connection after the messages were sent."""
        with contextlib.suppress(queue.Full):
            self._messages.put_nowait(None)

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (line := self._messages.get()) is not None:
                self._socket.sendall(line)
        _close(self._socket)


class ControlServer:
    """Accepts members, and sends them the progress of their queries."""

    def __init__(self, hello_timeout_s: float = HELLO_TIMEOUT_S) -> None:
        self._hello_timeout_s = hello_timeout_s
        self._lock = threading.Lock()
        self._unauthenticated = threading.Semaphore(MAX_UNAUTHENTICATED)
        self._members: dict[MemberConnection, ConnectedMember] = {}
        self._find_running_batch: list[FindRunningBatch] = []  # one per session
        self._stateful: dict[str, bool] = {}  # by checkpoint_id; sent again to members that connect later
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = ControlAddress(LOOPBACK, self._listener.getsockname()[1], secrets.token_hex(16))
        threading.Thread(target=self._accept, name="slackwater-control", daemon=True).start()

    def close(self) -> None:
        """Close all connections."""
        # close() alone does not wake a thread in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections, self._members = list(self._members), {}
        for connection in connections:
            connection.close()

    @property
    def members(self) -> list[ConnectedMember]:
        """The connected members."""
        with self._lock:
            return list(self._members.values())

    def add_session(self, find_running_batch: FindRunningBatch) -> None:
        """Add a Spark session, whose sinks may ask for the input offsets of their running batches."""
        self._find_running_batch.append(find_running_batch)

    # --- messages -----------------------------------------------------------------------------------------------------

    def batch_finished(self, checkpoint_id: str, offset: Mapping[str, object]) -> None:
        """Report that a query has finished all batches up to this offset."""
        self._send_to(checkpoint_id, {"finished": dict(offset)})

    def task_ended(self, checkpoint_id: str) -> None:
        """Report that a task of the running batch has ended."""
        self._send_to(checkpoint_id, {"task_ended": {"checkpoint_id": checkpoint_id}})

    def set_stateful(self, checkpoint_id: str, stateful: bool) -> None:
        """Report whether a query is stateful."""
        with self._lock:
            if self._stateful.get(checkpoint_id) is stateful:
                return
            self._stateful[checkpoint_id] = stateful
        self._send_to(checkpoint_id, _query(checkpoint_id, stateful))

    def _send_to(self, checkpoint_id: str, message: Mapping[str, object]) -> None:
        for connection in self._connections_of(checkpoint_id):
            if not connection.send(message):
                log.warning("A member of query %s does not read its messages and was disconnected.", checkpoint_id)
                self._remove(connection)

    def _connections_of(self, checkpoint_id: str) -> list[MemberConnection]:
        with self._lock:
            return [connection for connection, member in self._members.items() if member.checkpoint_id == checkpoint_id]

    # --- connections --------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._unauthenticated.acquire(blocking=False):
                _close(connection)
                continue
            threading.Thread(target=self._serve, args=(connection,), name="slackwater-member", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Authenticate a member, and wait until it disconnects."""
        try:
            member = self._authenticate(connection)
        finally:
            self._unauthenticated.release()
        if member is None:
            _close(connection)
            return
        connection.settimeout(None)
        if isinstance(member, SinkBatch):
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(self._inputs(member)).encode() + b"\n")
            _close(connection)
            return
        writer = MemberConnection(connection)
        with self._lock:
            rejection = self._rejection(member)
            writer.send({"welcome": {}} if rejection is None else {"refused": rejection})
            if rejection is None:
                if (stateful := self._stateful.get(member.checkpoint_id)) is not None:
                    writer.send(_query(member.checkpoint_id, stateful))
                self._members[writer] = member
        if rejection is not None:
            writer.finish()
            return
        writer.read_answers()
        self._remove(writer)

    def _inputs(self, batch: SinkBatch) -> dict[str, object]:
        """Return the input offsets of a batch, from the members that own its partitions."""
        batches = (find(batch.query_id) for find in self._find_running_batch)
        running = next((running for running in batches if running is not None), None)
        if running is None or running.batch_id != batch.batch_id:
            return {"refused": f"Batch {batch.batch_id} is not the running batch of query {batch.query_id}."}
        inputs = []
        for checkpoint_id, seq in running.sources:
            connections = self._connections_of(checkpoint_id)
            answer = connections[-1].ask(seq, PREPARE_TIMEOUT_S) if connections else None
            if answer is None:
                return {"refused": f"The group member of batch {batch.batch_id} does not answer."}
            if "refused" in answer:
                return {"refused": f"Batch {batch.batch_id} was not committed: {answer['refused']}"}
            inputs.append(answer["inputs"])
        return {"inputs": inputs}

    def _authenticate(self, connection: socket.socket) -> ConnectedMember | SinkBatch | None:
        line = b""
        deadline = time.monotonic() + self._hello_timeout_s
        try:
            while not line.endswith(b"\n"):
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                data = connection.recv(4096)
                if not data or len(line) > MAX_HELLO_BYTES:
                    return None
                line += data
            hello = parse_message(line)["hello"]
            if not hmac.compare_digest(str(hello["secret"]).encode(), self.address.secret.encode()):
                return None
            if "sink" in hello:
                return SinkBatch(str(hello["sink"]["query"]), int(hello["sink"]["batch"]))
            return ConnectedMember(str(hello["checkpoint_id"]), hello.get("group"), hello.get("instance"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _rejection(self, member: ConnectedMember) -> str | None:
        """Return why this member is rejected, or None."""
        if member.instance_id is None:
            return None
        for other in self._members.values():
            same = (other.group_id, other.instance_id) == (member.group_id, member.instance_id)
            if same and other.checkpoint_id != member.checkpoint_id:
                return (
                    f"Two queries of this application have kafka.group.instance.id={member.instance_id} in group "
                    f"{member.group_id} and would fence each other. Use a different instance id for each query."
                )
        return None

    def _remove(self, connection: MemberConnection) -> None:
        with self._lock:
            self._members.pop(connection, None)
        connection.close()


def parse_message(line: bytes) -> dict[str, Any]:
    """Parse a line; raise ValueError if it is not a JSON object, or nested too deeply."""
    try:
        message = json.loads(line)
    except RecursionError:
        raise ValueError("The message is nested too deeply.") from None
    if not isinstance(message, dict):
        raise ValueError("The message is not a JSON object.")
    return message


def _query(checkpoint_id: str, stateful: bool) -> dict[str, object]:
    return {"query": {"checkpoint_id": checkpoint_id, "stateful": stateful}}


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
