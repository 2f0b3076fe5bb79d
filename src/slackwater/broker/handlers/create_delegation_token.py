"""CreateDelegationToken, v1 to v3: always DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in Kafka without security.

v3   the user who requested the token
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

_USER: Final = ("User", "ANONYMOUS")


def handle(broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest) -> None:
    """Respond with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    context.respond(error_response(request, context.version, Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))


def error_response(request: CreateDelegationTokenRequest, version: int, error: Error) -> CreateDelegationTokenResponse:
    """Return a response with the error and the user."""
    requester = _USER if version >= 3 else ("", "")
    return CreateDelegationTokenResponse(error, *_USER, *requester, -1, -1, -1)
