"""JoinGroup, v0 to v9.

v0  no rebalance timeout: the session timeout is used (JG-27)
v1  rebalance timeout
v2  throttle time in the answer
v4  a dynamic member without an id is told MEMBER_ID_REQUIRED, and its new id (JG-08); before, it is a member at once
    (JG-07)
v5  instance id: static members (JG-13)
v6  flexible
v7  protocol type in the answer; the protocol name may be null, before it is "" (JG-50)
v8  reason (JG-51)
v9  skip_assignment in the answer: a static leader that returns keeps the lead (JG-42, JG-43)
"""

from dataclasses import replace
from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.uuids import random_uuid
from slackwater.group.errors import Error
from slackwater.group.messages import NO_MEMBER, JoinGroup, JoinProtocol
from slackwater.group.messages import JoinGroupResponse as Joined
from slackwater.wire.envelope import AnswersAlike
from slackwater.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)

# The protocols of the last request, as they were read and as the core has them: a crowd shares one list (`wire.alike`).
_last_protocols: tuple[list[JoinGroupRequestProtocol], tuple[JoinProtocol, ...]] = ([], ())
_alike: Final = AnswersAlike("member_id")  # what members on_response that are no leaders


def handle(broker: Broker, context: RequestContext, request: JoinGroupRequest) -> None:
    """A member joins; it is answered when the generation is complete."""
    version = context.version

    def on_response(answer: Joined) -> None:
        if answer.members:
            context.respond(_response(answer, version))
            return
        said = (
            version,
            answer.error,
            answer.generation_id,
            answer.protocol_type,
            answer.protocol_name,
            answer.leader,
            answer.skip_assignment,
        )
        alike = _alike.get(said) or _alike.learn(
            said, _response(replace(answer, member_id=NO_MEMBER), version), version
        )
        context.respond_encoded(alike.frame(context.correlation_id, answer.member_id.encode()))

    # By place: naming thirteen fields costs as much as reading them from the wire.
    broker.groups.submit(
        JoinGroup(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            _protocols(request.protocols),
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            context.client_id or "",
            context.connection.host,
            "" if request.member_id else random_uuid(),  # who has an id needs no other
            request.reason or None,
            version >= 4,  # requires_known_member_id
            version >= 9,  # supports_skipping_assignment
        ),
        on_response,
    )


def _response(answer: Joined, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        0,
        answer.error,
        answer.generation_id,
        answer.protocol_type,
        _protocol_name(answer.protocol_name, version),
        answer.leader,
        answer.skip_assignment,
        answer.member_id,
        list(answer.members),  # type: ignore[arg-type]  # they have the same fields, and there may be thousands
    )


def error_response(request: JoinGroupRequest, version: int, error: Error) -> JoinGroupResponse:
    """Nothing but an error."""
    return JoinGroupResponse(error_code=error, protocol_name=_protocol_name(None, version))


def _protocol_name(name: str | None, version: int) -> str | None:
    return name or (None if version >= 7 else "")


def _protocols(read: list[JoinGroupRequestProtocol]) -> tuple[JoinProtocol, ...]:
    global _last_protocols  # one assignment, so that brokers in several threads may share it
    known, protocols = _last_protocols
    if known is not read:
        protocols = tuple([JoinProtocol(protocol.name, protocol.metadata) for protocol in read])
        _last_protocols = (read, protocols)
    return protocols
