"""OffsetForLeaderEpoch, v2 to v4: the end offset of a leader epoch.

v3  replica id, which is ignored
v4  flexible

There is one leader epoch, and its end is the log end offset. For any other epoch, epoch and offset are -1.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(broker: BrokerState, context: RequestContext, request: OffsetForLeaderEpochRequest) -> None:
    """Return the end offset of every requested epoch."""
    broker.appends.write_pending()
    is_replica = broker.allows_cluster(context, AclOperation.CLUSTER_ACTION)
    context.respond(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=(
                        [_end_offset(broker, topic.topic, partition) for partition in topic.partitions]
                        if is_replica
                        or broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic)
                        else [_error(partition, Error.TOPIC_AUTHORIZATION_FAILED) for partition in topic.partitions]
                    ),
                )
                for topic in request.topics
            ]
        )
    )


def error_response(request: OffsetForLeaderEpochRequest, version: int, error: Error) -> OffsetForLeaderEpochResponse:
    """Return the error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_error(partition, error) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end_offset(broker: BrokerState, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.topics.partition(topic, requested.partition)
    if partition is None:
        return _error(requested, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if error := partition.leader_epoch_error(requested.current_leader_epoch):
        return _error(requested, error)
    if requested.leader_epoch != partition.log.leader_epoch:
        return _error(requested, Error.NONE)
    return EpochEndOffset(
        partition=requested.partition, leader_epoch=requested.leader_epoch, end_offset=partition.log.log_end_offset
    )


def _error(requested: OffsetForLeaderPartition, error: Error) -> EpochEndOffset:
    return EpochEndOffset(partition=requested.partition, error_code=error)
