"""DeleteGroups, v0 to v2.

v2  flexible
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(broker: BrokerState, context: RequestContext, request: DeleteGroupsRequest) -> None:
    """Delete groups and their offsets (AD-04)."""
    denied: dict[str, DeletableGroupResult] = {}
    allowed: list[str] = []
    for name in request.groups_names:
        if broker.allows(context, AclOperation.DELETE, AclResourceType.GROUP, name):
            allowed.append(name)
        else:
            denied[name] = DeletableGroupResult(name, Error.GROUP_AUTHORIZATION_FAILED)

    def on_response(response: messages.DeleteGroupsResponse) -> None:
        results = [DeletableGroupResult(group.group_id or "", group.error) for group in response.groups]
        context.respond(DeleteGroupsResponse(results=[*denied.values(), *results]))

    broker.group_coordinator.submit(messages.DeleteGroups(tuple(allowed)), on_response)


def error_response(request: DeleteGroupsRequest, version: int, error: Error) -> DeleteGroupsResponse:
    """Return the error for every group."""
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, error) for name in request.groups_names])
