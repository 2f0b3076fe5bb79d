"""AlterReplicaLogDirs, v1 to v2: the data directory is the only one.

A partition may be moved to the directory where it is. Any other directory is LOG_DIR_NOT_FOUND.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(broker: BrokerState, context: RequestContext, request: AlterReplicaLogDirsRequest) -> None:
    """Respond with the result for each partition; nothing moves."""
    if not broker.allows_cluster(context, AclOperation.ALTER):
        context.respond(error_response(request, context.version, Error.CLUSTER_AUTHORIZATION_FAILED))
        return
    own = str(broker.directory.path.absolute())
    errors = {
        (topic.name, partition): _find_error(broker, topic.name, partition) if directory.path == own else _OTHER
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    context.respond(_response(errors))


def error_response(request: AlterReplicaLogDirsRequest, version: int, error: Error) -> AlterReplicaLogDirsResponse:
    """Return the error for every partition."""
    return _response(
        {
            (topic.name, partition): error
            for directory in request.dirs
            for topic in directory.topics
            for partition in topic.partitions
        }
    )


_OTHER = Error.LOG_DIR_NOT_FOUND


def _find_error(broker: BrokerState, name: str, partition: int) -> Error:
    topic = broker.topics.get(name)
    exists = topic is not None and 0 <= partition < len(topic.partitions)
    return Error.NONE if exists else Error.UNKNOWN_TOPIC_OR_PARTITION


def _response(errors: dict[tuple[str, int], Error]) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, partition), error in errors.items():
        topic = results.setdefault(name, AlterReplicaLogDirTopicResult(name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition, error))
    return AlterReplicaLogDirsResponse(results=list(results.values()))
