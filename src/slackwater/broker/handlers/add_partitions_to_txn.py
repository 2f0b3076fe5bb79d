"""AddPartitionsToTxn, v0 to v5: always INVALID_PRODUCER_ID_MAPPING, as in Kafka for an unknown transactional id.

v4   several transactions in one request
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

_FOR_BROKERS_SINCE: Final = 4


def handle(broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest) -> None:
    """Respond with INVALID_PRODUCER_ID_MAPPING for every partition."""
    error = Error.INVALID_PRODUCER_ID_MAPPING
    if context.version >= _FOR_BROKERS_SINCE:
        if not broker.allows_cluster(context, AclOperation.CLUSTER_ACTION):
            context.respond(error_response(request, context.version, Error.CLUSTER_AUTHORIZATION_FAILED))
            return
    elif not broker.allows(
        context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id
    ):
        denied = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        context.respond(error_response(request, context.version, denied))
        return
    elif any(not broker.allows(context, AclOperation.WRITE, AclResourceType.TOPIC, name) for name in _names(request)):
        context.respond(_denied_topics(broker, context, request))
        return
    context.respond(
        AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transaction.transactional_id, _results(transaction.topics, error))
                for transaction in request.transactions
            ],
            results_by_topic_v3_and_below=_results(request.v3_and_below_topics, error),
        )
    )


def _names(request: AddPartitionsToTxnRequest) -> list[str]:
    return [topic.name for topic in request.v3_and_below_topics]


def _denied_topics(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Return the errors of some topics, and that the others were not attempted."""
    results = []
    for topic in request.v3_and_below_topics:
        error = Error.OPERATION_NOT_ATTEMPTED
        if not broker.allows(context, AclOperation.WRITE, AclResourceType.TOPIC, topic.name):
            error = Error.TOPIC_AUTHORIZATION_FAILED
        elif broker.topics.get(topic.name) is None:
            error = Error.UNKNOWN_TOPIC_OR_PARTITION
        results += _results([topic], error)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


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
