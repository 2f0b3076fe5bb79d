"""ElectLeaders, v0 to v2: this broker leads all partitions.

v0   the preferred leader only
v1   election type: preferred (0) or unclean (1); an error for the whole response (KIP-460)
"""

from typing import Final

from slackwater.broker.authorization import needs
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_TYPES: Final = (0, 1)


def handle(broker: BrokerState, context: RequestContext, request: ElectLeadersRequest) -> None:
    """Return ELECTION_NOT_NEEDED for every partition."""
    if not broker.allows_cluster(context, AclOperation.ALTER):
        denied, message = Error.CLUSTER_AUTHORIZATION_FAILED, needs(AclOperation.ALTER)
        context.respond(_error_for_all(request, context.version, denied, message))
        return
    if request.topic_partitions is None:
        # As in Kafka, a request for all topics omits the partitions that need no election, but not their topics.
        results = [ReplicaElectionResult(topic.name) for topic in broker.topics]
        context.respond(ElectLeadersResponse(replica_election_results=results))
    elif request.election_type not in _TYPES:
        message = f"Unknown election type {request.election_type}"
        context.respond(_error_for_all(request, context.version, Error.INVALID_REQUEST, message))
    else:
        results = [
            ReplicaElectionResult(
                requested.topic, [_partition(broker, requested.topic, index) for index in requested.partitions]
            )
            for requested in request.topic_partitions
        ]
        context.respond(ElectLeadersResponse(replica_election_results=results))


def error_response(request: ElectLeadersRequest, version: int, error: Error) -> ElectLeadersResponse:
    """Return the error for every partition, and from v1 for the whole response."""
    return _error_for_all(request, version, error, None)


def _partition(broker: BrokerState, topic: str, index: int) -> PartitionResult:
    if broker.topics.get(topic) is None:
        return PartitionResult(index, Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if broker.topics.partition(topic, index) is None:
        return PartitionResult(index, Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    return PartitionResult(index, Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def _error_for_all(
    request: ElectLeadersRequest, version: int, error: Error, message: str | None
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error if version >= 1 else Error.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                requested.topic, [PartitionResult(index, error, message) for index in requested.partitions]
            )
            for requested in request.topic_partitions or ()
        ],
    )
