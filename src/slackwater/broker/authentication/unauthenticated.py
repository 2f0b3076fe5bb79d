"""A connection until it is authenticated: the TLS handshake, then SASL. `Connection` then takes over the socket.

Invariants:
- No other request than ApiVersions, SaslHandshake and SaslAuthenticate is decoded. Frames are small
  (`sasl.server.max.receive.size`). After a failure nothing more is read.
- Bytes after the frame that completes the authentication are handed over as they are: other limits apply to them.
- TLS and SASL together have one deadline (`connection.authentication.timeout.ms`).
- The response to a failed authentication waits (`connection.failed.authentication.delay.ms`), then the connection is
  closed.
"""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Final, Protocol, cast

from slackwater.broker.authentication.listener import ListenerSecurity
from slackwater.broker.authentication.sasl import SaslAuthentication
from slackwater.broker.connection import ANONYMOUS, Connection
from slackwater.broker.connection_handler import ConnectionHandler
from slackwater.escaping import get_logger
from slackwater.security.distinguished_names import subject_name
from slackwater.security.errors import AuthenticationError
from slackwater.security.server_tls import alert_of

log = get_logger("slackwater.broker")
_SIZE_BYTES: Final = 4
MAX_ALERT_S: Final = 1.0
_DISCARDED_BYTES: Final = 65_536


class UnauthenticatedConnectionHandler(ConnectionHandler, Protocol):
    """The server as an unauthenticated connection uses it."""

    def unauthenticated_opened(self, connection: "UnauthenticatedConnection") -> bool:
        """Register a new connection; False rejects it."""
        ...

    def unauthenticated_closed(self, connection: "UnauthenticatedConnection") -> None:
        """Remove a connection that is closed or has become a `Connection`."""
        ...

    def authentication_failed(self, connection: "UnauthenticatedConnection", reason: str) -> None:
        """Count and log a failed authentication."""
        ...


class UnauthenticatedConnection(asyncio.Protocol):
    """The server side of one socket until its client is authenticated."""

    def __init__(self, handler: UnauthenticatedConnectionHandler, security: ListenerSecurity, host: str = "") -> None:
        self._handler = handler
        self._security = security
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()  # not processed yet; no FrameReader, which would split all of it with one limit
        self._transport: asyncio.Transport | None = None
        self._sasl: SaslAuthentication | None = None
        self._principal = ANONYMOUS
        self._is_open = False
        self._is_failed = False
        self._deadline: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self.host = host

    def accept_tls(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        """Start the TLS handshake on a new socket; the connection is made when it is complete."""
        if self._register():
            self._handshake = self._loop.create_task(self._shake_hands(accepted, context))
        else:
            accepted.close()

    async def _shake_hands(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        copy: socket.socket | None = None
        try:
            copy = accepted.dup()  # the transport closes its own without an alert
            await self._loop.connect_accepted_socket(
                lambda: self, accepted, ssl=context, ssl_handshake_timeout=self._security.timeout_s
            )
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError is an OSError
            if self._is_open and not self._is_failed:
                self._is_failed = True
                self._report_failure(f"the TLS handshake failed: {_tls_reason(error)}")
            try:
                if copy is None:
                    accepted.close()
                elif alert := alert_of(error):
                    await self._send_alert(copy, alert)
            finally:
                self._unregister()
        finally:
            if copy is not None:
                copy.close()
            self._handshake = None

    async def _send_alert(self, copy: socket.socket, alert: bytes) -> None:
        """Tell the client why its handshake failed, and let it read that: a close with unread bytes is a reset."""
        with suppress(OSError):  # TimeoutError is an OSError
            copy.send(alert)
            copy.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(MAX_ALERT_S):
                while await self._loop.sock_recv(copy, _DISCARDED_BYTES):
                    pass

    def _register(self) -> bool:
        """Register the connection; False if it is refused."""
        self._is_open = True
        if not self._handler.unauthenticated_opened(self):
            self._unregister()
            return False
        self._deadline = self._loop.call_later(self._security.timeout_s, self._on_deadline)
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Continue after the TLS handshake, if there is one (asyncio callback)."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's class is not a subclass
        session = transport.get_extra_info("ssl_object")
        if session is None:
            peer = transport.get_extra_info("peername")
            self.host = f"/{peer[0]}" if peer else "/"
            if not self._register():
                transport.abort()
                return
        elif (certificate := session.getpeercert(binary_form=True)) is not None:
            try:
                self._principal = f"User:{self._security.mapping.name(subject_name(certificate))}"
            except AuthenticationError as error:
                self._fail(str(error), b"")
                return
        self._authenticate(transport)

    def _authenticate(self, transport: asyncio.Transport) -> None:
        if self._security.sasl is None:
            self._promote(transport)
        else:
            self._sasl = SaslAuthentication(self._security.sasl)

    def data_received(self, data: bytes) -> None:
        """Process the authentication requests that these bytes complete (asyncio callback)."""
        if self._is_failed or not self._is_open:
            return
        self._received += data
        sasl, received, transport = self._sasl, self._received, self._transport
        assert sasl is not None
        assert transport is not None
        while len(received) >= _SIZE_BYTES and not self._is_failed:
            size = int.from_bytes(received[:_SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= self._security.max_receive_bytes:
                self._fail(
                    f"a frame announces {size} bytes; before authentication {self._security.max_receive_bytes} are "
                    "allowed (sasl.server.max.receive.size)",
                    b"",
                )
                return
            end = _SIZE_BYTES + size
            if len(received) < end:
                return
            frame = bytes(received[_SIZE_BYTES:end])
            del received[:end]
            response = sasl.on_frame(frame)
            if sasl.failure is not None:
                self._fail(sasl.failure, response)
                return
            transport.write(response)
            if sasl.session is not None:
                self._promote(transport)
                return

    def _promote(self, transport: asyncio.Transport) -> None:
        """Hand the socket over, with the bytes of requests that have already arrived."""
        self._unregister()
        connection = Connection(self._handler, self._security.endpoint.name, self._principal)
        if self._sasl is not None:
            self._sasl.attach(connection)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if self._received:
            connection.data_received(bytes(self._received))

    def _fail(self, reason: str, response: bytes) -> None:
        self._is_failed = True
        self._report_failure(reason)
        if self._transport is not None:
            self._transport.pause_reading()
            self._loop.call_later(self._security.failure_delay_s, self._respond_and_close, response)

    def _respond_and_close(self, response: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if response:
            transport.write(response)
        transport.close()

    def _report_failure(self, reason: str) -> None:
        self._handler.authentication_failed(self, reason)

    def _on_deadline(self) -> None:
        if not self._is_failed:
            self._report_failure("the authentication took too long")
        self.abort()

    def abort(self) -> None:
        """Close the connection now."""
        if self._transport is not None:
            self._transport.abort()
        elif self._handshake is not None:
            self._handshake.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection (asyncio callback)."""
        self._transport = None
        self._unregister()

    def _unregister(self) -> None:
        if self._is_open:
            self._is_open = False
            if self._deadline is not None:
                self._deadline.cancel()
            self._handler.unauthenticated_closed(self)


def _tls_reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return "timed out" if isinstance(error, asyncio.CancelledError | TimeoutError) else str(error) or "closed"
