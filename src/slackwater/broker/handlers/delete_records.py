"""DeleteRecords, v0 to v2: move the start of a log.

v2  flexible

Offset -1 means the high watermark. Errors are as in Kafka: OFFSET_OUT_OF_RANGE above the high watermark,
POLICY_VIOLATION for a topic with cleanup.policy=compact only, INVALID_TOPIC_EXCEPTION for an internal topic.
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
    """Delete the records before the requested offsets."""
    broker.appends.flush_pending()
    context.respond(
        DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[_delete(broker, topic.name, partition) for partition in topic.partitions],
                )
                for topic in request.topics
            ]
        )
    )


def error_response(request: DeleteRecordsRequest, version: int, error: Error) -> DeleteRecordsResponse:
    """Return the error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_error(partition, error) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(broker: Broker, topic: str, requested: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    partition = broker.topics.partition(topic, requested.partition_index)
    if partition is None:
        return _error(requested, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.topic.is_internal:
        return _error(requested, Error.INVALID_TOPIC_EXCEPTION)
    low_watermark = partition.log.delete_records(requested.offset)
    if isinstance(low_watermark, Rejection):
        return _error(requested, low_watermark.error)
    return DeleteRecordsPartitionResult(partition_index=requested.partition_index, low_watermark=low_watermark)


def _error(requested: DeleteRecordsPartition, error: Error) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=requested.partition_index, low_watermark=-1, error_code=error)
