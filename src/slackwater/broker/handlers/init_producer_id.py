"""InitProducerId, v0 to v5.

v2  flexible
v3  producer id and epoch of a producer that was fenced, which means something only within a transaction (KIP-360)

A producer without a transactional id gets a new id and epoch 0, whatever it had before. Transactions are refused: with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because every client takes that for final, where librdkafka would try any other
error again until its own time is up. The log says what is the matter.
"""

import logging

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger("slackwater.broker")


def handle(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> None:
    """Give a producer its id."""
    if error := _refusal(context, request):
        context.respond(error_response(request, context.version, error))
        return
    try:
        producer_id = broker.producer_ids.allocate()
    except OSError as problem:
        log.error("No producer id could be reserved: %s.", problem.strerror)
        context.respond(error_response(request, context.version, Error.COORDINATOR_NOT_AVAILABLE))
        return
    context.respond(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))


def error_response(request: InitProducerIdRequest, version: int, error: Error) -> InitProducerIdResponse:
    """Nothing but an error."""
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def _refusal(context: RequestContext, request: InitProducerIdRequest) -> Error | None:
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return Error.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return Error.INVALID_REQUEST
    log.warning(
        "Client %s asked for a transaction (transactional.id=%s): this broker has no transactions. "
        "Use a producer without transactional.id.",
        context.client_id,
        request.transactional_id,
    )
    return Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
