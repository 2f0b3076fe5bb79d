"""ConsumerGroupDescribe, v0 to v1: always UNSUPPORTED_VERSION, as in Kafka with classic groups only."""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(broker: BrokerState, context: RequestContext, request: ConsumerGroupDescribeRequest) -> None:
    """Respond with UNSUPPORTED_VERSION for every group."""
    context.respond(error_response(request, context.version, Error.UNSUPPORTED_VERSION))


def error_response(request: ConsumerGroupDescribeRequest, version: int, error: Error) -> ConsumerGroupDescribeResponse:
    """Return the error for every group."""
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(error_code=error, group_id=group_id) for group_id in request.group_ids]
    )
