"""SaslHandshake, v0 to v1: always ILLEGAL_SASL_STATE, as on a listener of Kafka without SASL."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(broker: Broker, context: RequestContext, request: SaslHandshakeRequest) -> None:
    """Respond with ILLEGAL_SASL_STATE."""
    context.respond(error_response(request, context.version, Error.ILLEGAL_SASL_STATE))


def error_response(request: SaslHandshakeRequest, version: int, error: Error) -> SaslHandshakeResponse:
    """Return a response with only the error."""
    return SaslHandshakeResponse(error_code=error)
