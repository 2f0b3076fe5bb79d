"""AlterPartitionReassignments, v0 to v1: partitions cannot move, because there is one broker.

v1   allow_replication_factor_change, which has no effect: every partition has one replica
"""

from slackwater.broker.authorization import needs
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.replica_assignment import check_replicas
from slackwater.group.errors import BrokerError, Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: AlterPartitionReassignmentsRequest) -> None:
    """Accept assignments to this broker and reject all others."""
    if not broker.allows_cluster(context, AclOperation.ALTER):
        context.respond(_denied(request))
        return
    context.respond(
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=[
                ReassignableTopicResponse(
                    topic.name, [_partition(broker, topic.name, partition) for partition in topic.partitions]
                )
                for topic in request.topics
            ],
        )
    )


def error_response(
    request: AlterPartitionReassignmentsRequest, version: int, error: Error
) -> AlterPartitionReassignmentsResponse:
    """Return a response with only the error."""
    return AlterPartitionReassignmentsResponse(error_code=error, error_message=None)


def _denied(request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    error, message = Error.CLUSTER_AUTHORIZATION_FAILED, needs(AclOperation.ALTER)
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [
                    ReassignablePartitionResponse(partition.partition_index, error, message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _partition(broker: BrokerState, topic: str, requested: ReassignablePartition) -> ReassignablePartitionResponse:
    index = requested.partition_index
    try:
        _check_reassignment(broker, topic, requested)
    except BrokerError as error:
        return ReassignablePartitionResponse(index, error.error, str(error))
    return ReassignablePartitionResponse(index, error_message=None)


def _check_reassignment(broker: BrokerState, topic: str, requested: ReassignablePartition) -> None:
    if broker.topics.get(topic) is None:
        raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    if broker.topics.partition(topic, requested.partition_index) is None:
        raise BrokerError(
            Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{requested.partition_index}."
        )
    if requested.replicas is None:
        raise BrokerError(Error.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    check_replicas(requested.replicas, broker.node_id)
