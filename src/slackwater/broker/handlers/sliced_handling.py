"""Handles one request in slices, for handling that may take long; an exception becomes an error response."""

from typing import Any

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.handler import ErrorResponse, respond_failed
from slackwater.broker.request_context import RequestContext
from slackwater.broker.slices import Sliced


def handle_in_slices(
    broker: BrokerState,
    context: RequestContext,
    request: Any,
    work: Sliced[None],
    error_response: ErrorResponse,
    *,
    is_read_only: bool = False,
) -> bool:
    """Handle a request in slices; returns whether it is done. Reading ends when the connection closes."""

    def fail(error: Exception) -> None:
        respond_failed(context, request, error_response, error)

    return broker.slices.run(work, fail, is_cancelled=lambda: is_read_only and context.connection.is_closing)
