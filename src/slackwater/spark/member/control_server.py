"""What the user's process tells the members of its queries, and what they tell it: one line of JSON each.

Rules kept here
- A member lives in a process that Spark started. It hears from Spark when the next batch is planned, which may be a
  trigger's length after the last one ended. The user's process hears at once, and says so here.
- Loopback only. Whoever connects first says the secret that the query's options carried, or is shown out.
- A room that is slow or gone never stops a query: what cannot be sent is dropped, and the member learns the same thing
  later from Spark.

    member  -> {"hello": {"secret": …, "token": …, "group": …, "instance": …}}
    room    -> {"welcome": {}}  or  {"refused": "why"}
    room    -> {"finished": {offset as in the query's progress}}
    room    -> {"task": "token"}                     a task of the running batch has ended
    room    -> {"query": {"token": …, "stateful": true}}
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
    """Where the room is, and what to say at its door."""

    host: str
    port: int
    secret: str


@dataclass(frozen=True, slots=True)
class ConnectedMember:
    """A member that has said hello."""

    token: str
    group_id: str | None
    instance_id: str | None


class ControlServer:
    """The user's end: members come in by themselves, and are told what happens to their queries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._telling = threading.Lock()  # lines do not mix
        self._guests: dict[socket.socket, ConnectedMember] = {}
        self._stateful: dict[str, bool] = {}  # by token: told again to a member that comes later
        self._door = socket.create_server((LOOPBACK, 0))
        self.address = ControlAddress(LOOPBACK, self._door.getsockname()[1], secrets.token_hex(16))
        threading.Thread(target=self._receive, name="slackwater-control", daemon=True).start()

    def close(self) -> None:
        """Let everybody go."""
        # A thread that waits in accept() is not woken by close() alone.
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        with self._lock:
            guests, self._guests = list(self._guests), {}
        for connection in guests:
            _hang_up(connection)

    @property
    def guests(self) -> list[ConnectedMember]:
        """The members that are here."""
        with self._lock:
            return list(self._guests.values())

    # --- telling ------------------------------------------------------------------------------------------------------

    def finished(self, token: str, offset: Mapping[str, object]) -> None:
        """A query's batch has ended: everything up to this offset is done."""
        self._tell(token, {"finished": dict(offset)})

    def task_ended(self, token: str) -> None:
        """The running batch of a query has made progress."""
        self._tell(token, {"task": token})

    def stateful(self, token: str, stateful: bool) -> None:
        """Whether a query keeps state."""
        with self._lock:
            if self._stateful.get(token) is stateful:
                return
            self._stateful[token] = stateful
        self._tell(token, _query(token, stateful))

    def _tell(self, token: str, message: Mapping[str, object]) -> None:
        with self._lock:
            connections = [connection for connection, guest in self._guests.items() if guest.token == token]
        for connection in connections:
            with self._telling:
                sent = _send(connection, message)
            if not sent:
                self._forget(connection)

    # --- the door -----------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        while True:
            try:
                connection, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._welcome, args=(connection,), name="slackwater-guest", daemon=True).start()

    def _welcome(self, connection: socket.socket) -> None:
        """Hear a hello, answer it, and wait until the member is gone."""
        connection.settimeout(HELLO_TIMEOUT_S)
        guest = self._hello(connection)
        connection.settimeout(None)
        # A time-out of sending alone: settimeout() would end the wait for the member's end, too.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
        if guest is None:
            _hang_up(connection)
            return
        with self._telling:
            with self._lock:
                refusal = self._refusal(guest)
                if refusal is None:
                    self._guests[connection] = guest
                stateful = self._stateful.get(guest.token)
            _send(connection, {"welcome": {}} if refusal is None else {"refused": refusal})
            if stateful is not None:
                _send(connection, _query(guest.token, stateful))
        if refusal is not None:
            _hang_up(connection)
            return
        with contextlib.suppress(OSError):
            while connection.recv(4096):
                pass  # a member has nothing more to say; the end of the stream is its end
        self._forget(connection)

    def _hello(self, connection: socket.socket) -> ConnectedMember | None:
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
            return ConnectedMember(str(hello["token"]), hello.get("group"), hello.get("instance"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _refusal(self, guest: ConnectedMember) -> str | None:
        """Why this member cannot be let in, if it cannot."""
        if guest.instance_id is None:
            return None
        for other in self._guests.values():
            same = (other.group_id, other.instance_id) == (guest.group_id, guest.instance_id)
            if same and other.token != guest.token:
                return (
                    f"Two queries of this application have kafka.group.instance.id={guest.instance_id} in group "
                    f"{guest.group_id}: each would throw the other out of the group. Give every query an instance id "
                    "of its own."
                )
        return None

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._guests.pop(connection, None)
        _hang_up(connection)


def _query(token: str, stateful: bool) -> dict[str, object]:
    return {"query": {"token": token, "stateful": stateful}}


def _send(connection: socket.socket, message: Mapping[str, object]) -> bool:
    """Send one line; False when the other end is gone, or does not listen."""
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
        return True
    except OSError:
        return False


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
