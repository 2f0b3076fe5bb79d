"""SyncGroup, v0 to v5.

v1  throttle time in the answer
v3  instance id
v4  flexible
v5  protocol type and name, both required (SG-02); both in the answer
"""

from slackwater.broker.connection import Call
from slackwater.broker.node import Node
from slackwater.group.errors import Error
from slackwater.group.messages import SyncGroup
from slackwater.group.messages import SyncGroupResponse as Synced
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(node: Node, call: Call, request: SyncGroupRequest) -> None:
    """A member asks for its assignment; it is answered when the leader has brought it."""

    def heard(answer: Synced) -> None:
        call.answer(
            SyncGroupResponse(
                error_code=answer.error,
                protocol_type=answer.protocol_type,
                protocol_name=answer.protocol_name,
                assignment=answer.assignment,
            )
        )

    node.groups.ask(
        SyncGroup(
            group_id=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=tuple([(one.member_id, one.assignment) for one in request.assignments]),
            requires_protocol=call.version >= 5,
        ),
        heard,
    )


def refuse(request: SyncGroupRequest, version: int, error: Error) -> SyncGroupResponse:
    """Nothing but an error."""
    return SyncGroupResponse(error_code=error)
