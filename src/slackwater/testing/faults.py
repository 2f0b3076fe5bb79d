"""FaultInjector on the way between a client and its answer: late, lost, refused.

Rules kept here
- A fault takes the place of an API's handler for as long as it has something to do, and then gives it back. A broker
  without faults runs the code that it runs in production, and nothing else.
- FaultInjector of one API happen in the order in which they were asked for.
- Everything but `InjectedFault.wait` and the counts runs on the broker's thread.
"""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.handlers import Handler
from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.envelope import RequestHeader, encode_response, response_pieces
from slackwater.wire.schema import Response


class InjectedFault(ABC):
    """Something that happens to the next requests of an API: to `times` of them, or to all if that is None."""

    def __init__(self, times: int | None) -> None:
        self.met = 0  # how often it has happened
        self._left = times
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether it has happened as often as it was asked for."""
        return self._over.is_set()

    def wait(self, timeout_s: float = 30.0) -> None:
        """Wait until it has happened as often as it was asked for."""
        if not self._over.wait(timeout_s):
            raise TimeoutError(f"The fault has happened {self.met} times within {timeout_s} s, and is not over.")

    def end(self) -> None:
        """Do not happen again."""
        self._over.set()

    def meet(self, handler: Handler, broker: Broker, context: RequestContext, request: Any) -> None:
        """Happen to this request."""
        self.met += 1
        if self._left is not None:
            self._left -= 1
        self._happen(handler, broker, context, request)
        if self._left == 0:
            self._over.set()

    @abstractmethod
    def _happen(self, handler: Handler, broker: Broker, context: RequestContext, request: Any) -> None: ...


class DelayFault(InjectedFault):
    """The request is done at once; its answer leaves late."""

    def __init__(self, seconds: float, times: int | None) -> None:
        super().__init__(times)
        self._seconds = seconds

    def _happen(self, handler: Handler, broker: Broker, context: RequestContext, request: Any) -> None:
        handler.handle(broker, _Held(context, lambda deliver: broker.loop.call_later(self._seconds, deliver)), request)


class DropFault(InjectedFault):
    """The connection is cut: instead of the answer, or before the request is done at all."""

    def __init__(self, times: int | None, *, processed: bool) -> None:
        super().__init__(times)
        self._processed = processed

    def _happen(self, handler: Handler, broker: Broker, context: RequestContext, request: Any) -> None:
        if self._processed:
            handler.handle(broker, _Held(context, lambda _deliver: context.connection.abort()), request)
        else:
            context.connection.abort()


class ErrorFault(InjectedFault):
    """The request is not done; its answer is an error."""

    def __init__(self, error: Error, times: int | None) -> None:
        super().__init__(times)
        self._error = error

    def _happen(self, handler: Handler, broker: Broker, context: RequestContext, request: Any) -> None:
        if getattr(request, "acks", None) == 0:
            context.connection.abort()  # a producer that wants no answer learns of an error in no other way
        else:
            context.respond(handler.error_response(request, context.version, self._error))


class FaultInjector:
    """The faults that wait for their API to be asked."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[InjectedFault]] = {}

    def add(self, server: Server, api_key: int, fault: InjectedFault) -> None:
        """Let this one happen after those that were asked for before."""
        self._waiting.setdefault(api_key, deque()).append(fault)
        self._install(server, api_key)

    def attach(self, server: Server) -> None:
        """Go on with what has not happened yet, in a server that was started anew."""
        for api_key in self._waiting:
            self._install(server, api_key)

    def clear(self) -> None:
        """Let no more of them happen."""
        for waiting in self._waiting.values():
            for fault in waiting:
                fault.end()

    def _install(self, server: Server, api_key: int) -> None:
        handler = server.handlers.get(api_key) or server.handler(api_key)
        if not isinstance(handler.handle, partial):
            handle = partial(self._handle, server, handler)
            server.handlers[api_key] = Handler(handler.api, handle, handler.error_response)

    def _handle(self, server: Server, handler: Handler, broker: Broker, context: RequestContext, request: Any) -> None:
        waiting = self._waiting.get(context.api_key, deque())
        while waiting and waiting[0].is_over:
            waiting.popleft()
        if waiting:
            waiting[0].meet(handler, broker, context, request)
            return
        self._waiting.pop(context.api_key, None)
        server.handlers[context.api_key] = handler
        handler.handle(broker, context, request)


class _Held(RequestContext):
    """A call whose answer is kept back; `hold` gets what delivers it."""

    __slots__ = ("_context", "_hold")

    def __init__(self, context: RequestContext, hold: Callable[[Callable[[], None]], object]) -> None:
        header = RequestHeader(context.api_key, context.version, context.correlation_id, context.client_id)
        super().__init__(context.connection, header, context.received_at)
        self._context = context
        self._hold = hold

    def respond(self, response: Response) -> None:
        self._keep(encode_response(response, self.version, self.correlation_id))

    def respond_encoded(self, frame: bytes) -> None:
        self._keep(frame)

    def respond_with_records(self, response: Response) -> None:
        # Joined now: what the pieces point to may be another segment's bytes by the time they leave.
        self._keep(b"".join(response_pieces(response, self.version, self.correlation_id)))

    def skip_response(self) -> None:
        self._keep(b"")

    def _keep(self, frame: bytes) -> None:
        self.response = frame

        def deliver() -> None:
            self._context.response = frame
            self._context.connection.response_ready(len(frame))

        self._hold(deliver)
