"""ListPartitionReassignments, v0: there are no reassignments."""

from slackwater.broker.authorization import needs
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: ListPartitionReassignmentsRequest) -> None:
    """Return no reassignments."""
    if not broker.allows_cluster(context, AclOperation.DESCRIBE):
        context.respond(
            ListPartitionReassignmentsResponse(
                error_code=Error.CLUSTER_AUTHORIZATION_FAILED, error_message=needs(AclOperation.DESCRIBE)
            )
        )
        return
    context.respond(ListPartitionReassignmentsResponse(error_message=None))


def error_response(
    request: ListPartitionReassignmentsRequest, version: int, error: Error
) -> ListPartitionReassignmentsResponse:
    """Return a response with only the error."""
    return ListPartitionReassignmentsResponse(error_code=error, error_message=None)
