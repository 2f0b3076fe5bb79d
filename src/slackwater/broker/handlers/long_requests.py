"""Requests whose handling may take long: it runs in slices, and an exception becomes an error response."""

from typing import Any

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.handlers.handler import ErrorResponse
from slackwater.broker.slices import Sliced
from slackwater.escaping import get_logger
from slackwater.group.errors import Error

log = get_logger("slackwater.broker")


def run(
    broker: Broker,
    context: RequestContext,
    request: Any,
    work: Sliced[None],
    error_response: ErrorResponse,
    *,
    is_read_only: bool = False,
) -> bool:
    """Handle a request in slices; returns whether it is done. Reading ends when the connection closes."""

    def fail(error: Exception) -> None:
        log.error(
            "The request %s v%d from client %s failed.",
            request.API.name,
            context.version,
            context.client_id,
            exc_info=error,
        )
        if context.response is None:
            context.respond(error_response(request, context.version, Error.UNKNOWN_SERVER_ERROR))

    return broker.slices.run(work, fail, is_cancelled=lambda: is_read_only and context.connection.is_closing)
