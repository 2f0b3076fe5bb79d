"""SaslAuthenticate, v0 to v2: always ILLEGAL_SASL_STATE, as on a listener of Kafka without SASL."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(broker: Broker, context: RequestContext, request: SaslAuthenticateRequest) -> None:
    """Respond with ILLEGAL_SASL_STATE."""
    message = "SaslAuthenticate request received after successful authentication"
    context.respond(SaslAuthenticateResponse(error_code=Error.ILLEGAL_SASL_STATE, error_message=message))


def error_response(request: SaslAuthenticateRequest, version: int, error: Error) -> SaslAuthenticateResponse:
    """Return a response with only the error."""
    return SaslAuthenticateResponse(error_code=error, error_message=None)
