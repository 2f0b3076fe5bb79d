"""ListTransactions, v0 to v2: there are no transactions.

v1   filter by duration (KIP-994)
v2   filter by a pattern for the transactional id (KIP-1152)
"""

import re
from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


def handle(broker: Broker, context: RequestContext, request: ListTransactionsRequest) -> None:
    """Return no transactions, and the unknown state filters."""
    if request.transactional_id_pattern is not None and not _is_pattern(request.transactional_id_pattern):
        context.respond(error_response(request, context.version, Error.INVALID_REGULAR_EXPRESSION))
        return
    unknown = [state for state in request.state_filters if state not in _STATES]
    context.respond(ListTransactionsResponse(unknown_state_filters=unknown))


def error_response(request: ListTransactionsRequest, version: int, error: Error) -> ListTransactionsResponse:
    """Return a response with only the error."""
    return ListTransactionsResponse(error_code=error)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
