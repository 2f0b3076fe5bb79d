"""SyncGroup, v0 to v5.

v1  throttle time in the answer
v3  instance id
v4  flexible
v5  protocol type and name, both required (SG-02); both in the answer
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.group.messages import SyncGroup
from slackwater.group.messages import SyncGroupResponse as Synced
from slackwater.wire.envelope import AnswersAlike
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_alike: Final = AnswersAlike("assignment")  # what members on_response


def handle(broker: Broker, context: RequestContext, request: SyncGroupRequest) -> None:
    """A member asks for its assignment; it is answered when the leader has brought it."""
    version = context.version

    def on_response(answer: Synced) -> None:
        said = (version, answer.error, answer.protocol_type, answer.protocol_name)
        alike = _alike.get(said) or _alike.learn(
            said, SyncGroupResponse(0, answer.error, answer.protocol_type, answer.protocol_name), version
        )
        context.respond_encoded(alike.frame(context.correlation_id, answer.assignment))

    broker.groups.submit(
        SyncGroup(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            tuple([(one.member_id, one.assignment) for one in request.assignments]) if request.assignments else (),
            version >= 5,  # requires_protocol
        ),
        on_response,
    )


def error_response(request: SyncGroupRequest, version: int, error: Error) -> SyncGroupResponse:
    """Nothing but an error."""
    return SyncGroupResponse(error_code=error)
