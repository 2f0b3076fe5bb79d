"""AddPartitionsToTxn, v0 to v5: always INVALID_PRODUCER_ID_MAPPING, as in Kafka for an unknown transactional id.

v4   several transactions at once
"""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)


def handle(broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest) -> None:
    """Respond with INVALID_PRODUCER_ID_MAPPING for every partition."""
    error = Error.INVALID_PRODUCER_ID_MAPPING
    context.respond(
        AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transaction.transactional_id, _results(transaction.topics, error))
                for transaction in request.transactions
            ],
            results_by_topic_v3_and_below=_results(request.v3_and_below_topics, error),
        )
    )


def error_response(request: AddPartitionsToTxnRequest, version: int, error: Error) -> AddPartitionsToTxnResponse:
    """Return the error, in older versions for every partition."""
    return AddPartitionsToTxnResponse(
        error_code=error, results_by_topic_v3_and_below=_results(request.v3_and_below_topics, error)
    )


def _results(topics: list[AddPartitionsToTxnTopic], error: Error) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name, [AddPartitionsToTxnPartitionResult(partition, error) for partition in topic.partitions]
        )
        for topic in topics
    ]
