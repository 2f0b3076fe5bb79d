"""DescribeTransactions, v0: there are no transactions, so every transactional id is unknown."""

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(broker: Broker, context: RequestContext, request: DescribeTransactionsRequest) -> None:
    """Return TRANSACTIONAL_ID_NOT_FOUND for every id, and INVALID_REQUEST for an empty id."""
    context.respond(
        DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(_find_error(broker, context, transactional_id), transactional_id)
                for transactional_id in request.transactional_ids
            ]
        )
    )


def error_response(request: DescribeTransactionsRequest, version: int, error: Error) -> DescribeTransactionsResponse:
    """Return the error for every id."""
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error, transactional_id) for transactional_id in request.transactional_ids]
    )


def _find_error(broker: Broker, context: RequestContext, transactional_id: str) -> Error:
    if not broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        return Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Error.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else Error.INVALID_REQUEST
