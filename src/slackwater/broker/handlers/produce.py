"""Produce, v3 to v13.

v3   the oldest that Kafka 4 takes
v5   log start offset
v7   zstd; in an older version it is UNSUPPORTED_COMPRESSION_TYPE
v8   which records were at fault, and a message (KIP-467)
v9   flexible
v13  topic ids; one that is unknown is UNKNOWN_TOPIC_ID

There is one replica, so acks=1 and acks=all are the same. With acks=0 there is no answer, and an error closes the
connection: that is how such a client hears of it. A partition's records are exactly one batch of magic 2, else
INVALID_RECORD. The broker's own topics take nothing from clients: INVALID_TOPIC_EXCEPTION.
"""

from collections.abc import Callable
from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import EVENTS_TOPIC, Partition, Topic
from slackwater.group.errors import Error
from slackwater.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from slackwater.wire.records.batch import ATTRIBUTES_AT, CODEC_MASK, LENGTH_ENDS_AT, MAGIC, MAGIC_ENDS_AT
from slackwater.wire.records.compression import Buffer, Codec

_IDS_SINCE: Final = 13
_ZSTD_SINCE: Final = 7
_ACKS: Final = (-1, 0, 1)
_LEAST_LENGTH: Final = 14  # Kafka takes anything shorter for damage, not for the beginning of a batch
# With these Kafka does not say where the log starts.
_WITHOUT_LOG_START: Final = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.MESSAGE_TOO_LARGE,
        Error.RECORD_LIST_TOO_LARGE,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
    }
)


class _Produce:
    """One request: the answer to be, and how many partitions it still waits for."""

    __slots__ = ("_acks", "_context", "_failed", "_open", "_response")

    def __init__(self, context: RequestContext, acks: int, response: ProduceResponse) -> None:
        self._context = context
        self._acks = acks
        self._response = response
        self._open = 1  # the handler itself
        self._failed = False

    def wait(self, partition: Partition, row: PartitionProduceResponse) -> Callable[[AppendInfo | Rejection], None]:
        """What to tell the outcome for one partition."""
        self._open += 1

        def on_response(outcome: AppendInfo | Rejection) -> None:
            if isinstance(outcome, AppendInfo):
                row.base_offset, _, row.log_append_time_ms, row.log_start_offset, _ = outcome
            else:
                self.refuse(row, outcome)
                if outcome.error not in _WITHOUT_LOG_START:
                    row.log_start_offset = partition.log.log_start_offset
            self.settle()

        return on_response

    def refuse(self, row: PartitionProduceResponse, why: Rejection) -> None:
        """This partition took nothing."""
        self._failed = True
        row.error_code = why.error
        row.error_message = why.message or None
        row.base_offset = -1
        row.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why.message) for index in why.records
        ]

    def settle(self) -> None:
        """One less to wait for; the last one answers."""
        self._open -= 1
        if self._open:
            return
        if self._acks:
            self._context.respond(self._response)
            return
        self._context.skip_response()
        if self._failed:
            self._context.connection.close()


def handle(broker: Broker, context: RequestContext, request: ProduceRequest) -> None:
    """Append every batch, and answer when all count."""
    response = ProduceResponse()
    produce = _Produce(context, request.acks, response)
    for data in request.topic_data:
        topic = _topic(broker, data, context.version)
        rows = []
        for asked in data.partition_data:
            row = PartitionProduceResponse(index=asked.index)
            rows.append(row)
            if request.acks not in _ACKS:
                produce.refuse(row, Rejection(Error.INVALID_REQUIRED_ACKS, ""))
                continue
            taken = topic if isinstance(topic, Rejection) else _batch(topic, asked, context.version)
            if isinstance(taken, Rejection):
                produce.refuse(row, taken)
            else:
                partition, batch = taken
                broker.appends.add(partition, batch, produce.wait(partition, row))
        response.responses.append(TopicProduceResponse(data.name, data.topic_id, rows))
    produce.settle()


def error_response(request: ProduceRequest, version: int, error: Error) -> ProduceResponse:
    """The error on every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                data.name,
                data.topic_id,
                [
                    PartitionProduceResponse(index=one.index, error_code=error, base_offset=-1)
                    for one in data.partition_data
                ],
            )
            for data in request.topic_data
        ]
    )


def _topic(broker: Broker, data: TopicProduceData, version: int) -> Topic | Rejection:
    if version >= _IDS_SINCE:
        topic = broker.topics.by_id(data.topic_id)
        if topic is None:
            return Rejection(Error.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    else:
        topic = broker.topics.get(data.name)
        if topic is None:
            return Rejection(Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if topic.is_internal and topic.name != EVENTS_TOPIC:  # members tell their own events there
        return Rejection(Error.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    return topic


def _batch(topic: Topic, asked: PartitionProduceData, version: int) -> tuple[Partition, Buffer] | Rejection:
    """The partition, and the one batch for it; the log looks into it."""
    if not 0 <= asked.index < len(topic.partitions):
        return Rejection(Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    records = asked.records
    size = _first_size(records) if records is not None else 0
    if isinstance(size, Rejection):
        return size
    if not records or not size:
        return _unlike(version, "must have at least one record batch per partition")
    if records[MAGIC_ENDS_AT - 1] != MAGIC:
        return _unlike(version, "are only allowed to contain record batches with magic version 2")
    if version < _ZSTD_SINCE and records[ATTRIBUTES_AT + 1] & CODEC_MASK == Codec.ZSTD:
        why = _unlike(version, "are not allowed to use ZStandard compression")
        return why._replace(error=Error.UNSUPPORTED_COMPRESSION_TYPE)
    if size < len(records):
        # A beginning of another batch is passed over, as Kafka does; a whole one is one too many.
        behind = _first_size(records[size:])
        if isinstance(behind, Rejection):
            return behind
        if behind:
            return _unlike(version, "are only allowed to contain exactly one record batch per partition")
        records = records[:size]
    return topic.partitions[asked.index], records


def _unlike(version: int, what: str) -> Rejection:
    return Rejection(Error.INVALID_RECORD, f"Produce requests with version {version} {what}")


def _first_size(records: Buffer) -> int | Rejection:
    """The bytes of the first batch; 0 if it is not whole."""
    if len(records) < LENGTH_ENDS_AT:
        return 0
    length = int.from_bytes(records[LENGTH_ENDS_AT - 4 : LENGTH_ENDS_AT], "big", signed=True)
    if length < _LEAST_LENGTH:
        message = f"Record size {length} is less than the minimum record overhead ({_LEAST_LENGTH})"
        return Rejection(Error.CORRUPT_MESSAGE, message)
    if len(records) < MAGIC_ENDS_AT:
        return 0
    if records[MAGIC_ENDS_AT - 1] > MAGIC:
        return Rejection(Error.CORRUPT_MESSAGE, f"Invalid magic found in record: {records[MAGIC_ENDS_AT - 1]}")
    size = length + LENGTH_ENDS_AT
    return size if size <= len(records) else 0
