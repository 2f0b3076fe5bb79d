"""EndTxn, v0 to v5.

v2   PRODUCER_FENCED; in older versions it is INVALID_PRODUCER_EPOCH
v5   transaction version 2: the response has the producer id and epoch of the next transaction (KIP-890)
"""

from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.transactions.client_errors import client_error
from slackwater.group.errors import Error
from slackwater.group.transactions.messages import EndTransaction, EndTransactionResponse
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_BUMPS_EPOCH_SINCE: Final = 5


def handle(broker: BrokerState, context: RequestContext, request: EndTxnRequest) -> None:
    """Commit or abort the transaction."""
    if not broker.allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
        context.respond(error_response(request, context.version, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return

    def on_response(response: EndTransactionResponse) -> None:
        context.respond(
            EndTxnResponse(
                error_code=client_error(response.error, context.version),
                producer_id=response.producer_id,
                producer_epoch=response.producer_epoch,
            )
        )

    broker.transaction_coordinator.submit(
        EndTransaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            bumps_epoch=context.version >= _BUMPS_EPOCH_SINCE,
        ),
        on_response,
    )


def error_response(request: EndTxnRequest, version: int, error: Error) -> EndTxnResponse:
    """Return a response with only the error."""
    return EndTxnResponse(error_code=error)
