"""The broker as a running server: sockets, turns, timers, one thread for what must block.

Rules kept here
- One event loop does everything that decides. What arrives in one turn of it is decoded and decided as it comes; at the
  end of the turn everything is written, then every connection with answers gets one write.
- A handler that fails answers UNKNOWN_SERVER_ERROR, and the broker goes on.
- What must block (fsync, compaction) runs in one thread and comes back to the loop.
- A stop is clean: no more connections, answers that are ready are sent, logs are closed, the directory is let go.
"""

import asyncio
import base64
import contextlib
import errno
import logging
import os
import resource
import socket
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.config import Settings
from slackwater.broker.connection import Connection, RequestContext
from slackwater.broker.fetching.idle_sockets import idle_sockets
from slackwater.broker.handlers import SUPPORTED_APIS, Handler, load
from slackwater.broker.maintenance import Maintenance
from slackwater.broker.repeats import Repeats, Run
from slackwater.broker.storage.directory import DataDirectory
from slackwater.clock import AnchoredClock, Clock, ManualClock
from slackwater.group.errors import Error, UsageError
from slackwater.wire.envelope import RequestHeader
from slackwater.wire.errors import WireError
from slackwater.wire.schema import Request

log = logging.getLogger("slackwater.broker")
BACKLOG: Final = 4096
# Connections; what they are sent leaves when the loop goes on, and they need not wait longer. As many again of those
# that waited: while a thousand members hear of their generation, the first ones already hear of their assignment.
MOST_FLUSHED: Final = 128


class Server:
    """A broker that runs on the current event loop."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        *,
        clock: Clock | None = None,
        group_clock: Clock | None = None,
        advertised: tuple[str, int] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock or AnchoredClock()
        self._group_clock = group_clock or self._clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slackwater-disk")
        self._connections: set[Connection] = set()
        self._dirty: list[Connection] = []  # have answers to send when the turn ends
        self._late: list[Connection] = []  # had them when an earlier turn ended, and were too many
        self._turn_is_planned = False
        self._is_flushing = False
        self._leaving: list[RequestContext | Run] = []  # what has left in this turn, to be counted
        self._group_timer: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._stopping = False
        self.handlers: dict[int, Handler] = {}  # those asked for so far; a fault may take the place of one
        self._answered = {api.key: api for api in SUPPORTED_APIS}
        self.max_request_bytes = settings.number("socket.request.max.bytes")
        self.max_waiting = settings.number("queued.max.requests")
        self.settings = settings
        owned = DataDirectory.open(directory, new_cluster_id(), settings.number("node.id"))
        try:
            self.broker = Broker(
                settings,
                owned,
                loop=self._loop,
                clock=self._clock,
                group_clock=self._group_clock,
                in_thread=self._in_thread,
                schedule_flush=self._plan_turn,
                wake_groups_at=self._wake_groups_at,
                advertised=advertised,
            )
            self.broker.load()
        except BaseException:
            owned.close(clean=False)
            raise
        self._housekeeping = Maintenance(self.broker, self._connections)
        self.idle_sockets = idle_sockets(self._loop)

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        allow_many_files()
        try:
            self._server = await self._loop.create_server(lambda: Connection(self), host, port, backlog=BACKLOG)
        except OSError as error:
            await self.stop()
            raise cannot_listen(host, port, error) from error
        self._housekeeping.start()

    async def stop(self, *, clean: bool = True) -> None:
        """Stop; `clean=False` is what a kill leaves behind."""
        if self._stopping:
            return
        self._stopping = True
        self._housekeeping.stop()
        if self._server is not None:
            self._server.close()
        if self._group_timer is not None:
            self._group_timer.cancel()
        if clean:
            self._end_turn()
            for connection in list(self._connections):
                connection.close()
        else:
            self.cut_connections()
        # Blocking work that is under way comes to its end, and is heard, before its files are closed. When the whole
        # program ends, the thread has come to its end already, and takes nothing more.
        with contextlib.suppress(RuntimeError):
            await self._loop.run_in_executor(self._thread, lambda: None)
        self._thread.shutdown()
        await asyncio.sleep(0)
        if self.idle_sockets is not None:
            self.idle_sockets.close()
        self.broker.close(clean=clean)

    def cut_connections(self) -> None:
        """End every connection now; what was not sent is lost."""
        for connection in list(self._connections):
            connection.abort()

    # --- what connections need (`connection.Desk`) --------------------------------------------------------------------

    def opened(self, connection: Connection) -> bool:
        """A client has connected."""
        self._connections.add(connection)
        metrics = self.broker.metrics
        metrics.connections += 1
        if len(self._connections) > self.settings.number("max.connections") or self._stopping:
            metrics.connections_refused += 1
            return False
        return True

    def closed(self, connection: Connection) -> None:
        """A client has gone."""
        self._connections.discard(connection)
        self.broker.closed(connection)

    def handle(self, context: RequestContext, request: Request) -> None:
        """Do what is asked."""
        handler = self.handlers.get(context.api_key) or self.handler(context.api_key)
        try:
            handler.handle(self.broker, context, request)
        except Exception:
            log.exception("The request %s v%d of %s failed.", request.API.name, context.version, context.client_id)
            if not context.has_response:
                context.respond(handler.error_response(request, context.version, Error.UNKNOWN_SERVER_ERROR))

    def repeats(self, header: RequestHeader, request: Request, frame: bytes) -> Repeats | None:
        """What takes the requests that will say what this one says."""
        remember = self.handlers[header.api_key].repeats
        return None if remember is None else remember(header, request, frame)

    def handle_repeats(self, connection: Connection, repeats: Repeats, data: bytes) -> int:
        """Do what is asked by requests that say what one before them said."""
        if self.handlers[repeats.api_key].repeats is None:
            return 0  # a fault has taken the place of the handler, and wants to see every request
        cut = repeats.cut(self.broker, data)
        if cut is None:
            return 0
        run = Run(connection, repeats.api_key, cut.correlation_ids)
        connection.begin_run(run)
        try:
            repeats.handle(self.broker, run, cut.asked)
        except Exception:
            log.exception("Requests with API key %d of %s failed.", repeats.api_key, connection.host)
            run.answer_rest(repeats.refusal())
        return cut.size

    def handler(self, api_key: int) -> Handler:
        """The handler of an API that was not asked for before."""
        api = self._answered.get(api_key)
        if api is None:
            raise WireError(f"Request header: API key {api_key} is not answered by this broker.")
        self.handlers[api_key] = handler = load(api)
        return handler

    def flush_later(self, connection: Connection) -> None:
        """It has answers to send when the turn ends."""
        self._dirty.append(connection)
        if not self._turn_is_planned:
            self._plan_turn()

    def answered(self, calls: Sequence[RequestContext | Run]) -> None:
        """These answers leave now; those of a turn are counted together."""
        if self._is_flushing:
            self._leaving += calls
        else:
            self.broker.metrics.answered(calls)

    def malformed(self, connection: Connection, error: WireError) -> None:
        """A client sent what cannot be read."""
        self.broker.metrics.malformed += 1
        log.warning("Closed the connection of %s: %s", connection.host, error)

    # --- turns, timers, the thread ------------------------------------------------------------------------------------

    def _plan_turn(self) -> None:
        if not self._turn_is_planned:
            self._turn_is_planned = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_is_planned = True  # what happens in here needs no other turn, until it is over
        try:
            self.broker.flush_pending()
        except Exception:
            # Nothing in there should fail. If it does, a broker whose turns end no more would answer nobody again.
            log.exception("The end of a turn failed.")
        self._turn_is_planned = False
        dirty = self._late[:MOST_FLUSHED]
        del self._late[:MOST_FLUSHED]
        dirty += self._dirty[:MOST_FLUSHED]
        self._late += self._dirty[MOST_FLUSHED:]
        self._dirty = []
        if self._late:
            self._plan_turn()
        self._is_flushing = True
        try:
            for connection in dirty:
                connection.flush()
        finally:
            self._is_flushing = False
            leaving, self._leaving = self._leaving, []
            self.broker.metrics.answered(leaving)

    def pass_group_time(self, length_ms: int) -> None:
        """Move a group clock that stands still, firing every timer of the groups at its own time."""
        clock = self._group_clock
        assert isinstance(clock, ManualClock)
        until_ms = clock.now_ms() + length_ms
        while (due_ms := self.broker.groups.next_due_ms()) is not None and due_ms <= until_ms:
            clock.advance_ms(max(due_ms - clock.now_ms(), 0))
            self.broker.groups.tick()
            self._end_turn()
        clock.advance_ms(until_ms - clock.now_ms())

    def _wake_groups_at(self, due_ms: int) -> None:
        if isinstance(self._group_clock, ManualClock) and due_ms > self._group_clock.now_ms():
            return  # `pass_group_time` brings it about
        if self._group_timer is not None:
            self._group_timer.cancel()
        delay_ms = due_ms - self._group_clock.now_ms()
        self._group_timer = self._loop.call_later(max(delay_ms, 0) / 1000, self._tick_groups)

    def _tick_groups(self) -> None:
        self._group_timer = None
        self.broker.groups.tick()

    def _in_thread(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        def heard(future: Future[None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._back, future, done)

        self._thread.submit(work).add_done_callback(heard)

    def _back(self, future: Future[None], done: Callable[[], object]) -> None:
        if (error := future.exception()) is not None:
            log.error("Work in the background failed.", exc_info=error)
        done()
        self._plan_turn()


def allow_many_files() -> None:
    """Raise this process's limit of open files to what the system allows: every connection and segment is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def new_cluster_id() -> str:
    """A cluster id as Kafka makes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def cannot_listen(host: str, port: int, error: OSError) -> UsageError:
    """What to tell whoever wanted to listen there."""
    if isinstance(error, socket.gaierror):
        return UsageError(f"cannot listen on {host}:{port}: {host} is no address of this machine. Use another one.")
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    taken = error.errno == errno.EADDRINUSE
    advice = "Stop what listens there, or use another port" if taken else "Use another address"
    return UsageError(f"cannot listen on {host}:{port}: {reason[:1].lower()}{reason[1:]}. {advice}.")
