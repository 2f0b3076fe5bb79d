"""AddOffsetsToTxn, v0 to v4: always INVALID_PRODUCER_ID_MAPPING, as in Kafka for an unknown transactional id."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest) -> None:
    """Respond with INVALID_PRODUCER_ID_MAPPING."""
    context.respond(error_response(request, context.version, Error.INVALID_PRODUCER_ID_MAPPING))


def error_response(request: AddOffsetsToTxnRequest, version: int, error: Error) -> AddOffsetsToTxnResponse:
    """Return a response with only the error."""
    return AddOffsetsToTxnResponse(error_code=error)
