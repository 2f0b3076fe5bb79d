"""DeleteGroups, v0 to v2.

v2  flexible
"""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> None:
    """Delete groups and their offsets (AD-04)."""

    def on_response(response: messages.DeleteGroupsResponse) -> None:
        results = [DeletableGroupResult(group.group_id or "", group.error) for group in response.groups]
        context.respond(DeleteGroupsResponse(results=results))

    broker.groups.submit(messages.DeleteGroups(tuple(request.groups_names)), on_response)


def error_response(request: DeleteGroupsRequest, version: int, error: Error) -> DeleteGroupsResponse:
    """Return the error for every group."""
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, error) for name in request.groups_names])
