"""AddPartitionsToTxn, v0 to v5.

v2   PRODUCER_FENCED; in older versions it is INVALID_PRODUCER_EPOCH
v4   for brokers: several transactions in one request, or only a check that the partitions are in them (KIP-890)

A partition that may not be added fails the transaction's whole request: the others get OPERATION_NOT_ATTEMPTED (TX-34).
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import INTERNAL
from slackwater.broker.transactions.client_errors import client_error
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.messages import (
    AddPartitions,
    AddPartitionsResponse,
    VerifyPartitions,
    VerifyPartitionsResponse,
)
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_FOR_BROKERS_SINCE: Final = 4
_BROKERS_VERSION: Final = 2  # the transaction version of clients whose partitions brokers add
OnErrors = Callable[[Mapping[TopicPartition, Error]], None]


def handle(broker: BrokerState, context: RequestContext, request: AddPartitionsToTxnRequest) -> None:
    """Add the partitions to the transactions, or check them."""
    if context.version < _FOR_BROKERS_SINCE:
        _handle_client(broker, context, request)
        return
    if not broker.allows_cluster(context, AclOperation.CLUSTER_ACTION):
        context.respond(error_response(request, context.version, Error.CLUSTER_AUTHORIZATION_FAILED))
        return
    results: dict[str, AddPartitionsToTxnResult] = {}
    ids = [transaction.transactional_id for transaction in request.transactions]

    def add_result(transactional_id: str, errors: Mapping[TopicPartition, Error]) -> None:
        results[transactional_id] = AddPartitionsToTxnResult(transactional_id, _topic_results(errors))
        if len(results) == len(set(ids)):
            context.respond(AddPartitionsToTxnResponse(results_by_transaction=[results[each] for each in ids]))

    for transaction in request.transactions:

        def on_errors(
            errors: Mapping[TopicPartition, Error], transactional_id: str = transaction.transactional_id
        ) -> None:
            add_result(transactional_id, errors)

        _add(broker, transaction, _missing(broker, _partitions(transaction.topics)), on_errors, _BROKERS_VERSION)
    if not ids:
        context.respond(AddPartitionsToTxnResponse())


def _handle_client(broker: BrokerState, context: RequestContext, request: AddPartitionsToTxnRequest) -> None:
    transactional_id = request.v3_and_below_transactional_id
    if not broker.allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        context.respond(error_response(request, context.version, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    transaction = AddPartitionsToTxnTransaction(
        transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    partitions = _partitions(transaction.topics)
    denied = {
        name
        for name in {partition.topic for partition in partitions}
        if name in INTERNAL or not broker.allows(context, AclOperation.WRITE, AclResourceType.TOPIC, name)
    }
    rejected = {
        **_missing(broker, partitions),
        **{partition: Error.TOPIC_AUTHORIZATION_FAILED for partition in partitions if partition.topic in denied},
    }

    def on_errors(errors: Mapping[TopicPartition, Error]) -> None:
        final = {partition: client_error(error, context.version) for partition, error in errors.items()}
        context.respond(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(final)))

    _add(broker, transaction, rejected, on_errors, client_version=0)


def _missing(broker: BrokerState, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Error]:
    return {
        partition: Error.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions
        if broker.topics.partition(partition.topic, partition.partition) is None
    }


def _add(
    broker: BrokerState,
    transaction: AddPartitionsToTxnTransaction,
    rejected: Mapping[TopicPartition, Error],
    on_errors: OnErrors,
    client_version: int,
) -> None:
    partitions = _partitions(transaction.topics)
    if rejected:
        on_errors({partition: rejected.get(partition, Error.OPERATION_NOT_ATTEMPTED) for partition in partitions})
        return
    producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    if transaction.verify_only:

        def on_verified(response: VerifyPartitionsResponse) -> None:
            on_errors(response.errors)

        broker.transaction_coordinator.submit(VerifyPartitions(*producer, frozenset(partitions)), on_verified)
        return

    def on_added(response: AddPartitionsResponse) -> None:
        on_errors(dict.fromkeys(partitions, response.error))

    broker.transaction_coordinator.submit(AddPartitions(*producer, frozenset(partitions), client_version), on_added)


def error_response(request: AddPartitionsToTxnRequest, version: int, error: Error) -> AddPartitionsToTxnResponse:
    """Return the error, in older versions for every partition."""
    partitions = _partitions(request.v3_and_below_topics)
    return AddPartitionsToTxnResponse(
        error_code=error, results_by_topic_v3_and_below=_topic_results(dict.fromkeys(partitions, error))
    )


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def _topic_results(errors: Mapping[TopicPartition, Error]) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic,
            [
                AddPartitionsToTxnPartitionResult(topic_partition.partition, errors[topic_partition])
                for topic_partition in partitions
            ],
        )
        for topic, partitions in groupby(sorted(errors), key=lambda topic_partition: topic_partition.topic)
    ]
