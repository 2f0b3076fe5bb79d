"""ExpireDelegationToken, v1 to v2: always DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in Kafka without security."""

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


def handle(broker: Broker, context: RequestContext, request: ExpireDelegationTokenRequest) -> None:
    """Respond with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    context.respond(error_response(request, context.version, Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))


def error_response(request: ExpireDelegationTokenRequest, version: int, error: Error) -> ExpireDelegationTokenResponse:
    """Return a response with only the error."""
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)
