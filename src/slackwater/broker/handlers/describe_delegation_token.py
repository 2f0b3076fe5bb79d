"""DescribeDelegationToken, v1 to v3: refused, see `delegation_tokens`."""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.delegation_tokens import refusal
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: DescribeDelegationTokenRequest) -> None:
    """Refuse the request."""
    context.respond(error_response(request, context.version, refusal(context)))


def error_response(
    request: DescribeDelegationTokenRequest, version: int, error: Error
) -> DescribeDelegationTokenResponse:
    """Return a response with only the error."""
    return DescribeDelegationTokenResponse(error_code=error)
