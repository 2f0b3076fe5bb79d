"""OffsetForLeaderEpoch, v2 to v4: where the records of a leader's epoch end.

v3  replica id, which says whether a consumer asks; here it makes no difference
v4  flexible

There is one leader and one epoch, which ends where the log ends. Of any other epoch nothing is known: -1 and -1.
"""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest) -> None:
    """Tell the end of every epoch asked for."""
    broker.appends.flush_pending()
    context.respond(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic, partitions=[_end(broker, topic.topic, one) for one in topic.partitions]
                )
                for topic in request.topics
            ]
        )
    )


def error_response(request: OffsetForLeaderEpochRequest, version: int, error: Error) -> OffsetForLeaderEpochResponse:
    """Return the error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic=topic.topic, partitions=[_error(one, error) for one in topic.partitions])
            for topic in request.topics
        ]
    )


def _end(broker: Broker, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
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
