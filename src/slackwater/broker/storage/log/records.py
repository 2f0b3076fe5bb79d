"""Access to the records inside a batch, where a log needs it.

Invariants:
- A broker stores batches as they arrive. It reads records only to count them on arrival, to compact by key, and to find
  an offset by timestamp.
- Nothing decompresses to more than its limit (`message.max.uncompressed.bytes`). On the event loop, more than
  `_MAX_LOOP_BYTES` are decompressed in the thread, and many records are read in slices.
- Bytes that are not records raise `WireError`.
- A batch that loses records keeps its base offset and last offset delta, and with them its producer's sequences.

A record is its length as a varint, then attributes (1 byte), timestamp delta (varlong), offset delta (varint), key and
value (length as a varint, -1 for null) and headers. Varints are zigzag: the lowest bit is the sign.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from slackwater.broker.slices import Sliced
from slackwater.broker.storage.log.config import MAX_UNCOMPRESSED_BYTES
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    NO_TIMESTAMP,
    RecordBatch,
    TimestampType,
)
from slackwater.wire.records.compression import Buffer, Codec, LimitExceeded, compress, decompress
from slackwater.wire.records.crc import crc32c
from slackwater.wire.records.varints import VARLONG_SHIFTS, decode_varint, encode_varint

_RUN: Final = 64  # records whose lengths are compared together
_MAX_LOOP_BYTES: Final = 1 << 20
_SLICE_RECORDS: Final = 1000  # a slice ends after this many records, or runs of records


class RecordView(NamedTuple):
    """One record: its position in the decompressed payload, and the fields a log uses."""

    start: int
    end: int
    timestamp_delta: int
    timestamp_ends_at: int
    offset_delta: int
    key: bytes | None
    has_value: bool


class TooLarge(WireError):
    """The records of a batch have more bytes than the limit."""


def decompress_records(batch: RecordBatch, limit: int = MAX_UNCOMPRESSED_BYTES) -> bytes:
    """Return the decompressed payload of a batch; raise `TooLarge` if it has more than `limit` bytes."""
    try:
        payload = decompress(batch.codec, batch.payload, limit)
    except LimitExceeded as error:
        raise TooLarge(f"The records of the batch have more than {limit} bytes after decompression.") from error
    return bytes(payload)


def decompress_in_slices(batch: RecordBatch, limit: int) -> Sliced[bytes]:
    """Do the same on the event loop; a large payload is decompressed in the thread."""
    if batch.codec is Codec.NONE:
        return bytes(batch.payload)
    try:
        return decompress_records(batch, min(limit, _MAX_LOOP_BYTES))
    except TooLarge:
        if limit <= _MAX_LOOP_BYTES:
            raise
    payload: bytes = yield partial(decompress_records, batch, limit)
    return payload


def iter_record_views(batch: RecordBatch, payload: bytes) -> Iterator[RecordView]:
    """Iterate over the records of a decompressed payload, which must match the count in the header."""
    at = 0
    for number in range(batch.record_count):
        try:
            length, body = decode_varint(payload, at)
            end = body + length
            if length < 0 or end > len(payload):
                raise batch.error(f"record {number} of {batch.record_count} is incomplete")
            timestamp_delta, timestamp_ends_at = decode_varint(payload, body + 1, VARLONG_SHIFTS)
            offset_delta, place = decode_varint(payload, timestamp_ends_at)
            key_length, place = decode_varint(payload, place)
            key = payload[place : place + key_length] if key_length >= 0 else None
            value_length, place = decode_varint(payload, place + max(key_length, 0))
        except IndexError:
            raise batch.error(f"record {number} of {batch.record_count} is incomplete") from None
        if place + max(value_length, 0) > end:
            raise batch.error(f"record {number} of {batch.record_count} is longer than its length field")
        yield RecordView(at, end, timestamp_delta, timestamp_ends_at, offset_delta, key, value_length >= 0)
        at = end
    if at != len(payload):
        raise batch.error(f"{len(payload) - at} bytes follow its {batch.record_count} records")


def check_lengths(batch: RecordBatch, payload: bytes) -> Sliced[None]:
    """Raise `WireError` unless a decompressed payload has the number of records in its header.

    This runs for every produced record, so it reads only lengths. Neighbouring records often have the same length; then
    the lengths of many are compared together.
    """
    total = len(payload)
    at = size = steps = 0
    left = batch.record_count
    while left:
        steps += 1
        if not steps % _SLICE_RECORDS:
            yield None
        start, previous_size = at, size
        if at >= total:
            raise batch.error(f"its header has {batch.record_count} records, the payload {batch.record_count - left}")
        length = payload[at]
        at += 1
        if length >= 0x80:
            shift, length = 7, length & 0x7F
            while at < total:
                byte = payload[at]
                at += 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
        body = at
        at += length >> 1
        left -= 1
        size = at - start
        if size == previous_size:
            run = _same_lengths(payload, start, body, size, min(left, _RUN))
            at += run * size
            left -= run
    if at != total:
        raise batch.error(f"its {batch.record_count} records have {at} bytes, the payload {total}")


def _same_lengths(payload: bytes, start: int, body: int, size: int, limit: int) -> int:
    """Count the records after `start` that have the same length, up to `limit`."""
    for place in range(start, body):
        heads = payload[place + size : place + size * (limit + 1) : size]
        limit = len(heads) - len(heads.lstrip(payload[place : place + 1]))
    return limit


def timestamp_of(batch: RecordBatch, record: RecordView) -> int:
    """Return a record's timestamp: its own, or the append time of the batch."""
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return batch.max_timestamp
    return batch.base_timestamp + record.timestamp_delta


def find_first_record(
    batch: RecordBatch, timestamp: int, offset: int, limit: int = MAX_UNCOMPRESSED_BYTES
) -> Sliced[tuple[int, int] | None]:
    """The timestamp and offset of the first record at or after both, or None.

    If the records cannot be decompressed, return the values of the batch.
    """
    try:
        payload = yield from decompress_in_slices(batch, limit)
        for number, record in enumerate(iter_record_views(batch, payload)):
            if not number % _SLICE_RECORDS:
                yield None
            at = batch.base_offset + record.offset_delta
            if at >= offset and (record_timestamp := timestamp_of(batch, record)) >= timestamp:
                return record_timestamp, at
    except WireError:
        return batch.max_timestamp, max(batch.base_offset, offset)
    return None


def without_records(batch: RecordBatch) -> bytes:
    """Return the batch without records; offsets, timestamps and producer fields stay.

    As in Kafka, an empty batch has no base timestamp and no codec.
    """
    attributes = batch.attributes & ~DELETE_HORIZON_BIT & ~0b111
    return _build(batch, attributes, NO_TIMESTAMP, batch.max_timestamp, 0, b"")


def with_records(
    batch: RecordBatch, payload: bytes, records: Sequence[RecordView], delete_horizon_ms: int | None
) -> bytes:
    """Return the batch with only these records; there must be at least one.

    A new `delete_horizon_ms` replaces the base timestamp (KIP-534), so the timestamp deltas are recomputed. Without one
    the records are copied unchanged.
    """
    attributes, base_timestamp = batch.attributes, batch.base_timestamp
    if delete_horizon_ms is None:
        data = b"".join(payload[record.start : record.end] for record in records)
    else:
        shift = base_timestamp - delete_horizon_ms
        attributes, base_timestamp = attributes | DELETE_HORIZON_BIT, delete_horizon_ms
        data = b"".join(_shifted(payload, record, shift) for record in records)
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = batch.max_timestamp
    else:
        max_timestamp = max(timestamp_of(batch, record) for record in records)
    return _build(batch, attributes, base_timestamp, max_timestamp, len(records), compress(batch.codec, data))


def _build(
    batch: RecordBatch, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: Buffer
) -> bytes:
    data = bytearray(HEADER_BYTES + len(payload))
    HEADER.pack_into(
        data,
        0,
        batch.base_offset,
        len(data) - LENGTH_ENDS_AT,
        batch.partition_leader_epoch,
        batch.magic,
        0,
        attributes,
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    data[HEADER_BYTES:] = payload
    struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))
    return bytes(data)


def _shifted(payload: bytes, record: RecordView, shift: int) -> bytes:
    """Return a record with its timestamp delta shifted."""
    _, body = decode_varint(payload, record.start)
    rest = payload[record.timestamp_ends_at : record.end]
    delta = encode_varint(record.timestamp_delta + shift)
    return encode_varint(1 + len(delta) + len(rest)) + payload[body : body + 1] + delta + rest
