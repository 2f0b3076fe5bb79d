"""The member's end of the line to the user's process (`control.py` has the other end, and the words).

Rules kept here
- The line is heard on a thread of its own, and told one message at a time.
- A room that is not there, or goes away, costs the query nothing but what it would have heard: `hears` is false then.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from slackwater.spark.member.control_server import ControlAddress

log = logging.getLogger("slackwater.spark.member.query_member")
CONNECT_TIMEOUT_S: Final = 5.0
MOST_BYTES: Final = 64 * 1024 * 1024


class ControlClient:
    """One line, from hello to its end."""

    def __init__(
        self, address: ControlAddress, hello: Mapping[str, object], heard: Callable[[dict[str, Any]], None]
    ) -> None:
        self.hears = False
        self._heard = heard
        self._socket: socket.socket | None = None
        try:
            self._socket = socket.create_connection((address.host, address.port), timeout=CONNECT_TIMEOUT_S)
            self._socket.sendall(json.dumps({"hello": {"secret": address.secret, **hello}}).encode() + b"\n")
            self._socket.settimeout(None)
        except OSError as error:
            log.warning("The user's process cannot be heard at %s:%d: %s.", address.host, address.port, error)
            self.close()
            return
        self.hears = True
        threading.Thread(target=self._listen, args=(self._socket,), name="slackwater-line", daemon=True).start()

    def close(self) -> None:
        """Hang up."""
        self.hears = False
        if self._socket is not None:
            self._socket.close()

    def _listen(self, line: socket.socket) -> None:
        try:
            with line.makefile("rb") as lines:
                while text := lines.readline(MOST_BYTES):
                    message = json.loads(text)
                    if isinstance(message, dict):
                        self._heard(message)
        except (OSError, ValueError) as error:
            log.debug("The line to the user's process ended: %s", error)
        self.hears = False
        self._heard({"gone": True})
