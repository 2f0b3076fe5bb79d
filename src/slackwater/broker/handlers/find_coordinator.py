"""FindCoordinator, v0 to v6.

v1  key type: group or transaction; throttle time and error message in the response
v3  flexible
v4  many keys, one result for each
v6  keys of share groups, which this broker does not support: INVALID_REQUEST

This broker coordinates every group. The first request creates the offsets topic and gets COORDINATOR_NOT_AVAILABLE, so
the client retries (CO-05).

Transactions are not supported, and a transactional producer gets CLUSTER_AUTHORIZATION_FAILED: the one error that Java,
librdkafka, franz-go and Sarama treat as final and for which Java and librdkafka show the message of the response.
librdkafka retries INVALID_REQUEST and UNSUPPORTED_VERSION until its own timeout; Java has its own text for
TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1
NO_TRANSACTIONS: Final = (
    "This broker does not support transactions. Remove transactional.id from the producer's configuration. "
    "An idempotent producer works without it."
)
_NO_COORDINATOR: Final = (-1, "", -1)
log = get_logger("slackwater.broker")


def handle(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> None:
    """Return the coordinator of each key."""
    if context.version >= 4 and not request.coordinator_keys:
        context.respond(FindCoordinatorResponse())
        return
    if request.key_type == TRANSACTION:
        keys = request.coordinator_keys if context.version >= 4 else [request.key]
        log.warning("Client %s uses transactional.id=%s. %s", context.client_id, ", ".join(keys[:3]), NO_TRANSACTIONS)
    error, message = _find_error(broker, request.key_type)
    host, port = broker.address(context)
    coordinator = _NO_COORDINATOR if error is not Error.NONE else (broker.node_id, host, port)
    context.respond(_response(request, context.version, error, message, coordinator))


def error_response(request: FindCoordinatorRequest, version: int, error: Error) -> FindCoordinatorResponse:
    """Return the error for every key."""
    return _response(request, version, error, error.name, _NO_COORDINATOR)


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


def _response(
    request: FindCoordinatorRequest, version: int, error: Error, message: str, coordinator: tuple[int, str, int]
) -> FindCoordinatorResponse:
    node_id, host, port = coordinator
    if version < 4:
        return FindCoordinatorResponse(
            error_code=error,
            error_message=message or error.name,  # Kafka also sends "NONE"
            node_id=node_id,
            host=host,
            port=port,
        )
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key, node_id, host, port, error, message) for key in request.coordinator_keys]
    )
