"""SyncGroup, v0 to v5.

v1  throttle time in the response
v3  instance id
v4  flexible
v5  protocol type and name: required in the request (SG-02) and part of the response
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(broker: BrokerState, context: RequestContext, request: SyncGroupRequest) -> None:
    """Return a member's assignment; the response follows when the leader has sent the assignments."""
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, context.version, Error.GROUP_AUTHORIZATION_FAILED))
        return

    def on_response(response: messages.SyncGroupResponse) -> None:
        context.respond(
            SyncGroupResponse(0, response.error, response.protocol_type, response.protocol_name, response.assignment)
        )

    broker.group_coordinator.submit(
        messages.SyncGroup(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            tuple([(assignment.member_id, assignment.assignment) for assignment in request.assignments]),
            context.version >= 5,  # requires_protocol
        ),
        on_response,
    )


def error_response(request: SyncGroupRequest, version: int, error: Error) -> SyncGroupResponse:
    """Report an error."""
    return SyncGroupResponse(error_code=error)
