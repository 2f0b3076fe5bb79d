"""SaslHandshake, v0 to v1: the start of a re-authentication (KIP-368).

The first authentication of a connection does not come here (`broker.authentication.unauthenticated`). As in Kafka:
ILLEGAL_SASL_STATE on a listener without SASL, and if the session has no end; no response to an unknown mechanism. It
needs v1. Until the re-authentication is complete, any other request closes the connection.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(broker: BrokerState, context: RequestContext, request: SaslHandshakeRequest) -> None:
    """Select the mechanism."""
    connection = context.connection
    authentication = connection.authentication
    if authentication is not None and authentication.is_in_progress:
        response = error_response(request, context.version, Error.ILLEGAL_SASL_STATE)
        broker.fail_authentication(context, response, "a second SaslHandshake", authentication.failure_delay_s)
        return
    if authentication is None or context.version == 0 or not authentication.try_start_reauthentication():
        context.respond(error_response(request, context.version, Error.ILLEGAL_SASL_STATE))
        return
    response = authentication.handshake(request, context.version)
    if authentication.failure is None:
        authentication.attach(connection)
        context.respond(response)
    else:
        broker.fail_authentication(context, None, authentication.failure, authentication.failure_delay_s)


def error_response(request: SaslHandshakeRequest, version: int, error: Error) -> SaslHandshakeResponse:
    """Return a response with only the error."""
    return SaslHandshakeResponse(error_code=error)
