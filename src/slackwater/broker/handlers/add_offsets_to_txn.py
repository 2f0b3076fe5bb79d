"""AddOffsetsToTxn, v0 to v4: always INVALID_PRODUCER_ID_MAPPING, as in Kafka for an unknown transactional id."""

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest) -> None:
    """Respond with INVALID_PRODUCER_ID_MAPPING."""
    if not broker.allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
        context.respond(error_response(request, context.version, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, context.version, Error.GROUP_AUTHORIZATION_FAILED))
        return
    context.respond(error_response(request, context.version, Error.INVALID_PRODUCER_ID_MAPPING))


def error_response(request: AddOffsetsToTxnRequest, version: int, error: Error) -> AddOffsetsToTxnResponse:
    """Return a response with only the error."""
    return AddOffsetsToTxnResponse(error_code=error)
