"""The sockets of a listener with TLS.

`asyncio` shows a TLS connection only after its handshake. Here each socket is accepted first, so that unfinished
handshakes count for the limits of connections, and a changed certificate applies to the next connection.
"""

import asyncio
import errno
import socket
from typing import Final

from slackwater.broker.authentication.listener import ListenerSecurity
from slackwater.broker.authentication.unauthenticated import UnauthenticatedConnection, UnauthenticatedConnectionHandler
from slackwater.escaping import get_logger

log = get_logger("slackwater.broker")
MAX_ACCEPTS: Final = 64  # per iteration of the loop
RETRY_S: Final = 1.0


class TlsListener:
    """Accepts the connections of one listener with TLS."""

    def __init__(self, handler: UnauthenticatedConnectionHandler, security: ListenerSecurity) -> None:
        self._handler = handler
        self._security = security
        self._loop = asyncio.get_running_loop()
        self.sockets: list[socket.socket] = []

    async def open(self, backlog: int) -> None:
        """Bind the addresses and listen; raise `OSError` if that is not possible."""
        endpoint = self._security.endpoint
        found = await self._loop.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
                opened = socket.socket(family, socket.SOCK_STREAM)
                self.sockets.append(opened)
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                opened.setblocking(False)
                opened.bind(address)
                opened.listen(backlog)
        except OSError:
            self.close()
            raise
        for opened in self.sockets:
            self._loop.add_reader(opened, self._accept, opened)

    def close(self) -> None:
        """Stop accepting connections."""
        for opened in self.sockets:
            self._loop.remove_reader(opened)
            opened.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(MAX_ACCEPTS):
            try:
                accepted, peer = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    log.error("Cannot accept a connection: %s.", error.strerror)
                    self._loop.remove_reader(listening)
                    self._loop.call_later(RETRY_S, self._resume, listening)
                    return
                continue  # the client is gone already
            accepted.setblocking(False)
            assert self._security.tls is not None
            unauthenticated = UnauthenticatedConnection(self._handler, self._security, f"/{peer[0]}")
            unauthenticated.accept_tls(accepted, self._security.tls.context())

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)
