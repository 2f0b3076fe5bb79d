"""ListPartitionReassignments, v0: there are none, ever."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest) -> None:
    """None is under way."""
    context.respond(ListPartitionReassignmentsResponse(error_message=None))


def error_response(
    request: ListPartitionReassignmentsRequest, version: int, error: Error
) -> ListPartitionReassignmentsResponse:
    """Nothing but an error."""
    return ListPartitionReassignmentsResponse(error_code=error, error_message=None)
