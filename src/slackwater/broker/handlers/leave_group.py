"""LeaveGroup, v0 to v5.

v0  one member, by its id; its error is the answer's (LG-01)
v1  throttle time in the answer
v3  a batch of members, each by its id or its instance id; one error each beside the answer's own
v4  flexible
v5  a reason for each
"""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.group.messages import LeaveGroup, LeavingMember
from slackwater.group.messages import LeaveGroupResponse as Left
from slackwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse


def handle(broker: Broker, context: RequestContext, request: LeaveGroupRequest) -> None:
    """Members leave."""
    if context.version >= 3:
        leavers = [LeavingMember(one.member_id, one.group_instance_id, one.reason or None) for one in request.members]
    else:
        leavers = [LeavingMember(request.member_id)]

    def on_response(answer: Left) -> None:
        if context.version >= 3:
            members = [MemberResponse(*member) for member in answer.members]
            context.respond(LeaveGroupResponse(error_code=answer.error, members=members))
            return
        errors = [answer.error, *(member.error for member in answer.members)]
        context.respond(
            LeaveGroupResponse(error_code=next((one for one in errors if one is not Error.NONE), Error.NONE))
        )

    broker.groups.submit(LeaveGroup(request.group_id, tuple(leavers)), on_response)


def error_response(request: LeaveGroupRequest, version: int, error: Error) -> LeaveGroupResponse:
    """Nothing but an error."""
    return LeaveGroupResponse(error_code=error)
