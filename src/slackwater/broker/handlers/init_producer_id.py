"""InitProducerId, v0 to v5.

v2  flexible
v3  producer id and epoch of a fenced producer, which matter only for transactions (KIP-360)

A producer without a transactional id always gets a new id and epoch 0. Transactions are rejected with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because every client treats it as final; librdkafka would retry any other error
until its own timeout. The log has the reason.
"""

from slackwater.broker.broker import Broker
from slackwater.broker.request_context import RequestContext
from slackwater.escaping import get_logger
from slackwater.group.errors import Error
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = get_logger("slackwater.broker")


def handle(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> None:
    """Allocate a producer id."""
    if error := _find_error(broker, context, request):
        context.respond(error_response(request, context.version, error))
        return
    try:
        producer_id = broker.producer_ids.allocate()
    except OSError as problem:
        log.error("Cannot reserve producer ids: %s.", problem.strerror)
        context.respond(error_response(request, context.version, Error.COORDINATOR_NOT_AVAILABLE))
        return
    context.respond(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))


def error_response(request: InitProducerIdRequest, version: int, error: Error) -> InitProducerIdResponse:
    """Return a response with only the error."""
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def _find_error(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> Error | None:
    if request.transactional_id is None and not broker.allows_idempotent_writes(context):
        return Error.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return Error.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return Error.INVALID_REQUEST
    log.warning(
        "Client %s requested a transaction (transactional.id=%s), but this broker does not support transactions. "
        "Use a producer without transactional.id.",
        context.client_id,
        request.transactional_id,
    )
    return Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
