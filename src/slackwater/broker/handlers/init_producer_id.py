"""InitProducerId, v0 to v5.

v2  flexible
v3  producer id and epoch of a producer that continues after an error (KIP-360)
v4  PRODUCER_FENCED; in older versions it is INVALID_PRODUCER_EPOCH

A producer without a transactional id always gets a new id and epoch 0.
"""

from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.producer_ids import RESERVE_FAILED
from slackwater.broker.transactions.client_errors import client_error
from slackwater.escaping import get_logger
from slackwater.group.errors import Error
from slackwater.group.transactions.messages import InitProducerId
from slackwater.group.transactions.messages import InitProducerIdResponse as Initialized
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = get_logger("slackwater.broker")
_FENCED_SINCE: Final = 4


def handle(broker: BrokerState, context: RequestContext, request: InitProducerIdRequest) -> None:
    """Allocate a producer id, or ask the transaction coordinator for one."""
    if error := _find_error(broker, context, request):
        context.respond(error_response(request, context.version, error))
    elif request.transactional_id is None:
        context.respond(_allocate(broker, request, context.version))
    else:

        def on_response(response: Initialized) -> None:
            context.respond(
                InitProducerIdResponse(
                    error_code=client_error(response.error, context.version, _FENCED_SINCE),
                    producer_id=response.producer_id,
                    producer_epoch=response.producer_epoch,
                )
            )

        broker.transaction_coordinator.submit(
            InitProducerId(
                request.transactional_id,
                request.transaction_timeout_ms,
                request.producer_id,
                request.producer_epoch,
            ),
            on_response,
        )


def _allocate(broker: BrokerState, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
    try:
        producer_id = broker.producer_ids.allocate()
    except OSError as problem:
        log.error(RESERVE_FAILED, problem.strerror)
        return error_response(request, version, Error.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def error_response(request: InitProducerIdRequest, version: int, error: Error) -> InitProducerIdResponse:
    """Return a response with only the error."""
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def _find_error(broker: BrokerState, context: RequestContext, request: InitProducerIdRequest) -> Error | None:
    transactional_id = request.transactional_id
    if transactional_id is None:
        if not broker.allows_idempotent_writes(context):
            return Error.CLUSTER_AUTHORIZATION_FAILED
    elif not broker.allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        return Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return Error.INVALID_REQUEST
    return None
