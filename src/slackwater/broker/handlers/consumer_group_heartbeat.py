"""ConsumerGroupHeartbeat, v0 to v1: always UNSUPPORTED_VERSION, as in Kafka with classic groups only."""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> None:
    """Respond with UNSUPPORTED_VERSION."""
    context.respond(error_response(request, context.version, Error.UNSUPPORTED_VERSION))


def error_response(
    request: ConsumerGroupHeartbeatRequest, version: int, error: Error
) -> ConsumerGroupHeartbeatResponse:
    """Return a response with only the error."""
    return ConsumerGroupHeartbeatResponse(error_code=error)
