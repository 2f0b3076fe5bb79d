"""WriteTxnMarkers, v1 and v2: markers from a transaction coordinator, also to internal topics.

v2   the transaction version: since version 2 a marker has a new epoch (KIP-1228)

Several markers of one producer are one result. A client needs ALTER or CLUSTER_ACTION on the cluster.
"""

from collections.abc import Mapping
from functools import partial

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.transactions.interfaces import TxnMarkerEntry
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_Errors = dict[TopicPartition, Error]


def handle(broker: BrokerState, context: RequestContext, request: WriteTxnMarkersRequest) -> None:
    """Write the markers one after another; the response follows when all are written."""
    if not broker.allows_cluster(context, AclOperation.ALTER) and not broker.allows_cluster(
        context, AclOperation.CLUSTER_ACTION
    ):
        context.respond(error_response(request, context.version, Error.CLUSTER_AUTHORIZATION_FAILED))
        return
    results: dict[int, _Errors] = {}
    pending = len(request.markers)
    if not pending:
        context.respond(WriteTxnMarkersResponse())
        return

    def complete_one(producer_id: int, errors: Mapping[TopicPartition, Error]) -> None:
        nonlocal pending
        results.setdefault(producer_id, {}).update(errors)
        pending -= 1
        if not pending:
            context.respond(_response(results))

    for requested in request.markers:
        marker = TxnMarkerEntry(
            requested.producer_id,
            requested.producer_epoch,
            requested.coordinator_epoch,
            requested.transaction_result,
            _partitions(requested),
            requested.transaction_version,
        )
        broker.markers.write([marker], partial(complete_one, requested.producer_id))


def error_response(request: WriteTxnMarkersRequest, version: int, error: Error) -> WriteTxnMarkersResponse:
    """Return the error for every partition."""
    results: dict[int, _Errors] = {}
    for requested in request.markers:
        results.setdefault(requested.producer_id, {}).update(dict.fromkeys(_partitions(requested), error))
    return _response(results)


def _partitions(requested: WritableTxnMarker) -> tuple[TopicPartition, ...]:
    named = [TopicPartition(topic.name, index) for topic in requested.topics for index in topic.partition_indexes]
    return tuple(dict.fromkeys(named))


def _response(results: Mapping[int, _Errors]) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for producer_id, errors in results.items():
        topics: dict[str, WritableTxnMarkerTopicResult] = {}
        for topic_partition, error in errors.items():
            topic = topics.setdefault(topic_partition.topic, WritableTxnMarkerTopicResult(topic_partition.topic))
            topic.partitions.append(WritableTxnMarkerPartitionResult(topic_partition.partition, error))
        response.markers.append(WritableTxnMarkerResult(producer_id, list(topics.values())))
    return response
