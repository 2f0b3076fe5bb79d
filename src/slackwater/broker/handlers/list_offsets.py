"""ListOffsets, v1 to v11: offsets by timestamp.

v2   isolation level: with read_committed a partition ends at its last stable offset
v4   leader epochs (KIP-320)
v6   flexible
v7   -3, the record with the newest timestamp
v8   -4, the first offset on local disk, which is the log start offset
v9   -5, the last offset in remote storage: -1, because there is no remote storage
v10  a timeout for remote storage, which is ignored
v11  -6, the first offset that is not in remote storage yet: also -1

A special timestamp that the version does not have is UNSUPPORTED_VERSION. A partition that appears twice in a request
is INVALID_REQUEST.

The search for a timestamp runs in slices, because it may have to decompress many batches.
"""

from collections import Counter
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.sliced_handling import handle_in_slices
from slackwater.broker.request_context import RequestContext
from slackwater.broker.slices import Sliced
from slackwater.broker.storage.log.timestamp_search import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from slackwater.group.errors import BrokerError, Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_EARLIEST_PENDING_UPLOAD: Final = -6
_MIN_VERSIONS: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER: Final = 1 << 15
_READ_COMMITTED: Final = 1


def handle(broker: BrokerState, context: RequestContext, request: ListOffsetsRequest) -> None:
    """Look up the offset of every partition."""
    broker.appends.write_pending()
    counts = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )

    committed = request.isolation_level == _READ_COMMITTED

    def look_up() -> Sliced[None]:
        response = ListOffsetsResponse()
        for topic in request.topics:
            rows: list[ListOffsetsPartitionResponse] = []
            response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
            is_allowed = broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name)
            for partition in topic.partitions:
                if not is_allowed:
                    rows.append(_error(partition, Error.TOPIC_AUTHORIZATION_FAILED))
                elif counts[topic.name, partition.partition_index] > 1:
                    rows.append(_error(partition, Error.INVALID_REQUEST))
                else:
                    rows.append((yield from _look_up(broker, topic.name, partition, context, committed=committed)))
                yield None
        context.respond(response)

    handle_in_slices(broker, context, request, look_up(), error_response, is_read_only=True)


def error_response(request: ListOffsetsRequest, version: int, error: Error) -> ListOffsetsResponse:
    """Return the error for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_error(partition, error) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _look_up(
    broker: BrokerState, topic: str, requested: ListOffsetsPartition, context: RequestContext, *, committed: bool
) -> Sliced[ListOffsetsPartitionResponse]:
    version = context.version
    if requested.timestamp < 0 and version < _MIN_VERSIONS.get(requested.timestamp, _NEVER):
        return _error(requested, Error.UNSUPPORTED_VERSION)
    partition = broker.topics.partition(topic, requested.partition_index)
    if partition is None:
        return _error(requested, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if error := partition.leader_epoch_error(requested.current_leader_epoch):
        return _error(requested, error)
    try:
        match = yield from partition.log.search_timestamp(requested.timestamp, committed=committed)
    except OSError:
        return _error(requested, Error.KAFKA_STORAGE_ERROR)
    except BrokerError as failure:
        return _error(requested, failure.error)
    if match is None or match.offset < 0:
        return _error(requested, Error.NONE)
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        timestamp=match.timestamp,
        offset=match.offset,
        leader_epoch=partition.log.leader_epoch if version >= 4 else -1,
    )


def _error(requested: ListOffsetsPartition, error: Error) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=error)
