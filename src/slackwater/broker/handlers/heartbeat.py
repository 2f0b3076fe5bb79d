"""Heartbeat, v0 to v4.

v1  throttle time in the answer
v3  instance id
v4  flexible
"""

from slackwater.broker.connection import Call
from slackwater.broker.node import Node
from slackwater.group.errors import Error
from slackwater.group.messages import Heartbeat
from slackwater.group.messages import HeartbeatResponse as Heard
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(node: Node, call: Call, request: HeartbeatRequest) -> None:
    """A member is alive."""

    def heard(answer: Heard) -> None:
        call.answer(HeartbeatResponse(error_code=answer.error))

    node.groups.ask(
        Heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id), heard
    )


def refuse(request: HeartbeatRequest, version: int, error: Error) -> HeartbeatResponse:
    """Nothing but an error."""
    return HeartbeatResponse(error_code=error)
