"""ListOffsets, v1 to v11: offsets by timestamp.

v2   isolation level: without transactions the last stable offset is the high watermark
v4   leader epochs (KIP-320)
v6   flexible
v7   -3, the record with the newest timestamp
v8   -4, the start of what is on local disk: here, of the log
v9   -5, the last offset in remote storage, of which there is none: -1
v10  a timeout for remote storage, which is not needed
v11  -6, the first offset not in remote storage yet: -1 as well

A special timestamp that the version does not know is UNSUPPORTED_VERSION; a partition that is asked for twice in one
request is INVALID_REQUEST.
"""

from collections import Counter
from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.storage.log.partition_log import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from slackwater.group.errors import Error
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_EARLIEST_PENDING_UPLOAD: Final = -6
_KNOWN_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER: Final = 1 << 15


def handle(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> None:
    """Look up every offset."""
    broker.appends.flush_pending()
    asked = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    context.respond(
        ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        _error(one, Error.INVALID_REQUEST)
                        if asked[topic.name, one.partition_index] > 1
                        else _look_up(broker, topic.name, one, context.version)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    )


def error_response(request: ListOffsetsRequest, version: int, error: Error) -> ListOffsetsResponse:
    """The error on every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=[_error(one, error) for one in topic.partitions])
            for topic in request.topics
        ]
    )


def _look_up(broker: Broker, topic: str, asked: ListOffsetsPartition, version: int) -> ListOffsetsPartitionResponse:
    if asked.timestamp < 0 and version < _KNOWN_SINCE.get(asked.timestamp, _NEVER):
        return _error(asked, Error.UNSUPPORTED_VERSION)
    partition = broker.topics.partition(topic, asked.partition_index)
    if partition is None:
        return _error(asked, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if error := partition.leader_epoch_error(asked.current_leader_epoch):
        return _error(asked, error)
    try:
        found = partition.log.offset_for_timestamp(asked.timestamp)
    except OSError:
        return _error(asked, Error.KAFKA_STORAGE_ERROR)
    if found is None or found.offset < 0:
        return _error(asked, Error.NONE)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=partition.log.leader_epoch if version >= 4 else -1,
    )


def _error(asked: ListOffsetsPartition, error: Error) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
