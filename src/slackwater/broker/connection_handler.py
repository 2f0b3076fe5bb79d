"""The server as its connections use it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from slackwater.broker.request_context import RequestContext
from slackwater.broker.request_memory import RequestMemory
from slackwater.wire.errors import WireError
from slackwater.wire.schema import Request

if TYPE_CHECKING:
    from slackwater.broker.connection import Connection


class ConnectionHandler(Protocol):
    """The server as a connection uses it."""

    max_request_bytes: int
    max_queued_requests: int
    request_memory: RequestMemory

    def connection_opened(self, connection: "Connection") -> bool:
        """Register a new connection; False rejects it."""
        ...

    def connection_closed(self, connection: "Connection") -> None:
        """Remove a connection."""
        ...

    def handle(self, context: RequestContext, request: Request) -> None:
        """Process a request; the response follows now or later. A WireError closes the connection."""
        ...

    def handle_large(self, context: RequestContext, request: Request, size: int) -> bool:
        """Process a request of `size` bytes like `handle`; True if it is processed in parts."""
        ...

    def send_later(self, connection: "Connection") -> None:
        """Call `connection.send_responses` at the end of this event loop iteration."""
        ...

    def responses_sent(self, requests: Sequence[RequestContext]) -> None:
        """Count responses that leave now."""
        ...

    def session_expired(self, connection: "Connection") -> None:
        """Count and log a client that has not authenticated again in time."""
        ...

    def malformed_frame(self, connection: "Connection", error: WireError) -> None:
        """Count and log a frame that cannot be decoded."""
        ...
