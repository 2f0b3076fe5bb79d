"""JoinGroup, v0 to v9.

v0  no rebalance timeout: the session timeout is used (JG-27)
v1  rebalance timeout
v2  throttle time in the response
v4  a dynamic member without an id gets MEMBER_ID_REQUIRED and its new id (JG-08); before v4 it joins at once (JG-07)
v5  instance id: static members (JG-13)
v6  flexible
v7  protocol type in the response; the protocol name may be null, before v7 it is "" (JG-50)
v8  reason (JG-51)
v9  skip_assignment in the response: a returning static leader stays leader (JG-42, JG-43)

Subscriptions of more than `message.max.bytes` are INVALID_REQUEST. Kafka cannot store such a group: its record would be
too large for the offsets topic.
"""

import uuid

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(broker: BrokerState, context: RequestContext, request: JoinGroupRequest) -> None:
    """Add a member to a group; the response follows when the join phase is complete."""
    version = context.version
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, version, Error.GROUP_AUTHORIZATION_FAILED))
        return
    subscription_bytes = sum([len(protocol.metadata) for protocol in request.protocols])
    if subscription_bytes > broker.settings.number("message.max.bytes"):
        context.respond(error_response(request, version, Error.INVALID_REQUEST))
        return

    def on_response(response: messages.JoinGroupResponse) -> None:
        context.respond(
            JoinGroupResponse(
                0,
                response.error,
                response.generation_id,
                response.protocol_type,
                _protocol_name(response.protocol_name, version),
                response.leader,
                response.skip_assignment,
                response.member_id,
                list(response.members),  # type: ignore[arg-type]  # same fields, and there may be thousands
            )
        )

    # Positional, because fourteen keyword arguments cost as much as decoding them.
    broker.group_coordinator.submit(
        messages.JoinGroup(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            tuple([messages.JoinProtocol(protocol.name, protocol.metadata) for protocol in request.protocols]),
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            context.client_id or "",
            context.connection.host,
            "" if request.member_id else str(uuid.uuid4()),
            request.reason or None,
            version >= 4,  # requires_known_member_id
            version >= 9,  # supports_skipping_assignment
            context.connection.client_software,
        ),
        on_response,
    )


def error_response(request: JoinGroupRequest, version: int, error: Error) -> JoinGroupResponse:
    """Report an error."""
    return JoinGroupResponse(error_code=error, protocol_name=_protocol_name(None, version))


def _protocol_name(name: str | None, version: int) -> str | None:
    return name or (None if version >= 7 else "")
