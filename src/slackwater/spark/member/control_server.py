"""Connects the user's process to the processes in which Spark runs the queries: one JSON object per line.

A query runs in a process that Spark starts. Spark reports the end of a batch to it only when it plans the next one. The
listener in the user's process learns it at once, and sends it over this connection.

    member -> {"hello": {"secret": ..., "checkpoint_id": ..., "group": ..., "instance": ...}}
    server -> {"welcome": {}}  or  {"refused": "reason"}
    server -> {"finished": {offset as in the query's progress}}
    server -> {"task": "checkpoint_id"}             a task of the running batch has ended
    server -> {"query": {"checkpoint_id": ..., "stateful": true}}

A query is identified by its checkpoint id, the `token` in its offsets.

Invariants:
- The server listens on loopback only. A client authenticates with the secret from the query's options.
- A slow or closed control connection never blocks a query. Messages that cannot be sent are dropped, and the member
  learns the same from Spark later.
"""

import contextlib
import hmac
import json
import logging
import secrets
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

log = logging.getLogger("slackwater.spark.member.control_server")

LOOPBACK: Final = "127.0.0.1"
SEND_TIMEOUT_S: Final = 5
HELLO_TIMEOUT_S: Final = 30.0
MAX_HELLO_BYTES: Final = 64 * 1024


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


class ControlServer:
    """Accepts members, and sends them the progress of their queries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()  # one line at a time
        self._members: dict[socket.socket, ConnectedMember] = {}
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
            _close(connection)

    @property
    def members(self) -> list[ConnectedMember]:
        """The connected members."""
        with self._lock:
            return list(self._members.values())

    # --- messages -----------------------------------------------------------------------------------------------------

    def batch_finished(self, checkpoint_id: str, offset: Mapping[str, object]) -> None:
        """Report that a query has finished all batches up to this offset."""
        self._send_to(checkpoint_id, {"finished": dict(offset)})

    def task_ended(self, checkpoint_id: str) -> None:
        """Report that a task of the running batch has ended."""
        self._send_to(checkpoint_id, {"task": checkpoint_id})

    def set_stateful(self, checkpoint_id: str, stateful: bool) -> None:
        """Report whether a query is stateful."""
        with self._lock:
            if self._stateful.get(checkpoint_id) is stateful:
                return
            self._stateful[checkpoint_id] = stateful
        self._send_to(checkpoint_id, _query(checkpoint_id, stateful))

    def _send_to(self, checkpoint_id: str, message: Mapping[str, object]) -> None:
        with self._lock:
            connections = [
                connection for connection, member in self._members.items() if member.checkpoint_id == checkpoint_id
            ]
        for connection in connections:
            with self._send_lock:
                sent = _send(connection, message)
            if not sent:
                self._remove(connection)

    # --- connections --------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="slackwater-member", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Authenticate a member, and wait until it disconnects."""
        connection.settimeout(HELLO_TIMEOUT_S)
        member = self._authenticate(connection)
        connection.settimeout(None)
        # A timeout for sending only: settimeout() would also limit the wait for the disconnect.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
        if member is None:
            _close(connection)
            return
        with self._send_lock:
            with self._lock:
                rejection = self._rejection(member)
                if rejection is None:
                    self._members[connection] = member
                stateful = self._stateful.get(member.checkpoint_id)
            _send(connection, {"welcome": {}} if rejection is None else {"refused": rejection})
            if stateful is not None:
                _send(connection, _query(member.checkpoint_id, stateful))
        if rejection is not None:
            _close(connection)
            return
        with contextlib.suppress(OSError):
            while connection.recv(4096):
                pass  # members send nothing else
        self._remove(connection)

    def _authenticate(self, connection: socket.socket) -> ConnectedMember | None:
        line = b""
        try:
            while not line.endswith(b"\n"):
                data = connection.recv(4096)
                if not data or len(line) > MAX_HELLO_BYTES:
                    return None
                line += data
            hello = json.loads(line)["hello"]
            if not hmac.compare_digest(str(hello["secret"]).encode(), self.address.secret.encode()):
                return None
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

    def _remove(self, connection: socket.socket) -> None:
        with self._lock:
            self._members.pop(connection, None)
        _close(connection)


def _query(checkpoint_id: str, stateful: bool) -> dict[str, object]:
    return {"query": {"checkpoint_id": checkpoint_id, "stateful": stateful}}


def _send(connection: socket.socket, message: Mapping[str, object]) -> bool:
    """Send one line. Returns False if the connection is closed or does not accept data."""
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
        return True
    except OSError:
        return False


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
