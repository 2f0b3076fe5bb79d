"""Produce, v3 to v13.

v3   the oldest version that Kafka 4 supports
v5   log start offset
v7   zstd; in older versions it is UNSUPPORTED_COMPRESSION_TYPE
v8   the rejected records and an error message (KIP-467)
v9   flexible
v11  TRANSACTION_ABORTABLE; in older versions it is INVALID_TXN_STATE (KIP-890)
v12  the first batch of a partition adds it to the transaction (KIP-890)
v13  topic ids; an unknown id is UNKNOWN_TOPIC_ID

There is one replica, so acks=1 and acks=all are equal. With acks=0 there is no response, and an error closes the
connection so that the client notices it. A partition's records must be exactly one batch of magic 2, otherwise
INVALID_RECORD. Clients cannot write to internal topics: INVALID_TOPIC_EXCEPTION.

Transactional batches need WRITE on the transactional id and one producer id. The transaction coordinator verifies their
partitions first (`transactions.verification`).

Batches are validated in slices, because a small batch may decompress to many records. While that takes more than one
iteration of the event loop, later requests of the connection wait, so that a producer's batches stay in order.
"""

from collections.abc import Callable, Mapping
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.sliced_handling import handle_in_slices
from slackwater.broker.request_context import RequestContext
from slackwater.broker.slices import Sliced
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.validation import Rejection, validate
from slackwater.broker.storage.log.verification import VerificationGuard
from slackwater.broker.storage.topics import Partition, Topic
from slackwater.broker.transactions.verification import BatchToVerify, ClientSupport, verify
from slackwater.group.errors import Error
from slackwater.group.internal_topics import EVENTS_TOPIC
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from slackwater.wire.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    MAGIC,
    MAGIC_ENDS_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from slackwater.wire.records.compression import Buffer, Codec

_TOPIC_IDS_SINCE: Final = 13
_ZSTD_SINCE: Final = 7
_ABORTABLE_SINCE: Final = 11
_ADDS_PARTITIONS_SINCE: Final = 12
_ACKS: Final = (-1, 0, 1)
_MIN_LENGTH: Final = 14  # Kafka treats a shorter batch as corrupt, not as incomplete
# With these errors Kafka does not report the log start offset.
_WITHOUT_LOG_START: Final = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.MESSAGE_TOO_LARGE,
        Error.RECORD_LIST_TOO_LARGE,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
    }
)
# As in Kafka, these errors of a producer's state have no message.
_WITHOUT_MESSAGE: Final = frozenset(
    {Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.INVALID_PRODUCER_EPOCH, Error.INVALID_TXN_STATE}
)
_DENIED: Final = Rejection(Error.TOPIC_AUTHORIZATION_FAILED, "")

_UNVERIFIED: Final = "Unable to verify the partition has been added to the transaction. Underlying error: "
# Older clients repeat a request with NOT_ENOUGH_REPLICAS without asking for metadata.
_RETRIED: Final = frozenset(
    {
        Error.NETWORK_EXCEPTION,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
    }
)

_ReceivedBatch = tuple[Partition, Buffer, PartitionProduceResponse]


class _PendingProduce:
    """One request: its response and the number of partitions without a result."""

    __slots__ = ("_acks", "_context", "_failed", "_pending", "_response")

    def __init__(self, context: RequestContext, acks: int, response: ProduceResponse) -> None:
        self._context = context
        self._acks = acks
        self._response = response
        self._pending = 1  # the handler itself
        self._failed = False

    def on_append(
        self, partition: Partition, row: PartitionProduceResponse
    ) -> Callable[[AppendInfo | Rejection], None]:
        """Return the callback for the result of one partition."""
        self._pending += 1

        def on_result(result: AppendInfo | Rejection) -> None:
            if isinstance(result, AppendInfo):
                row.base_offset, _, row.log_append_time_ms, row.log_start_offset, _ = result
            else:
                self.reject(row, result._replace(message="") if result.error in _WITHOUT_MESSAGE else result)
                if result.error not in _WITHOUT_LOG_START:
                    row.log_start_offset = partition.log.log_start_offset
            self.complete_one()

        return on_result

    def reject(self, row: PartitionProduceResponse, rejection: Rejection) -> None:
        """Report an error on one partition."""
        self._failed = True
        row.error_code = rejection.error
        row.error_message = rejection.message or None
        row.base_offset = -1
        row.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=rejection.message)
            for index in rejection.records
        ]

    def complete_one(self) -> None:
        """Count one result; the last one sends the response."""
        self._pending -= 1
        if self._pending:
            return
        if self._acks:
            self._context.respond(self._response)
            return
        self._context.skip_response()
        if self._failed:
            self._context.connection.close()


def handle(broker: BrokerState, context: RequestContext, request: ProduceRequest) -> None:
    """Append every batch; the response follows when all are written."""
    has_transaction = _has_transactional_records(request)
    if has_transaction and not _may_use_transactional_id(broker, context, request.transactional_id):
        _reject_all(context, request, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return
    response = ProduceResponse()
    produce = _PendingProduce(context, request.acks, response)
    batches: list[_ReceivedBatch] = []
    for data in request.topic_data:
        topic = _find_topic(broker, context, data)
        rows = []
        for requested in data.partition_data:
            row = PartitionProduceResponse(index=requested.index)
            rows.append(row)
            if request.acks not in _ACKS and topic is not _DENIED:
                produce.reject(row, Rejection(Error.INVALID_REQUIRED_ACKS, ""))
                continue
            accepted = topic if isinstance(topic, Rejection) else _find_batch(topic, requested, context.version)
            if isinstance(accepted, Rejection):
                produce.reject(row, accepted)
            else:
                batches.append((*accepted, row))
        response.responses.append(TopicProduceResponse(data.name, data.topic_id, rows))

    if not has_transaction:
        if not handle_in_slices(broker, context, request, _append(broker, produce, batches, {}, {}), error_response):
            context.connection.stop_pipelining()
        return
    transactional = [
        BatchToVerify(partition, header.producer_id, header.producer_epoch, header.base_sequence)
        for partition, records, _ in batches
        if _is_transactional(records) and (header := BatchHeader(records)).has_producer_id
    ]
    if len({(batch.producer_id, batch.producer_epoch) for batch in transactional}) > 1:
        _reject_all(context, request, Error.INVALID_PRODUCER_ID_MAPPING)
        return
    is_done = False

    def append(guards: Mapping[Partition, VerificationGuard | None], errors: Mapping[Partition, Error]) -> None:
        rejections = {partition: _unverified(error, context.version) for partition, error in errors.items()}
        work = _append(broker, produce, batches, guards, rejections)
        nonlocal is_done
        is_done = handle_in_slices(broker, context, request, work, error_response)

    support = ClientSupport(context.version >= _ADDS_PARTITIONS_SINCE, context.version >= _ABORTABLE_SINCE)
    verify(
        broker.transaction_coordinator,
        request.transactional_id or "",
        transactional,
        support,
        broker.clock.now_ms(),
        append,
    )
    if not is_done:
        context.connection.stop_pipelining()


def _append(
    broker: BrokerState,
    produce: _PendingProduce,
    batches: list[_ReceivedBatch],
    guards: Mapping[Partition, VerificationGuard | None],
    rejections: Mapping[Partition, Rejection],
) -> Sliced[None]:
    """Validate the batches one after another, and append those that are valid."""
    for partition, batch, row in batches:
        if (unverified := rejections.get(partition)) is not None:
            produce.reject(row, unverified)
            continue
        rejected = yield from validate(batch, partition.log.config, broker.clock.now_ms())
        if rejected is None and broker.topics.partition(partition.topic.name, partition.index) is not partition:
            rejected = Rejection(Error.UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted.")
        on_result = produce.on_append(partition, row)
        if rejected is None:
            broker.appends.add(partition, batch, on_result, guards.get(partition))
        else:
            on_result(rejected)
        yield None
    produce.complete_one()


def _has_transactional_records(request: ProduceRequest) -> bool:
    return any(
        partition.records is not None and _is_transactional(partition.records)
        for data in request.topic_data
        for partition in data.partition_data
    )


def _is_transactional(records: Buffer) -> bool:
    is_batch = len(records) >= HEADER_BYTES and records[MAGIC_ENDS_AT - 1] == MAGIC
    return is_batch and bool(records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT)


def _may_use_transactional_id(broker: BrokerState, context: RequestContext, transactional_id: str | None) -> bool:
    return transactional_id is not None and broker.allows(
        context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _reject_all(context: RequestContext, request: ProduceRequest, error: Error) -> None:
    """Report an error on every partition; with acks=0 close the connection."""
    if request.acks:
        context.respond(error_response(request, context.version, error))
        return
    context.skip_response()
    context.connection.close()


def _unverified(error: Error, version: int) -> Rejection:
    """Return the error of a partition that is not in the transaction."""
    is_concurrent = error is Error.CONCURRENT_TRANSACTIONS and version < _ADDS_PARTITIONS_SINCE
    if error in _RETRIED or is_concurrent:
        return Rejection(Error.NOT_ENOUGH_REPLICAS, _UNVERIFIED + error.name)
    is_unknown = error is Error.INVALID_TXN_STATE
    return Rejection(error, "Partition was not added to the transaction" if is_unknown else "")


def error_response(request: ProduceRequest, version: int, error: Error) -> ProduceResponse:
    """Report an error on every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                data.name,
                data.topic_id,
                [
                    PartitionProduceResponse(index=partition.index, error_code=error, base_offset=-1)
                    for partition in data.partition_data
                ],
            )
            for data in request.topic_data
        ]
    )


def _find_topic(broker: BrokerState, context: RequestContext, data: TopicProduceData) -> Topic | Rejection:
    by_id = context.version >= _TOPIC_IDS_SINCE
    topic = broker.topics.by_id(data.topic_id) if by_id else broker.topics.get(data.name)
    if topic is None and by_id:
        return Rejection(Error.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if not broker.allows(
        context, AclOperation.WRITE, AclResourceType.TOPIC, data.name if topic is None else topic.name
    ):
        return _DENIED
    if topic is None:
        return Rejection(Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if topic.is_internal and topic.name != EVENTS_TOPIC:  # members publish their events there
        return Rejection(Error.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    return topic


def _find_batch(topic: Topic, requested: PartitionProduceData, version: int) -> tuple[Partition, Buffer] | Rejection:
    """Return the partition and its single batch; the log validates the batch."""
    if not 0 <= requested.index < len(topic.partitions):
        return Rejection(Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    records = requested.records
    size = _first_batch_size(records) if records is not None else 0
    if isinstance(size, Rejection):
        return size
    if not records or not size:
        return _invalid_record(version, "must have at least one record batch per partition")
    if records[MAGIC_ENDS_AT - 1] != MAGIC:
        return _invalid_record(version, "are only allowed to contain record batches with magic version 2")
    if version < _ZSTD_SINCE and records[ATTRIBUTES_AT + 1] & CODEC_MASK == Codec.ZSTD:
        rejection = _invalid_record(version, "are not allowed to use ZStandard compression")
        return rejection._replace(error=Error.UNSUPPORTED_COMPRESSION_TYPE)
    if size < len(records):
        # As in Kafka, the truncated beginning of another batch is ignored; a second complete batch is an error.
        next_size = _first_batch_size(records[size:])
        if isinstance(next_size, Rejection):
            return next_size
        if next_size:
            return _invalid_record(version, "are only allowed to contain exactly one record batch per partition")
        records = records[:size]
    return topic.partitions[requested.index], records


def _invalid_record(version: int, message: str) -> Rejection:
    return Rejection(Error.INVALID_RECORD, f"Produce requests with version {version} {message}")


def _first_batch_size(records: Buffer) -> int | Rejection:
    """Return the size of the first batch; 0 if it is incomplete."""
    if len(records) < LENGTH_ENDS_AT:
        return 0
    length = int.from_bytes(records[LENGTH_ENDS_AT - 4 : LENGTH_ENDS_AT], "big", signed=True)
    if length < _MIN_LENGTH:
        message = f"Record size {length} is less than the minimum record overhead ({_MIN_LENGTH})"
        return Rejection(Error.CORRUPT_MESSAGE, message)
    if len(records) < MAGIC_ENDS_AT:
        return 0
    if records[MAGIC_ENDS_AT - 1] > MAGIC:
        return Rejection(Error.CORRUPT_MESSAGE, f"Invalid magic found in record: {records[MAGIC_ENDS_AT - 1]}")
    size = length + LENGTH_ENDS_AT
    return size if size <= len(records) else 0
