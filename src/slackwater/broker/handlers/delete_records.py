"""DeleteRecords, v0 to v2: move the start of a log.

v2  flexible

Offset -1 is the high watermark. Kafka's refusals: OFFSET_OUT_OF_RANGE beyond it, POLICY_VIOLATION where a topic is only
compacted, INVALID_TOPIC_EXCEPTION for the broker's own topics.
"""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error
from slackwater.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(broker: Broker, context: RequestContext, request: DeleteRecordsRequest) -> None:
    """Delete what stands before the offsets."""
    broker.appends.flush_pending()
    context.respond(
        DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=[_delete(broker, topic.name, one) for one in topic.partitions]
                )
                for topic in request.topics
            ]
        )
    )


def error_response(request: DeleteRecordsRequest, version: int, error: Error) -> DeleteRecordsResponse:
    """Return the error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=[_error(one, error) for one in topic.partitions])
            for topic in request.topics
        ]
    )


def _delete(broker: Broker, topic: str, requested: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    partition = broker.topics.partition(topic, requested.partition_index)
    if partition is None:
        return _error(requested, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.topic.is_internal:
        return _error(requested, Error.INVALID_TOPIC_EXCEPTION)
    deleted = partition.log.delete_records(requested.offset)
    if isinstance(deleted, Rejection):
        return _error(requested, deleted.error)
    return DeleteRecordsPartitionResult(partition_index=requested.partition_index, low_watermark=deleted)


def _error(requested: DeleteRecordsPartition, error: Error) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=requested.partition_index, low_watermark=-1, error_code=error)
