"""EndTxn, v0 to v5: always INVALID_PRODUCER_ID_MAPPING, as in Kafka for an unknown transactional id."""

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(broker: Broker, context: RequestContext, request: EndTxnRequest) -> None:
    """Respond with INVALID_PRODUCER_ID_MAPPING."""
    if not broker.allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
        context.respond(error_response(request, context.version, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    context.respond(error_response(request, context.version, Error.INVALID_PRODUCER_ID_MAPPING))


def error_response(request: EndTxnRequest, version: int, error: Error) -> EndTxnResponse:
    """Return a response with only the error."""
    return EndTxnResponse(error_code=error)
