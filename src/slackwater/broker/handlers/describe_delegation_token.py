"""DescribeDelegationToken, v1 to v3: always DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in Kafka without security."""

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(broker: Broker, context: RequestContext, request: DescribeDelegationTokenRequest) -> None:
    """Respond with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    context.respond(error_response(request, context.version, Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))


def error_response(
    request: DescribeDelegationTokenRequest, version: int, error: Error
) -> DescribeDelegationTokenResponse:
    """Return a response with only the error."""
    return DescribeDelegationTokenResponse(error_code=error)
