"""ListPartitionReassignments, v0: there are none, ever."""

from slackwater.broker.broker import Node
from slackwater.broker.connection import Call
from slackwater.group.errors import Error
from slackwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(node: Node, call: Call, request: ListPartitionReassignmentsRequest) -> None:
    """None is under way."""
    call.answer(ListPartitionReassignmentsResponse(error_message=None))


def refuse(
    request: ListPartitionReassignmentsRequest, version: int, error: Error
) -> ListPartitionReassignmentsResponse:
    """Nothing but an error."""
    return ListPartitionReassignmentsResponse(error_code=error, error_message=None)
