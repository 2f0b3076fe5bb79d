"""AddOffsetsToTxn, v0 to v4.

v2   PRODUCER_FENCED; in older versions it is INVALID_PRODUCER_EPOCH

The partition of `__consumer_offsets` that stores the group becomes part of the transaction (TX-35).
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.transactions.client_errors import client_error
from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.messages import AddPartitions, AddPartitionsResponse
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(broker: BrokerState, context: RequestContext, request: AddOffsetsToTxnRequest) -> None:
    """Add the group's partition of the offsets topic to the transaction."""
    if not broker.allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
        context.respond(error_response(request, context.version, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, context.version, Error.GROUP_AUTHORIZATION_FAILED))
        return

    def on_response(response: AddPartitionsResponse) -> None:
        context.respond(error_response(request, context.version, client_error(response.error, context.version)))

    topic_partition = TopicPartition(
        OFFSETS_TOPIC, broker.group_coordinator.coordinator.offsets_partition_of(request.group_id)
    )
    broker.transaction_coordinator.submit(
        AddPartitions(
            request.transactional_id, request.producer_id, request.producer_epoch, frozenset({topic_partition})
        ),
        on_response,
    )


def error_response(request: AddOffsetsToTxnRequest, version: int, error: Error) -> AddOffsetsToTxnResponse:
    """Return a response with only the error."""
    return AddOffsetsToTxnResponse(error_code=error)
