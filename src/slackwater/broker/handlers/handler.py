"""The interface of a handler module.

There is one module per API, named like its message module. Its docstring lists the version differences that matter to
the broker. The core and the logs have no API versions: the handler converts on the way in and on the way out.

- `handle(broker, context, request)` sends the response through `context`, now or later. A field that a version does not
  have is not written, so a handler may set it for every version.
- `error_response(request, version, error)` returns the response that reports only an error, in the form of this API:
  at the top level, or on every requested topic and partition.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from slackwater.escaping import get_logger
from slackwater.group.errors import Error
from slackwater.wire.apis import Api
from slackwater.wire.schema import Response

log = get_logger("slackwater.broker")

if TYPE_CHECKING:
    from slackwater.broker.broker_state import BrokerState
    from slackwater.broker.request_context import RequestContext


class Handle(Protocol):
    """Process a request and send its response now or later."""

    def __call__(self, broker: "BrokerState", context: "RequestContext", request: Any, /) -> None: ...


class ErrorResponse(Protocol):
    """Build a response that reports only an error."""

    def __call__(self, request: Any, version: int, error: Error, /) -> Response: ...


class Handler(NamedTuple):
    """One API."""

    api: Api
    handle: Handle
    error_response: ErrorResponse


def respond_failed(context: "RequestContext", request: Any, error_response: ErrorResponse, error: Exception) -> None:
    """Log an exception of a handler, and send UNKNOWN_SERVER_ERROR unless there is a response."""
    log.error(
        "The request %s v%d from client %s failed.",
        request.API.name,
        context.version,
        context.client_id,
        exc_info=error,
    )
    if context.response is None:
        context.respond(error_response(request, context.version, Error.UNKNOWN_SERVER_ERROR))
