"""ListGroups, v0 to v5.

v1  throttle time in the response
v3  flexible
v4  a filter by state, and the state in the response (AD-03)
v5  a filter by type, and the type in the response
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(broker: BrokerState, context: RequestContext, request: ListGroupsRequest) -> None:
    """List the groups."""
    lists_all = broker.allows_cluster(context, AclOperation.DESCRIBE)

    def on_response(response: messages.ListGroupsResponse) -> None:
        groups = [
            ListedGroup(*group)
            for group in response.groups
            if lists_all or broker.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id)
        ]
        context.respond(ListGroupsResponse(error_code=response.error, groups=groups))

    broker.group_coordinator.submit(
        messages.ListGroups(tuple(request.states_filter), tuple(request.types_filter)), on_response
    )


def error_response(request: ListGroupsRequest, version: int, error: Error) -> ListGroupsResponse:
    """Return a response with only the error."""
    return ListGroupsResponse(error_code=error)
