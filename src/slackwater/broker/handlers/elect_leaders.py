"""ElectLeaders, v0 to v2: this broker leads all partitions.

v0   the preferred leader only
v1   election type: preferred (0) or unclean (1); an error for the whole response (KIP-460)
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_TYPES: Final = (0, 1)


def handle(broker: Broker, context: RequestContext, request: ElectLeadersRequest) -> None:
    """No election is needed."""
    if request.topic_partitions is None:
        # For a request without topics, Kafka lists the topics without the partitions that need no election.
        results = [ReplicaElectionResult(topic.name) for topic in broker.topics]
        context.respond(ElectLeadersResponse(replica_election_results=results))
    elif request.election_type not in _TYPES:
        context.respond(_every(request, Error.INVALID_REQUEST, f"Unknown election type {request.election_type}"))
    else:
        results = [
            ReplicaElectionResult(one.topic, [_partition(broker, one.topic, index) for index in one.partitions])
            for one in request.topic_partitions
        ]
        context.respond(ElectLeadersResponse(replica_election_results=results))


def error_response(request: ElectLeadersRequest, version: int, error: Error) -> ElectLeadersResponse:
    """Return the error for every partition, and from v1 for the whole response."""
    return _every(request, error, None, on_response=version >= 1)


def _partition(broker: Broker, topic: str, index: int) -> PartitionResult:
    if broker.topics.get(topic) is None:
        return PartitionResult(index, Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if broker.topics.partition(topic, index) is None:
        return PartitionResult(index, Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    return PartitionResult(index, Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def _every(
    request: ElectLeadersRequest, error: Error, message: str | None, *, on_response: bool = True
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error if on_response else Error.NONE,
        replica_election_results=[
            ReplicaElectionResult(one.topic, [PartitionResult(index, error, message) for index in one.partitions])
            for one in request.topic_partitions or ()
        ],
    )
