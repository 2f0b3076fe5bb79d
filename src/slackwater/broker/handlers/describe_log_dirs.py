"""DescribeLogDirs, v1 to v5: the data directory and the sizes of its partitions.

v3   an error for the whole response
v4   total and free bytes of the volume (KIP-827)
v5   whether the directory is cordoned (always false)
"""

import os

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import Topic
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(broker: BrokerState, context: RequestContext, request: DescribeLogDirsRequest) -> None:
    """Describe the sizes of the requested partitions; unknown ones are omitted."""
    if not broker.allows_cluster(context, AclOperation.DESCRIBE):
        context.respond(error_response(request, context.version, Error.CLUSTER_AUTHORIZATION_FAILED))
        return
    path = broker.directory.path.absolute()
    total, usable = _volume_bytes(str(path))
    if request.topics is None:
        described = [_sizes(topic, range(len(topic.partitions))) for topic in broker.topics]
    else:
        described = [
            _sizes(topic, [index for index in requested.partitions if 0 <= index < len(topic.partitions)])
            for requested in request.topics
            if (topic := broker.topics.get(requested.topic)) is not None
        ]
    result = DescribeLogDirsResult(
        Error.NONE, str(path), [topic for topic in described if topic.partitions], total, usable
    )
    context.respond(DescribeLogDirsResponse(results=[result]))


def error_response(request: DescribeLogDirsRequest, version: int, error: Error) -> DescribeLogDirsResponse:
    """Return a response with only the error."""
    return DescribeLogDirsResponse(error_code=error)


def _volume_bytes(path: str) -> tuple[int, int]:
    try:
        volume = os.statvfs(path)
    except OSError:
        return -1, -1
    return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def _sizes(topic: Topic, indexes: range | list[int]) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        topic.name, [DescribeLogDirsPartition(index, topic.partitions[index].log.size) for index in indexes]
    )
