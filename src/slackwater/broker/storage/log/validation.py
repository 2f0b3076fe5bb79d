"""Validation of batches from producers, with Kafka's errors.

Invariants:
- Checks run in Kafka's order: size, checksum, content.
- The records of every batch are counted, as in Kafka; compressed ones are decompressed for that, up to
  `message.max.uncompressed.bytes`. More is read only where it is necessary: keys if the topic is compacted, timestamps
  if a limit is set that needs more than the header.
- Validation is work in slices: a small batch may decompress to many records.
"""

from typing import Final, NamedTuple

from slackwater.broker.slices import Sliced
from slackwater.broker.storage.log.config import LONG_MAX, LogConfig
from slackwater.broker.storage.log.records import (
    TooLarge,
    check_lengths,
    decompress_in_slices,
    iter_record_views,
    timestamp_of,
)
from slackwater.group.errors import Error
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import (
    HEADER_BYTES,
    NO_TIMESTAMP,
    RecordBatch,
    TimestampType,
    check_batch,
    complete_batches,
)
from slackwater.wire.records.compression import Buffer, Codec

_SLICE_RECORDS: Final = 1000
_MAX_REPORTED_RECORDS: Final = 10_000  # of invalid records in the response; more cannot be listed


class Rejection(NamedTuple):
    """The error of an append or a read; `records` are the indexes of the invalid records, if known."""

    error: Error
    message: str
    records: tuple[int, ...] = ()


def split_batches(buffer: Buffer) -> list[RecordBatch] | Rejection:
    """Return the batches in the bytes of a produce request."""
    try:
        if len(buffer) >= HEADER_BYTES and (only := RecordBatch(buffer)).size == len(buffer):
            return [only]
        batches = list(complete_batches(buffer))
    except WireError as error:
        return Rejection(Error.CORRUPT_MESSAGE, str(error))
    if not batches:
        return Rejection(Error.INVALID_RECORD, "The request has no record batch.")
    return batches


def validate(buffer: Buffer, config: LogConfig, now_ms: int) -> Sliced[Rejection | None]:
    """Return why a client must not append these batches, or None."""
    batches = split_batches(buffer)
    if isinstance(batches, Rejection):
        return batches
    for batch in batches:
        if rejected := (yield from validate_batch(batch, config, now_ms)):
            return rejected
    return None


def validate_batch(batch: RecordBatch, config: LogConfig, now_ms: int) -> Sliced[Rejection | None]:
    """Return why a client must not append this batch, or None."""
    if batch.size > config.max_message_bytes:
        return Rejection(
            Error.MESSAGE_TOO_LARGE,
            f"The record batch has {batch.size} bytes; max.message.bytes is {config.max_message_bytes}.",
        )
    try:
        check_batch(batch)
    except WireError as error:
        return Rejection(Error.CORRUPT_MESSAGE, str(error))
    if problem := _header_problem(batch):
        return Rejection(Error.INVALID_RECORD, str(batch.error(problem)))
    if rejected := _check_timestamp(batch, config, now_ms):
        return rejected
    return (yield from _check_records(batch, config, now_ms))


def _header_problem(batch: RecordBatch) -> str | None:
    if batch.record_count == 0:
        return "it has no records"
    if batch.last_offset_delta + 1 != batch.record_count:
        return f"its header has {batch.record_count} records over {batch.last_offset_delta + 1} offsets"
    if batch.is_control:
        return "it is a control batch, which clients must not write"
    if batch.is_transactional and not batch.has_producer_id:
        return "it is transactional and has no producer id"
    if batch.has_producer_id and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        return f"its sequence is {batch.base_sequence} in epoch {batch.producer_epoch}; both start at 0"
    return None


def _check_timestamp(batch: RecordBatch, config: LogConfig, now_ms: int) -> Rejection | None:
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return Rejection(Error.INVALID_TIMESTAMP, "A producer must not set the timestamp type LogAppendTime.")
    elif batch.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        return Rejection(
            Error.INVALID_TIMESTAMP,
            f"Timestamp {batch.max_timestamp} is more than {config.message_timestamp_after_max_ms} ms "
            f"(message.timestamp.after.max.ms) after the broker's clock, {now_ms}.",
        )
    return None


def _check_records(batch: RecordBatch, config: LogConfig, now_ms: int) -> Sliced[Rejection | None]:
    before_ms = LONG_MAX
    if config.message_timestamp_type is TimestampType.CREATE_TIME:
        before_ms = config.message_timestamp_before_max_ms
    try:
        if batch.codec is Codec.NONE:
            payload = bytes(batch.payload)
        else:
            payload = yield from decompress_in_slices(batch, config.message_max_uncompressed_bytes)
        if not config.compacts and before_ms == LONG_MAX:
            yield from check_lengths(batch, payload)
            return None
        without_key: list[int] = []
        late: list[tuple[int, int]] = []
        for number, record in enumerate(iter_record_views(batch, payload)):
            if not number % _SLICE_RECORDS:
                yield None
            if record.offset_delta != number:
                return Rejection(Error.INVALID_RECORD, f"Record {number} has offset delta {record.offset_delta}.")
            if config.compacts and record.key is None:
                without_key.append(number)
            timestamp = timestamp_of(batch, record)
            if timestamp != NO_TIMESTAMP and now_ms - timestamp > before_ms:
                late.append((number, timestamp))
            if len(without_key) + len(late) >= _MAX_REPORTED_RECORDS:
                break
    except TooLarge as error:
        return Rejection(Error.MESSAGE_TOO_LARGE, f"{error} message.max.uncompressed.bytes is the limit.")
    except WireError as error:
        return Rejection(Error.INVALID_RECORD, str(error))
    if late:
        return Rejection(
            Error.INVALID_TIMESTAMP,
            f"Timestamp {late[0][1]} is more than {before_ms} ms (message.timestamp.before.max.ms) "
            f"before the broker's clock, {now_ms}.",
            tuple(number for number, _ in late),
        )
    if without_key:
        return Rejection(
            Error.INVALID_RECORD, "A compacted topic does not accept records without a key.", tuple(without_key)
        )
    return None
