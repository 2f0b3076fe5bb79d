"""DescribeTransactions, v0: no transactional id is known."""

from slackwater.broker.broker import Node
from slackwater.broker.connection import Call
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(node: Node, call: Call, request: DescribeTransactionsRequest) -> None:
    """None of them is known; an empty one cannot be."""
    call.answer(
        DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(Error.TRANSACTIONAL_ID_NOT_FOUND if one else Error.INVALID_REQUEST, one)
                for one in request.transactional_ids
            ]
        )
    )


def refuse(request: DescribeTransactionsRequest, version: int, error: Error) -> DescribeTransactionsResponse:
    """An error on every id."""
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error, one) for one in request.transactional_ids]
    )
