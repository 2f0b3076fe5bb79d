"""Heartbeat, v0 to v4.

v1  throttle time in the response
v3  instance id
v4  flexible

Heartbeats are the most frequent request and have few different responses, so each response is encoded once.
"""

from functools import cache

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.request_response import PreencodedResponse


def handle(broker: BrokerState, context: RequestContext, request: HeartbeatRequest) -> None:
    """Extend a member's session."""
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, context.version, Error.GROUP_AUTHORIZATION_FAILED))
        return

    def on_response(response: messages.HeartbeatResponse) -> None:
        context.respond_encoded(_encoded(response.error, context.version).frame(context.correlation_id))

    broker.group_coordinator.submit(
        messages.Heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id),
        on_response,
    )


def error_response(request: HeartbeatRequest, version: int, error: Error) -> HeartbeatResponse:
    """Report an error."""
    return HeartbeatResponse(error_code=error)


@cache
def _encoded(error: Error, version: int) -> PreencodedResponse:
    return PreencodedResponse(HeartbeatResponse(error_code=error), version)
