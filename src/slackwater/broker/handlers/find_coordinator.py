"""FindCoordinator, v0 to v6.

v1  key type: group or transaction; throttle time and error message in the response
v3  flexible
v4  many keys, one result for each
v6  keys of share groups, which this broker does not support: INVALID_REQUEST

This broker coordinates every group and every transactional id. The first request creates the internal topic and gets
COORDINATOR_NOT_AVAILABLE, so the client retries (CO-05, TX-55).
"""

from dataclasses import replace
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import BrokerError, Error
from slackwater.group.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1
_RIGHTS: Final = {
    GROUP: (AclResourceType.GROUP, Error.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    TRANSACTION: (
        AclResourceType.TRANSACTIONAL_ID,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}


def handle(broker: BrokerState, context: RequestContext, request: FindCoordinatorRequest) -> None:
    """Return the coordinator of each key."""
    keys = _keys(request, context.version)
    resource, denial, denial_message = _RIGHTS.get(request.key_type, (None, Error.NONE, ""))
    allowed = {key for key in keys if resource is None or broker.allows(context, AclOperation.DESCRIBE, resource, key)}
    error, message = _find_error(broker, request.key_type) if allowed else (Error.NONE, "")
    host, port = broker.address(context)
    found = Coordinator("", broker.node_id, host, port, error, message)
    if error is not Error.NONE:
        found = _failed("", error, message)
    denied = _failed("", denial, "" if context.version >= 4 else denial_message)
    context.respond(_response([replace(found if key in allowed else denied, key=key) for key in keys], context.version))


def error_response(request: FindCoordinatorRequest, version: int, error: Error) -> FindCoordinatorResponse:
    """Return the error for every key."""
    return _response([_failed(key, error, error.name) for key in _keys(request, version)], version)


def _keys(request: FindCoordinatorRequest, version: int) -> list[str]:
    return request.coordinator_keys if version >= 4 else [request.key]


def _find_error(broker: BrokerState, key_type: int) -> tuple[Error, str]:
    if key_type == GROUP:
        name, create = OFFSETS_TOPIC, broker.create_offsets_topic
    elif key_type == TRANSACTION:
        name, create = TRANSACTIONS_TOPIC, broker.create_transactions_topic
    else:
        return Error.INVALID_REQUEST, f"This broker coordinates groups and transactions, not keys of type {key_type}."
    if broker.topics.get(name) is not None:
        return Error.NONE, ""
    try:
        create()
    except (OSError, BrokerError) as error:
        return Error.COORDINATOR_NOT_AVAILABLE, f"Cannot create the topic {name}: {error}"
    return Error.COORDINATOR_NOT_AVAILABLE, f"The topic {name} was just created; retry."


def _failed(key: str, error: Error, message: str) -> Coordinator:
    return Coordinator(key, -1, "", -1, error, message)


def _response(coordinators: list[Coordinator], version: int) -> FindCoordinatorResponse:
    if version >= 4:
        return FindCoordinatorResponse(coordinators=coordinators)
    (found,) = coordinators
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or Error(found.error_code).name,  # Kafka also sends "NONE"
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )
