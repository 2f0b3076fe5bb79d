"""TxnOffsetCommit, v0 to v5: always INVALID_PRODUCER_ID_MAPPING, as in Kafka for an unknown transactional id."""

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def handle(broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest) -> None:
    """Respond with INVALID_PRODUCER_ID_MAPPING for every partition."""
    if not broker.allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
        context.respond(error_response(request, context.version, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, context.version, Error.GROUP_AUTHORIZATION_FAILED))
        return
    response = error_response(request, context.version, Error.INVALID_PRODUCER_ID_MAPPING)
    for topic in response.topics:
        if not broker.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name):
            for partition in topic.partitions:
                partition.error_code = Error.TOPIC_AUTHORIZATION_FAILED
    context.respond(response)


def error_response(request: TxnOffsetCommitRequest, version: int, error: Error) -> TxnOffsetCommitResponse:
    """Return the error for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(partition.partition_index, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )
