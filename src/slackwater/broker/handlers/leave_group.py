"""LeaveGroup, v0 to v5.

v0  one member, by its id; its error is the top-level error (LG-01)
v1  throttle time in the response
v3  several members, each by member id or instance id; one error per member and a top-level error
v4  flexible
v5  a reason per member
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse


def handle(broker: BrokerState, context: RequestContext, request: LeaveGroupRequest) -> None:
    """Remove members from a group."""
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, context.version, Error.GROUP_AUTHORIZATION_FAILED))
        return
    if context.version >= 3:
        leavers = [
            messages.LeavingMember(member.member_id, member.group_instance_id, member.reason or None)
            for member in request.members
        ]
    else:
        leavers = [messages.LeavingMember(request.member_id)]

    def on_response(response: messages.LeaveGroupResponse) -> None:
        if context.version >= 3:
            members = [MemberResponse(*member) for member in response.members]
            context.respond(LeaveGroupResponse(error_code=response.error, members=members))
            return
        errors = [response.error, *(member.error for member in response.members)]
        first_error = next((error for error in errors if error is not Error.NONE), Error.NONE)
        context.respond(LeaveGroupResponse(error_code=first_error))

    broker.group_coordinator.submit(messages.LeaveGroup(request.group_id, tuple(leavers)), on_response)


def error_response(request: LeaveGroupRequest, version: int, error: Error) -> LeaveGroupResponse:
    """Report an error."""
    return LeaveGroupResponse(error_code=error)
