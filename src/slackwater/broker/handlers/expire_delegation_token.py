"""ExpireDelegationToken, v1 to v2: refused, see `delegation_tokens`."""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.delegation_tokens import refusal, time_of
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


def handle(broker: BrokerState, context: RequestContext, request: ExpireDelegationTokenRequest) -> None:
    """Refuse the request."""
    context.respond(error_response(request, context.version, refusal(context)))


def error_response(request: ExpireDelegationTokenRequest, version: int, error: Error) -> ExpireDelegationTokenResponse:
    """Return a response with only the error."""
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=time_of(error))
