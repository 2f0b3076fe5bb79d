"""CreateDelegationToken, v1 to v3: refused, see `delegation_tokens`.

v3   the user who requested the token
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.connection import ANONYMOUS
from slackwater.broker.handlers.delegation_tokens import refusal, time_of
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse


def handle(broker: BrokerState, context: RequestContext, request: CreateDelegationTokenRequest) -> None:
    """Refuse the request."""
    context.respond(_refused(refusal(context), context.version, context.principal))


def error_response(request: CreateDelegationTokenRequest, version: int, error: Error) -> CreateDelegationTokenResponse:
    """Return a response with only the error."""
    return _refused(error, version, ANONYMOUS)


def _refused(error: Error, version: int, principal: str) -> CreateDelegationTokenResponse:
    kind, _, name = principal.partition(":")
    requester = (kind, name) if version >= 3 else ("", "")
    time_ms = time_of(error)
    return CreateDelegationTokenResponse(error, kind, name, *requester, time_ms, time_ms, time_ms)
