"""The broker's network server: sockets, event loop, timers, and one thread for blocking work.

Invariants:
- One event loop makes every decision. Requests that arrive in one iteration are decoded and processed as they arrive;
  at the end of the iteration everything is written to the logs, then every connection with responses gets one write.
- A handler that raises produces the response UNKNOWN_SERVER_ERROR, and the broker continues.
- Group timers fire after the requests that have already arrived: no stall of the broker expires a session whose
  heartbeat waits in a socket. The group clock hardly advances during a stall: a member whose heartbeat was read before
  the stall keeps its session, too.
- Blocking work (fsync, compaction) runs in one thread and returns to the loop.
- A clean stop accepts no more connections, sends the responses that are ready, closes the logs and releases the data
  directory.
"""

import asyncio
import base64
import contextlib
import errno
import os
import resource
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.config import Settings
from slackwater.broker.config.listeners import Endpoint, host_limits, plaintext_endpoint
from slackwater.broker.connection import Connection
from slackwater.broker.handlers import SUPPORTED_APIS, Handler, load
from slackwater.broker.handlers.handler import respond_failed
from slackwater.broker.maintenance import Maintenance
from slackwater.broker.request_context import RequestContext
from slackwater.broker.request_memory import RequestMemory
from slackwater.broker.split_requests import PartialHandling, find_split
from slackwater.broker.storage.directory import DataDirectory
from slackwater.clock import Clock, ManualClock, StallTolerantClock, WallClock
from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError
from slackwater.security.protocols import SecurityProtocol
from slackwater.wire.errors import WireError
from slackwater.wire.schema import Request

if TYPE_CHECKING:
    from slackwater.broker.authentication.tls_listener import TlsListener
    from slackwater.broker.authentication.unauthenticated import UnauthenticatedConnection

log = get_logger("slackwater.broker")
BACKLOG: Final = 4096
CLOSE_S: Final = 1.0  # for the connections at a stop
MAX_TIMER_S: Final = 1.0  # how often the group clock is read at least (`StallTolerantClock`)
_LATE_S: Final = 0.05
# A client may connect during a stall: its connection is accepted in one iteration and read in a later one.
_MIN_LATE_ITERATIONS: Final = 4
_MAX_LATE_ITERATIONS: Final = 20


class Server:
    """A broker's server on the current event loop; it is the `ConnectionHandler` of its connections."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        *,
        clock: Clock | None = None,
        group_clock: Clock | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock or WallClock()
        self._group_clock = group_clock or StallTolerantClock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slackwater-disk")
        self._connections: set[Connection] = set()
        self._unauthenticated: set[UnauthenticatedConnection] = set()  # not authenticated yet
        self._by_host: Counter[str] = Counter()  # connections, also pending ones
        self._to_send: list[Connection] = []  # connections with responses to send at the end of the iteration
        self._is_end_scheduled = False
        self._coordinator_timer: asyncio.TimerHandle | None = None  # of groups and transactions
        self._coordinator_timer_due_ms = 0
        self._listeners: dict[str, asyncio.Server | TlsListener] = {}
        self._is_stopping = False
        self._has_thread = True
        self._all_closed = asyncio.Event()  # set during a stop only
        self.handlers: dict[int, Handler] = {}  # loaded on first use; a test may replace one to inject a fault
        self._apis = {api.key: api for api in SUPPORTED_APIS}
        self.max_request_bytes = settings.number("socket.request.max.bytes")
        self.max_queued_requests = settings.number("queued.max.requests")
        self.request_memory = RequestMemory(self._loop, settings.number("queued.max.request.bytes"))
        self.settings = settings
        self._host_limits = host_limits(settings)
        raise_open_files_limit()  # the logs of a directory may need more descriptors than the default limit
        opened = DataDirectory.open(directory, new_cluster_id(), settings.number("node.id"))
        try:
            self.broker = BrokerState(
                settings,
                opened,
                loop=self._loop,
                clock=self._clock,
                group_clock=self._group_clock,
                group_wall_clock=group_clock or self._clock,
                in_thread=self._in_thread,
                schedule_end_of_iteration=self._schedule_end_of_iteration,
                wake_coordinators_at=self._wake_coordinators_at,
            )
            self.broker.load()
        except BaseException:
            opened.close(clean=False)
            raise
        self.responses_sent = self.broker.metrics.count_responses
        self._maintenance = Maintenance(self.broker, self._connections, after_reading=self.after_reading)

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return next(iter(self.ports.values()))

    @property
    def ports(self) -> dict[str, int]:
        """The ports of all listeners, by name."""
        return {name: listener.sockets[0].getsockname()[1] for name, listener in self._listeners.items()}

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def principals(self) -> list[str]:
        """The principals of the open connections."""
        return [connection.principal for connection in self._connections]

    @property
    def unauthenticated_connections(self) -> int:
        """The number of connections that are not authenticated yet."""
        return len(self._unauthenticated)

    async def start(self, host: str, port: int) -> None:
        """Listen for clients on one address, without security."""
        await self.listen((plaintext_endpoint(self.settings, host, port),))

    async def listen(self, endpoints: Sequence[Endpoint]) -> None:
        """Listen for clients."""
        for endpoint in endpoints:
            try:
                self._listeners[endpoint.name] = await self._listen(endpoint)
            except OSError as error:
                await self.stop()
                raise listen_error(endpoint.host, endpoint.port, error) from error
            except UsageError:
                await self.stop()
                raise
            if endpoint.advertised is not None:
                self.broker.advertised[endpoint.name] = endpoint.advertised
        self._maintenance.start()

    async def _listen(self, endpoint: Endpoint) -> "asyncio.Server | TlsListener":
        host, port = endpoint.host, endpoint.port
        if endpoint.protocol is SecurityProtocol.PLAINTEXT:
            return await self._loop.create_server(partial(Connection, self, endpoint.name), host, port, backlog=BACKLOG)
        # Imported only where it is needed, because importing it makes the start slower.
        from slackwater.broker.authentication.listener import ListenerSecurity
        from slackwater.broker.authentication.tls_listener import TlsListener
        from slackwater.broker.authentication.unauthenticated import UnauthenticatedConnection

        security = ListenerSecurity(
            endpoint, self.settings, self.broker.credentials, apis=self.broker.apis, wall_ms=self._clock.now_ms
        )
        if not endpoint.protocol.has_tls:
            return await self._loop.create_server(
                partial(UnauthenticatedConnection, self, security), host, port, backlog=BACKLOG
            )
        listener = TlsListener(self, security)
        await listener.open(BACKLOG)
        return listener

    async def stop(self, *, clean: bool = True) -> None:
        """Stop; `clean=False` leaves the state that a killed process leaves."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._maintenance.stop()
        for listener in self._listeners.values():
            listener.close()
        if self._coordinator_timer is not None:
            self._coordinator_timer.cancel()
        self.broker.slices.stop()
        if clean:
            self._end_iteration()
            for unauthenticated in list(self._unauthenticated):
                unauthenticated.abort()
            for connection in list(self._connections):
                connection.close()
            await self._wait_until_closed()
        self.abort_connections()
        await self._wait_until_closed()  # the loop may end next, which fails while a connection closes
        # Blocking work in progress completes before its files are closed. At interpreter exit the thread has already
        # ended and accepts no more work.
        with contextlib.suppress(RuntimeError):
            await self._loop.run_in_executor(self._thread, lambda: None)
        self._has_thread = False
        self._thread.shutdown()
        await asyncio.sleep(0)
        self.broker.close(clean=clean)

    async def _wait_until_closed(self) -> None:
        """Wait until no connection is open, but at most CLOSE_S: a client may read nothing."""
        if self._by_host:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), CLOSE_S)

    def abort_connections(self) -> None:
        """Close every connection now; unsent responses are lost."""
        for unauthenticated in list(self._unauthenticated):
            unauthenticated.abort()
        for connection in list(self._connections):
            connection.abort()

    # --- ConnectionHandler --------------------------------------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> bool:
        """Register a new connection; False if there are too many."""
        self._connections.add(connection)
        self.broker.metrics.connections += 1
        return self._admit(connection.host)

    def connection_closed(self, connection: Connection) -> None:
        """Remove a connection."""
        self._connections.discard(connection)
        self._release(connection.host)
        self.broker.connection_closed(connection)

    def unauthenticated_opened(self, connection: "UnauthenticatedConnection") -> bool:
        """Register a connection that is not authenticated yet; False if there are too many."""
        self._unauthenticated.add(connection)
        return self._admit(connection.host)

    def unauthenticated_closed(self, connection: "UnauthenticatedConnection") -> None:
        """Remove a connection that is closed or authenticated."""
        self._unauthenticated.discard(connection)
        self._release(connection.host)

    def _admit(self, host: str) -> bool:
        self._by_host[host] += 1
        is_full = len(self._connections) + len(self._unauthenticated) > self.settings.number("max.connections")
        if is_full or self._by_host[host] > self._max_of_host(host) or self._is_stopping:
            self.broker.metrics.connections_refused += 1
            return False
        return True

    def _release(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
            if self._is_stopping and not self._by_host:
                self._all_closed.set()

    def _max_of_host(self, host: str) -> int:
        limit = self._host_limits.get(host.removeprefix("/"))
        return self.settings.number("max.connections.per.ip") if limit is None else limit

    def authentication_failed(self, connection: "UnauthenticatedConnection", reason: str) -> None:
        """Count and log a failed authentication."""
        self.broker.authentication_failed(connection.host, reason)

    def session_expired(self, connection: Connection) -> None:
        """Count and log a client that has not authenticated again in time."""
        authentication = connection.authentication
        is_reauthenticating = authentication is not None and authentication.is_in_progress
        reason = "a request during a" if is_reauthenticating else "the session has ended without a"
        self.broker.authentication_failed(connection.host, f"{reason} re-authentication")

    def handle(self, context: RequestContext, request: Request) -> None:
        """Pass a request to the handler of its API."""
        handler = self.handlers.get(context.api_key) or self.handler(context.api_key)
        try:
            handler.handle(self.broker, context, request)
        except Exception as error:
            respond_failed(context, request, handler.error_response, error)

    def handle_large(self, context: RequestContext, request: Request, size: int) -> bool:
        """Pass a request to the handler of its API, in parts if it is large; True if it is processed in parts."""
        split = find_split(request, size)
        if split is None:
            self.handle(context, request)
            return False
        PartialHandling(context, request, split, handle=self.handle, call_soon=self._loop.call_soon).start()
        return True

    def handler(self, api_key: int) -> Handler:
        """Load the handler of an API on its first request."""
        api = self._apis.get(api_key)
        if api is None:
            raise WireError(f"Request header: this broker does not support API key {api_key}.")
        self.handlers[api_key] = handler = load(api)
        return handler

    def send_later(self, connection: Connection) -> None:
        """Send the responses of a connection at the end of this iteration."""
        self._to_send.append(connection)
        if not self._is_end_scheduled:
            self._schedule_end_of_iteration()

    def malformed_frame(self, connection: Connection, error: WireError) -> None:
        """Count and log a frame that cannot be decoded."""
        self.broker.metrics.malformed += 1
        log.warning("Closed the connection of %s: %s", connection.host, error)

    # --- iterations, timers, the thread -------------------------------------------------------------------------------

    def _schedule_end_of_iteration(self) -> None:
        if not self._is_end_scheduled:
            self._is_end_scheduled = True
            self._loop.call_soon(self._end_iteration)

    def _end_iteration(self) -> None:
        """Write the pending appends, then send the responses that they allow."""
        self._is_end_scheduled = True  # callbacks of `write_pending` must not schedule another end
        try:
            self.broker.write_pending()
        except Exception:
            # Never expected. The next iteration must still take place, or the broker would send no more responses.
            log.exception("Writing the pending appends failed.")
        self._is_end_scheduled = False
        to_send, self._to_send = self._to_send, []
        for connection in to_send:
            connection.send_responses()

    def advance_group_clock(self, length_ms: int) -> None:
        """Advance a manual group clock and fire every group timer at its own time."""
        clock = self._group_clock
        assert isinstance(clock, ManualClock)
        until_ms = clock.now_ms() + length_ms
        while (due_ms := self.broker.next_due_ms()) is not None and due_ms <= until_ms:
            clock.advance_ms(max(due_ms - clock.now_ms(), 0))
            self.broker.tick()
            self._end_iteration()
        clock.advance_ms(until_ms - clock.now_ms())

    def _wake_coordinators_at(self, due_ms: int) -> None:
        if isinstance(self._group_clock, ManualClock) and due_ms > self._group_clock.now_ms():
            return  # `advance_group_clock` fires it
        if self._coordinator_timer is not None:
            if self._coordinator_timer_due_ms <= due_ms:
                return
            self._coordinator_timer.cancel()
        self._coordinator_timer_due_ms = due_ms
        delay_ms = due_ms - self._group_clock.now_ms()
        delay_s = min(max(delay_ms / 1000, 0), MAX_TIMER_S)
        self._coordinator_timer = self._loop.call_later(delay_s, self._tick_coordinators)

    def _tick_coordinators(self) -> None:
        self._coordinator_timer = None
        if self._group_clock.now_ms() < self._coordinator_timer_due_ms:
            self._wake_coordinators_at(self._coordinator_timer_due_ms)
        else:
            self.after_reading(self.broker.tick)

    def after_reading(self, work: Callable[[], object]) -> None:
        """Call `work` after every socket has been read that has data now.

        After a stall (a suspended process, a long callback), timers are due although the requests that would extend
        them, such as heartbeats, are still unread in the sockets. The loop fires timers before it reads, so `work`
        waits for some complete iterations, and for another one as long as reading takes so long that more data may
        have arrived.
        """

        def wait(iterations: int) -> None:
            # This runs before the sockets of an iteration are read, and the next callback before those of the next.
            self._loop.call_soon(read, iterations, monotonic())

        def read(iterations: int, since: float) -> None:
            is_late = monotonic() - since > _LATE_S and iterations < _MAX_LATE_ITERATIONS
            if is_late or iterations < _MIN_LATE_ITERATIONS:
                wait(iterations + 1)
            elif not self._is_stopping:
                work()

        self._loop.call_soon(wait, 1)

    def _in_thread(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        if not self._has_thread:  # the end of a flush starts the next one, but the logs are closed, and flushed, anyway
            return

        def on_done(future: Future[None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._work_done, future, done)

        self._thread.submit(work).add_done_callback(on_done)

    def _work_done(self, future: Future[None], done: Callable[[], object]) -> None:
        if (error := future.exception()) is not None:
            log.error("A write, flush or cleaning in the disk thread failed.", exc_info=error)
        done()
        self._schedule_end_of_iteration()


def raise_open_files_limit() -> None:
    """Raise the limit of open files to the system's maximum: every connection and segment needs a descriptor."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


def new_cluster_id() -> str:
    """Create a cluster id in Kafka's format."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def listen_error(host: str, port: int, error: OSError) -> UsageError:
    """Describe why the server cannot listen on an address."""
    if isinstance(error, socket.gaierror):
        return UsageError(
            f"cannot listen on {host}:{port}: {host} cannot be resolved to an address. "
            "Use an IP address of this machine."
        )
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    if error.errno == errno.EADDRINUSE:
        advice = "Stop the process that listens there, or use another port"
    else:
        advice = "Use another address"
    return UsageError(f"cannot listen on {host}:{port}: {reason[:1].lower()}{reason[1:]}. {advice}.")
