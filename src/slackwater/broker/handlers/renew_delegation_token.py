"""RenewDelegationToken, v1 to v2: refused, see `delegation_tokens`."""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.delegation_tokens import refusal, time_of
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(broker: BrokerState, context: RequestContext, request: RenewDelegationTokenRequest) -> None:
    """Refuse the request."""
    context.respond(error_response(request, context.version, refusal(context)))


def error_response(request: RenewDelegationTokenRequest, version: int, error: Error) -> RenewDelegationTokenResponse:
    """Return a response with only the error."""
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=time_of(error))
