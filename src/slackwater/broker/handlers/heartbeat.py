"""Heartbeat, v0 to v4.

v1  throttle time in the answer
v3  instance id
v4  flexible

Nothing is asked as often as this, and there are few answers to it: they are encoded once.
"""

from functools import cache

from slackwater.broker.connection import Call
from slackwater.broker.node import Node
from slackwater.group.errors import Error
from slackwater.group.messages import Heartbeat
from slackwater.group.messages import HeartbeatResponse as Heard
from slackwater.wire.envelope import FixedAnswer
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(node: Node, call: Call, request: HeartbeatRequest) -> None:
    """A member is alive."""

    def heard(answer: Heard) -> None:
        call.answer_frame(_encoded(answer.error, call.version).frame(call.correlation_id))

    node.groups.ask(
        Heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id), heard
    )


def refuse(request: HeartbeatRequest, version: int, error: Error) -> HeartbeatResponse:
    """Nothing but an error."""
    return HeartbeatResponse(error_code=error)


@cache
def _encoded(error: Error, version: int) -> FixedAnswer:
    return FixedAnswer(HeartbeatResponse(error_code=error), version)
