"""DescribeGroups, v0 to v6.

v1  throttle time in the response
v3  authorized operations, if requested, of groups without an error
v4  instance id of each member in the response
v5  flexible
v6  a missing group is GROUP_ID_NOT_FOUND with a message; in older versions it is Dead, without an error (AD-01)

A group is described as often as it appears in the request, up to `MAX_REPEATS` times.
"""

from slackwater.broker.authorization import NOT_REQUESTED
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.repeats import limit_repeats
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: DescribeGroupsRequest) -> None:
    """Describe the state and members of groups."""
    broker.events.write()  # the events up to this state are readable in `__group_events`
    allowed: list[str] = []
    denied: list[DescribedGroup] = []
    for group_id in limit_repeats(request.groups, str):
        if broker.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            error = Error.GROUP_AUTHORIZATION_FAILED
            denied.append(DescribedGroup(error_code=error, error_message=None, group_id=group_id))

    def operations(group: messages.DescribedGroup) -> int:
        if group.error is not Error.NONE or not request.include_authorized_operations:
            return NOT_REQUESTED
        return broker.authorized_operations(context, AclResourceType.GROUP, group.group_id or "")

    def on_response(response: messages.DescribeGroupsResponse) -> None:
        described = [_group(group, operations(group)) for group in response.groups]
        context.respond(DescribeGroupsResponse(groups=denied + described))

    broker.group_coordinator.submit(
        messages.DescribeGroups(tuple(allowed), reports_missing_group=context.version >= 6),
        on_response,
    )


def error_response(request: DescribeGroupsRequest, version: int, error: Error) -> DescribeGroupsResponse:
    """Return the error for every group."""
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=error, group_id=group) for group in request.groups])


def _group(group: messages.DescribedGroup, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id or "",
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[DescribedGroupMember(*member) for member in group.members],
        authorized_operations=operations,
    )
