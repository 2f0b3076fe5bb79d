"""FindCoordinator, v0 to v6.

v1  key type: group or transaction; throttle time and error message in the response
v3  flexible
v4  many keys, one result for each
v6  keys of share groups, which this broker does not support: INVALID_REQUEST

This broker coordinates every group. The first request creates the offsets topic and gets COORDINATOR_NOT_AVAILABLE, so
the client retries (CO-05).

Transactions are not supported, and a transactional producer gets CLUSTER_AUTHORIZATION_FAILED: the one error that Java,
librdkafka and franz-go treat as final and for which Java and librdkafka show the message of the response. Sarama
repeats FindCoordinator after every error (`Producer.Transaction.Retry`: 50 times, 100 ms apart) and then reports it.
librdkafka retries INVALID_REQUEST and UNSUPPORTED_VERSION until its own timeout; Java has its own text for
TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from dataclasses import replace
from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1
NO_TRANSACTIONS: Final = (
    "This broker does not support transactions. Remove transactional.id from the producer's configuration. "
    "An idempotent producer works without it."
)
_RIGHTS: Final = {
    GROUP: (AclResourceType.GROUP, Error.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    TRANSACTION: (
        AclResourceType.TRANSACTIONAL_ID,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
log = get_logger("slackwater.broker")


def handle(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> None:
    """Return the coordinator of each key."""
    keys = _keys(request, context.version)
    if request.key_type == TRANSACTION and keys:
        log.warning("Client %s uses transactional.id=%s. %s", context.client_id, ", ".join(keys[:3]), NO_TRANSACTIONS)
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


def _find_error(broker: Broker, key_type: int) -> tuple[Error, str]:
    if key_type == TRANSACTION:
        return Error.CLUSTER_AUTHORIZATION_FAILED, NO_TRANSACTIONS
    if key_type != GROUP:
        return Error.INVALID_REQUEST, f"This broker coordinates only groups, not keys of type {key_type}."
    if broker.topics.get(OFFSETS_TOPIC) is None:
        return Error.COORDINATOR_NOT_AVAILABLE, _create_offsets_topic(broker)
    return Error.NONE, ""


def _create_offsets_topic(broker: Broker) -> str:
    try:
        broker.create_offsets_topic()
    except (OSError, BrokerError) as error:
        return f"Cannot create the topic {OFFSETS_TOPIC}: {error}"
    return f"The topic {OFFSETS_TOPIC} was just created; retry."


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
