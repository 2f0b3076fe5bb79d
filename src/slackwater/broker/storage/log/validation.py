"""What a producer may append, and Kafka's answer to what it may not.

Rules kept here
- The order of questions is Kafka's: size, then checksum, then content; so is the error for each.
- Records are looked at where the broker would suffer for it later: their lengths always, if they are not compressed;
  keys where the topic is compacted; timestamps where a limit is set that the header cannot answer. Kafka unpacks every
  compressed batch to count its records; here a batch whose header, checksum and sequence are right is stored.
"""

from typing import NamedTuple

from slackwater.broker.storage.log.config import LONG_MAX, LogConfig
from slackwater.broker.storage.log.records import check_lengths, decompress_records, iter_record_views, timestamp_of
from slackwater.group.errors import Error
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import HEADER_BYTES, NO_TIMESTAMP, RecordBatch, TimestampType, check, whole_batches
from slackwater.wire.records.compression import Buffer, Codec


class Rejection(NamedTuple):
    """An append or a read that was not done, and why; `records` are those at fault in the batch, where it is known."""

    error: Error
    message: str
    records: tuple[int, ...] = ()


def split(buffer: Buffer) -> list[RecordBatch] | Rejection:
    """The batches in the bytes of a produce request."""
    try:
        if len(buffer) >= HEADER_BYTES and (only := RecordBatch(buffer)).size == len(buffer):
            return [only]
        batches = list(whole_batches(buffer))
    except WireError as error:
        return Rejection(Error.CORRUPT_MESSAGE, str(error))
    if not batches:
        return Rejection(Error.INVALID_RECORD, "There is no record batch.")
    return batches


def refusal(batch: RecordBatch, config: LogConfig, now_ms: int) -> Rejection | None:
    """Why a client may not append this batch, or None if it may."""
    if batch.size > config.max_message_bytes:
        return Rejection(
            Error.MESSAGE_TOO_LARGE,
            f"The record batch takes {batch.size} bytes; max.message.bytes is {config.max_message_bytes}.",
        )
    try:
        check(batch)
    except WireError as error:
        return Rejection(Error.CORRUPT_MESSAGE, str(error))
    if wrong := _wrong_header(batch):
        return Rejection(Error.INVALID_RECORD, str(batch.wrong(wrong)))
    if batch.is_transactional:
        return Rejection(
            Error.INVALID_TXN_STATE, "This broker has no transactions: use a producer without transactional.id."
        )
    if refused := _wrong_timestamp(batch, config, now_ms):
        return refused
    return _wrong_records(batch, config, now_ms)


def _wrong_header(batch: RecordBatch) -> str | None:
    if batch.record_count == 0:
        return "it holds no records"
    if batch.last_offset_delta + 1 != batch.record_count:
        return f"it announces {batch.record_count} records over {batch.last_offset_delta + 1} offsets"
    if batch.is_control:
        return "it is a control batch, which clients may not write"
    if batch.has_producer_id and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        return f"its sequence is {batch.base_sequence} in epoch {batch.producer_epoch}; both begin at 0"
    return None


def _wrong_timestamp(batch: RecordBatch, config: LogConfig, now_ms: int) -> Rejection | None:
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return Rejection(Error.INVALID_TIMESTAMP, "A producer may not set the timestamp type LogAppendTime.")
    elif batch.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        return Rejection(
            Error.INVALID_TIMESTAMP,
            f"Timestamp {batch.max_timestamp} is more than {config.message_timestamp_after_max_ms} ms "
            f"(message.timestamp.after.max.ms) after the broker's clock, {now_ms}.",
        )
    return None


def _wrong_records(batch: RecordBatch, config: LogConfig, now_ms: int) -> Rejection | None:
    before_ms = LONG_MAX
    if config.message_timestamp_type is TimestampType.CREATE_TIME:
        before_ms = config.message_timestamp_before_max_ms
    try:
        if not config.compacts and before_ms == LONG_MAX:
            if batch.codec is Codec.NONE:
                check_lengths(batch)
            return None
        unkeyed: list[int] = []
        late: list[tuple[int, int]] = []
        for number, record in enumerate(iter_record_views(batch, decompress_records(batch))):
            if record.offset_delta != number:
                return Rejection(Error.INVALID_RECORD, f"Record {number} says it is number {record.offset_delta}.")
            if config.compacts and record.key is None:
                unkeyed.append(number)
            timestamp = timestamp_of(batch, record)
            if timestamp != NO_TIMESTAMP and now_ms - timestamp > before_ms:
                late.append((number, timestamp))
    except WireError as error:
        return Rejection(Error.INVALID_RECORD, str(error))
    if late:
        return Rejection(
            Error.INVALID_TIMESTAMP,
            f"Timestamp {late[0][1]} is more than {before_ms} ms (message.timestamp.before.max.ms) "
            f"before the broker's clock, {now_ms}.",
            tuple(number for number, _ in late),
        )
    if unkeyed:
        return Rejection(Error.INVALID_RECORD, "A compacted topic takes no record without a key.", tuple(unkeyed))
    return None
