"""SaslAuthenticate, v0 to v2: a re-authentication (KIP-368).

v1  session lifetime
v2  flexible

The first authentication of a connection does not come here (`broker.authentication.unauthenticated`). Without a
SaslHandshake before it: ILLEGAL_SASL_STATE, as in Kafka. A re-authentication keeps principal and mechanism.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(broker: BrokerState, context: RequestContext, request: SaslAuthenticateRequest) -> None:
    """Make one step of the mechanism."""
    connection = context.connection
    authentication = connection.authentication
    if authentication is None or not authentication.is_in_progress:
        message = "SaslAuthenticate request received after successful authentication"
        context.respond(SaslAuthenticateResponse(error_code=Error.ILLEGAL_SASL_STATE, error_message=message))
        return
    response = authentication.authenticate(request.auth_bytes)
    if response is not None and authentication.failure is None:
        authentication.attach(connection)
        context.respond(response)
    else:
        broker.fail_authentication(context, response, authentication.failure or "", authentication.failure_delay_s)


def error_response(request: SaslAuthenticateRequest, version: int, error: Error) -> SaslAuthenticateResponse:
    """Return a response with only the error."""
    return SaslAuthenticateResponse(error_code=error, error_message=None)
