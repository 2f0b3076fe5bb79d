"""DescribeGroups, v0 to v6.

v1  throttle time in the response
v3  authorized operations, if requested; of groups without an error
v4  instance id of each member in the response
v5  flexible
v6  a group that does not exist is GROUP_ID_NOT_FOUND, with a message; before, it is Dead without an error (AD-01)
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.group.messages import DescribedGroup as Group
from slackwater.group.messages import DescribeGroups
from slackwater.group.messages import DescribeGroupsResponse as Described
from slackwater.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_REQUESTED: Final = -(2**31)
# Authorized operations as bits: read, delete, describe, describe configs, alter configs. There are no ACLs.
ALL_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def handle(broker: Broker, context: RequestContext, request: DescribeGroupsRequest) -> None:
    """Describe the state and members of groups."""
    broker.events.write()  # the events up to this state are readable in `__group_events`
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED

    def on_response(answer: Described) -> None:
        context.respond(DescribeGroupsResponse(groups=[_group(group, operations) for group in answer.groups]))

    broker.groups.submit(DescribeGroups(tuple(request.groups), reports_missing_group=context.version >= 6), on_response)


def error_response(request: DescribeGroupsRequest, version: int, error: Error) -> DescribeGroupsResponse:
    """Return the error for every group."""
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=error, group_id=group) for group in request.groups])


def _group(group: Group, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id or "",
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[DescribedGroupMember(*member) for member in group.members],
        authorized_operations=operations if group.error is Error.NONE else NOT_REQUESTED,
    )
