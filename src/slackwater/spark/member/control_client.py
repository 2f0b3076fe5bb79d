"""The member's end of the control connection; `control_server.py` describes the messages.

Invariants:
- A thread receives the messages and passes them on one at a time.
- If the server is unreachable or disconnects, the query continues without its messages, and `is_connected` is false.
"""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from slackwater.escaping import get_logger
from slackwater.spark.member.control_server import ControlAddress, parse_message

# The lines of one query have one logger, whichever module writes them.
log = get_logger("slackwater.spark.member.query_member")
CONNECT_TIMEOUT_S: Final = 5.0
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024


class ControlClient:
    """One connection to the control server."""

    def __init__(
        self,
        address: ControlAddress,
        hello: Mapping[str, object],
        on_message: Callable[[dict[str, Any]], None],
        on_disconnected: Callable[[], None],
    ) -> None:
        self.is_connected = False
        self._on_message = on_message
        self._on_disconnected = on_disconnected
        self._socket: socket.socket | None = None
        try:
            self._socket = socket.create_connection((address.host, address.port), timeout=CONNECT_TIMEOUT_S)
            self._socket.sendall(json.dumps({"hello": {"secret": address.secret, **hello}}).encode() + b"\n")
            self._socket.settimeout(None)
        except OSError as error:
            log.warning("Cannot connect to the control server at %s:%d: %s.", address.host, address.port, error)
            self.close()
            return
        self.is_connected = True
        threading.Thread(
            target=self._receive, args=(self._socket,), name="slackwater-control-client", daemon=True
        ).start()

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message. Called by the thread that receives messages, so messages are not mixed."""
        if self._socket is not None:
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Close the connection."""
        self.is_connected = False
        if self._socket is not None:
            self._socket.close()

    def _receive(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as lines:
                while line := lines.readline(MAX_MESSAGE_BYTES):
                    self._on_message(parse_message(line))
        except (OSError, ValueError) as error:
            log.debug("The control connection ended: %s", error)
        self.is_connected = False
        self._on_disconnected()
