"""DeleteRecords, v0 to v2: move the start of a log.

v2  flexible

Offset -1 means the high watermark. Errors are as in Kafka: OFFSET_OUT_OF_RANGE above the high watermark,
POLICY_VIOLATION for a topic with cleanup.policy=compact only, INVALID_TOPIC_EXCEPTION for an internal topic.

Partitions are handled in slices, because each change is flushed to disk.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.sliced_handling import handle_in_slices
from slackwater.broker.request_context import RequestContext
from slackwater.broker.slices import Sliced
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(broker: BrokerState, context: RequestContext, request: DeleteRecordsRequest) -> None:
    """Delete the records before the requested offsets."""
    broker.appends.write_pending()
    handle_in_slices(broker, context, request, _delete_all(broker, context, request), error_response)


def _delete_all(broker: BrokerState, context: RequestContext, request: DeleteRecordsRequest) -> Sliced[None]:
    """Delete partition by partition, because each flushes its checkpoint to disk."""
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(_delete(broker, context, topic.name, partition))
            yield None
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    context.respond(DeleteRecordsResponse(topics=topics))


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


def _delete(
    broker: BrokerState, context: RequestContext, topic: str, requested: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    if not broker.allows(context, AclOperation.DELETE, AclResourceType.TOPIC, topic):
        return _error(requested, Error.TOPIC_AUTHORIZATION_FAILED)
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
