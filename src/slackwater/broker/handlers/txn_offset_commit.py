"""TxnOffsetCommit, v0 to v5: always INVALID_PRODUCER_ID_MAPPING, as in Kafka for an unknown transactional id."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def handle(broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest) -> None:
    """Respond with INVALID_PRODUCER_ID_MAPPING for every partition."""
    context.respond(error_response(request, context.version, Error.INVALID_PRODUCER_ID_MAPPING))


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
