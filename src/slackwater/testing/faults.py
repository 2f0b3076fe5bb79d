"""Fault injection between a client and the response: delays, dropped connections, errors.

Invariants:
- A fault replaces the handler of an API while it is active, and restores it afterwards. A broker without faults runs
  only production code.
- The faults of one API are injected in the order in which they were added.
- Everything except `InjectedFault.wait` and the counters runs on the broker's thread.
"""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers import Handler
from slackwater.broker.request_context import RequestContext
from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.request_response import RequestHeader, encode_response, response_pieces
from slackwater.wire.schema import Response


class InjectedFault(ABC):
    """A fault in the next `times` requests of an API; None means all requests."""

    def __init__(self, times: int | None) -> None:
        self.count = 0  # requests that had this fault
        self._remaining = times
        self._finished = threading.Event()

    @property
    def is_finished(self) -> bool:
        """Whether the fault was injected as often as configured."""
        return self._finished.is_set()

    def wait(self, timeout_s: float = 30.0) -> None:
        """Wait until the fault was injected as often as configured."""
        if not self._finished.wait(timeout_s):
            raise TimeoutError(f"The fault was injected {self.count} times within {timeout_s} s and is not finished.")

    def end(self) -> None:
        """Deactivate the fault."""
        self._finished.set()

    def inject(self, handler: Handler, broker: BrokerState, context: RequestContext, request: Any) -> None:
        """Inject the fault into a request."""
        self.count += 1
        if self._remaining is not None:
            self._remaining -= 1
        self._apply(handler, broker, context, request)
        if self._remaining == 0:
            self._finished.set()

    @abstractmethod
    def _apply(self, handler: Handler, broker: BrokerState, context: RequestContext, request: Any) -> None: ...


class DelayFault(InjectedFault):
    """Execute the request at once and delay the response."""

    def __init__(self, seconds: float, times: int | None) -> None:
        super().__init__(times)
        self._seconds = seconds

    def _apply(self, handler: Handler, broker: BrokerState, context: RequestContext, request: Any) -> None:
        handler.handle(
            broker, _HeldContext(context, lambda deliver: broker.loop.call_later(self._seconds, deliver)), request
        )


class DropFault(InjectedFault):
    """Close the connection: instead of the response, or before the request is executed."""

    def __init__(self, times: int | None, *, processed: bool) -> None:
        super().__init__(times)
        self._processed = processed

    def _apply(self, handler: Handler, broker: BrokerState, context: RequestContext, request: Any) -> None:
        if self._processed:
            handler.handle(broker, _HeldContext(context, lambda _deliver: context.connection.abort()), request)
        else:
            context.connection.abort()


class ErrorFault(InjectedFault):
    """Respond with an error without executing the request."""

    def __init__(self, error: Error, times: int | None) -> None:
        super().__init__(times)
        self._error = error

    def _apply(self, handler: Handler, broker: BrokerState, context: RequestContext, request: Any) -> None:
        if getattr(request, "acks", None) == 0:
            context.connection.abort()  # a producer with acks=0 gets no response
        else:
            context.respond(handler.error_response(request, context.version, self._error))


class FaultInjector:
    """Injects faults into the handlers of a server."""

    def __init__(self) -> None:
        self._faults: dict[int, deque[InjectedFault]] = {}

    def add(self, server: Server, api_key: int, fault: InjectedFault) -> None:
        """Add a fault after the earlier faults of this API."""
        self._faults.setdefault(api_key, deque()).append(fault)
        self._install(server, api_key)

    def attach(self, server: Server) -> None:
        """Install the remaining faults in a restarted server."""
        for api_key in self._faults:
            self._install(server, api_key)

    def clear(self) -> None:
        """Deactivate all faults."""
        for faults in self._faults.values():
            for fault in faults:
                fault.end()

    def _install(self, server: Server, api_key: int) -> None:
        handler = server.handlers.get(api_key) or server.handler(api_key)
        if not isinstance(handler.handle, partial):
            handle = partial(self._handle, server, handler)
            server.handlers[api_key] = Handler(handler.api, handle, handler.error_response)

    def _handle(
        self, server: Server, handler: Handler, broker: BrokerState, context: RequestContext, request: Any
    ) -> None:
        faults = self._faults.get(context.api_key, deque())
        while faults and faults[0].is_finished:
            faults.popleft()
        if faults:
            faults[0].inject(handler, broker, context, request)
            return
        self._faults.pop(context.api_key, None)
        server.handlers[context.api_key] = handler
        handler.handle(broker, context, request)


class _HeldContext(RequestContext):
    """A request context whose response is held back; `hold` gets the function that delivers it."""

    __slots__ = ("_context", "_hold")

    def __init__(self, context: RequestContext, hold: Callable[[Callable[[], None]], object]) -> None:
        header = RequestHeader(context.api_key, context.version, context.correlation_id, context.client_id)
        super().__init__(context.connection, header, context.received_at)
        self._context = context
        self._hold = hold

    def respond(self, response: Response) -> None:
        self._hold_frame(encode_response(response, self.version, self.correlation_id))

    def respond_encoded(self, frame: bytes) -> None:
        self._hold_frame(frame)

    def respond_with_records(self, response: Response) -> None:
        # Joined now: the pieces may point to reused memory when they are sent.
        self._hold_frame(b"".join(response_pieces(response, self.version, self.correlation_id)))

    def skip_response(self) -> None:
        self._hold_frame(b"")

    def _hold_frame(self, frame: bytes) -> None:
        self.response = frame

        def deliver() -> None:
            self._context.response = frame
            self._context.connection.response_ready(len(frame))

        self._hold(deliver)
