"""The requests of a transactional producer to its coordinators, on the network thread.

Invariants:
- One operation runs at a time. A request is repeated until it succeeds or fails with an error that a retry does not
  solve; the caller may stop waiting for it.
- The coordinator is looked up again when it has moved, and after a lost connection.
- With transaction version 1 the versions of the requests stay below those that KIP-890 changes.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Final, TypeVar

from slackwater.client.errors import NetworkError
from slackwater.client.group_metadata import ConsumerGroupMetadata
from slackwater.client.network.cluster import BrokerNode, Cluster
from slackwater.client.network.coordinators import CoordinatorType, find_coordinator
from slackwater.client.producer.accumulator import ProducerIdAndEpoch
from slackwater.client.producer.transaction_errors import (
    AbortableTransactionError,
    FatalTransactionError,
    TransactionError,
)
from slackwater.client.producer.transaction_states import TransactionManagerState
from slackwater.client.producer.transactions import TransactionManager
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from slackwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from slackwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from slackwater.wire.schema import Request, Response

log = get_logger("slackwater.client.producer")
R = TypeVar("R", bound=Response)
FEATURE: Final = "transaction.version"
# The last versions without KIP-890: the client adds partitions and groups, and a transaction keeps its epoch.
MAX_API_VERSION_IN_TV1: Final[Mapping[type[Request], int]] = {
    AddPartitionsToTxnRequest: 3,  # newer versions are for brokers, also with transaction version 2
    EndTxnRequest: 4,
    TxnOffsetCommitRequest: 4,
}
_MOVED: Final = frozenset({Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.REQUEST_TIMED_OUT})
_CANNOT_ABORT: Final = frozenset({TransactionManagerState.INITIALIZING, TransactionManagerState.ABORTING})
_CONCURRENT_BACKOFF_MS: Final = 20  # the previous transaction is about to complete


class TransactionRequests:
    """Sends the requests of a transactional producer to its coordinators."""

    def __init__(self, cluster: Cluster, manager: TransactionManager, lock: threading.Condition) -> None:
        self._cluster = cluster
        self._manager = manager
        self._lock = lock
        self._serial = asyncio.Lock()
        self._coordinators: dict[tuple[CoordinatorType, str], BrokerNode] = {}
        self.last_failure = ""  # why the request in progress is repeated

    async def init(self) -> None:
        """Get a producer id and epoch; older producers with this transactional id are fenced."""
        async with self._operation():
            producer = await self._init_producer(self._manager.producer)
            with self._lock:
                self._manager.on_initialized(producer, self._cluster_transaction_version())

    async def add_partitions(self) -> None:
        """Add the new partitions to the transaction (transaction version 1)."""
        async with self._operation():
            with self._lock:
                partitions, self._manager.new_partitions = self._manager.new_partitions, set()
            if not partitions:
                return
            producer_id, epoch = self._manager.producer
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._manager.transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(topic, [partition.partition for partition in rows])
                    for topic, rows in groupby(sorted(partitions), lambda partition: partition.topic)
                ],
            )
            await self._request(request, AddPartitionsToTxnResponse, _partition_errors)
            with self._lock:
                self._manager.on_partitions_added(partitions)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Add a group's offsets to the transaction."""
        manager = self._manager
        async with self._operation():
            producer_id, epoch = manager.producer
            if manager.transaction_version == 1 and group.group_id not in manager.groups:
                request = AddOffsetsToTxnRequest(manager.transactional_id, producer_id, epoch, group.group_id)
                await self._request(request, AddOffsetsToTxnResponse, _error_code)
            with self._lock:
                manager.groups.add(group.group_id)
                manager.may_exist_at_coordinator = True
            await self._request(
                TxnOffsetCommitRequest(
                    transactional_id=manager.transactional_id,
                    group_id=group.group_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    generation_id=group.generation_id,
                    member_id=group.member_id,
                    group_instance_id=group.group_instance_id,
                    topics=[
                        TxnOffsetCommitRequestTopic(
                            topic,
                            [
                                TxnOffsetCommitRequestPartition(
                                    partition.partition, offset.offset, offset.leader_epoch, offset.metadata
                                )
                                for partition, offset in rows
                            ],
                        )
                        for topic, rows in groupby(sorted(offsets.items()), lambda item: item[0].topic)
                    ],
                ),
                TxnOffsetCommitResponse,
                _offset_errors,
                coordinator=(CoordinatorType.GROUP, group.group_id),
            )

    async def end(self) -> None:
        """Commit or abort the transaction, depending on its state. All batches were written or dropped."""
        manager = self._manager
        async with self._operation():
            producer, transaction_version = manager.producer, manager.transaction_version
            if manager.may_exist_at_coordinator:
                request = EndTxnRequest(
                    manager.transactional_id, *producer, committed=manager.state is TransactionManagerState.COMMITTING
                )
                response = await self._request(request, EndTxnResponse, _error_code)
                if response.producer_id >= 0:
                    producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            next_version = self._cluster_transaction_version()
            if transaction_version == 1 and (manager.needs_new_epoch or next_version > transaction_version):
                producer = await self._init_producer(producer)
            with self._lock:
                manager.on_ended(producer, next_version)

    # --- internal -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _operation(self) -> AsyncIterator[None]:
        """One operation at a time; its error changes the state."""
        async with self._serial:
            try:
                yield
            except SlackwaterError as error:
                failure = error if isinstance(error, TransactionError) else FatalTransactionError(f"{error}")
                if isinstance(failure, AbortableTransactionError) and self._manager.state in _CANNOT_ABORT:
                    failure = FatalTransactionError(str(failure), failure.error)
                with self._lock:
                    self._manager.fail(failure)
                if failure is error:
                    raise
                raise failure from error

    def _cluster_transaction_version(self) -> int:
        return 2 if self._cluster.finalized_features.get(FEATURE, 0) >= 2 else 1

    async def _init_producer(self, current: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        request = InitProducerIdRequest(self._manager.transactional_id, self._manager.timeout_ms, *current)
        response = await self._request(request, InitProducerIdResponse, _error_code)
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def _request(
        self,
        request: Request,
        response_type: type[R],
        errors: Callable[[R], Iterable[Error]],
        coordinator: tuple[CoordinatorType, str] | None = None,
    ) -> R:
        """Send a request until the coordinator accepts or rejects it."""
        kind, key = coordinator or (CoordinatorType.TRANSACTION, self._manager.transactional_id)
        config = self._cluster.config
        failures = 0
        while True:
            try:
                node = self._coordinators.get((kind, key)) or await find_coordinator(self._cluster, kind, key)
                self._coordinators[kind, key] = node
                connection = await self._cluster.connection_at(node.host, node.port)
                version = connection.version_of(request.API)
                if self._manager.transaction_version == 1:
                    version = min(version, MAX_API_VERSION_IN_TV1.get(type(request), version))
                response = await connection.request(
                    request, response_type, timeout_s=config.request_timeout_ms / 1000, version=version
                )
                error = next((error for error in errors(response) if error is not Error.NONE), Error.NONE)
                failure, message = f"{request.API.name}: {error.name}.", ""
            except NetworkError as lost:
                error, failure, message = Error.NOT_COORDINATOR, str(lost), ""
            except BrokerError as rejected:  # of FindCoordinator
                error, failure, message = rejected.error, str(rejected), str(rejected)
            if error is Error.NONE:
                self.last_failure = ""
                return response
            if not error.retriable:
                raise self._manager.error_of(request.API.name, error, message, principal=self._cluster.principal)
            if self._manager.state is TransactionManagerState.FATAL_ERROR and self._manager.error is not None:
                raise self._manager.error
            if error in _MOVED:
                self._coordinators.pop((kind, key), None)
            self.last_failure = failure
            log.debug("A request of transactional.id %s is repeated: %s", self._manager.transactional_id, failure)
            first_ms = config.retry_backoff_ms
            if error is Error.CONCURRENT_TRANSACTIONS:
                first_ms = min(_CONCURRENT_BACKOFF_MS, first_ms)
            await asyncio.sleep(min(first_ms * 2 ** min(failures, 20), config.retry_backoff_max_ms) / 1000)
            failures += 1


def _error_code(response: InitProducerIdResponse | AddOffsetsToTxnResponse | EndTxnResponse) -> tuple[Error]:
    return (Error(response.error_code),)


def _partition_errors(response: AddPartitionsToTxnResponse) -> list[Error]:
    errors = [
        Error(partition.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    # The partition that was rejected explains more than those that were therefore not attempted.
    return sorted(errors, key=lambda error: error is Error.OPERATION_NOT_ATTEMPTED)


def _offset_errors(response: TxnOffsetCommitResponse) -> list[Error]:
    return [Error(partition.error_code) for topic in response.topics for partition in topic.partitions]
