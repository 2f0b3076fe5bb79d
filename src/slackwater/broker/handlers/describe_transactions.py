"""DescribeTransactions, v0.

Only topics that the client may describe are listed. A transaction is described as often as its id appears in the
request, up to `MAX_REPEATS` times.
"""

from itertools import groupby

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.repeats import limit_repeats
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.group.transactions.messages import (
    DescribedTransaction,
    DescribeTransactions,
)
from slackwater.group.transactions.messages import DescribeTransactionsResponse as Described
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(broker: BrokerState, context: RequestContext, request: DescribeTransactionsRequest) -> None:
    """Describe the transactions of the ids that the client may describe."""
    ids = limit_repeats(request.transactional_ids, str)
    allowed = {
        transactional_id
        for transactional_id in ids
        if broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, transactional_id)
    }

    def on_response(response: Described) -> None:
        rows = {row.transactional_id: _row(broker, context, row) for row in response.transactions}
        denied = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        context.respond(
            DescribeTransactionsResponse(
                transaction_states=[rows.get(each) or TransactionState(denied, each) for each in ids]
            )
        )

    broker.transaction_coordinator.submit(
        DescribeTransactions(tuple(each for each in ids if each in allowed)), on_response
    )


def error_response(request: DescribeTransactionsRequest, version: int, error: Error) -> DescribeTransactionsResponse:
    """Return the error for every id."""
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error, transactional_id) for transactional_id in request.transactional_ids]
    )


def _row(broker: BrokerState, context: RequestContext, described: DescribedTransaction) -> TransactionState:
    if described.state is None:
        return TransactionState(described.error, described.transactional_id)
    return TransactionState(
        described.error,
        described.transactional_id,
        described.state.value,
        described.timeout_ms,
        described.start_timestamp_ms,
        described.producer_id,
        described.producer_epoch,
        [
            TopicData(topic, [topic_partition.partition for topic_partition in partitions])
            for topic, partitions in groupby(described.partitions, key=lambda topic_partition: topic_partition.topic)
            if broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
        ],
    )
