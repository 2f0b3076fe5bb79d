"""RenewDelegationToken, v1 to v2: always DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in Kafka without security."""

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(broker: Broker, context: RequestContext, request: RenewDelegationTokenRequest) -> None:
    """Respond with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    context.respond(error_response(request, context.version, Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))


def error_response(request: RenewDelegationTokenRequest, version: int, error: Error) -> RenewDelegationTokenResponse:
    """Return a response with only the error."""
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)
