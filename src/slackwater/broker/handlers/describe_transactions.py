"""DescribeTransactions, v0: no transactional id is known."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(broker: Broker, context: RequestContext, request: DescribeTransactionsRequest) -> None:
    """No transactional id is known; an empty one is invalid."""
    context.respond(
        DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(Error.TRANSACTIONAL_ID_NOT_FOUND if one else Error.INVALID_REQUEST, one)
                for one in request.transactional_ids
            ]
        )
    )


def error_response(request: DescribeTransactionsRequest, version: int, error: Error) -> DescribeTransactionsResponse:
    """Return the error for every id."""
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error, one) for one in request.transactional_ids]
    )
