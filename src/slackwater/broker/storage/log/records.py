"""The records inside a batch, for the few questions a log must ask of them.

Rules kept here
- A broker does not unpack what it stores. It looks at records only where it must: lengths when a batch arrives, keys
  when a topic is compacted, timestamps when an offset is asked for by time.
- Bytes that are no records raise `WireError`, wherever they end.
- A batch that loses records keeps its offsets: base offset and last offset delta stay, and with them the sequence
  numbers of its producer.

A record: its length as a varint, then attributes (1 byte), timestamp delta (varlong), offset delta (varint), key and
value (length as a varint, -1 for none), headers. Varints are zigzag: the lowest bit is the sign.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import (
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    NO_TIMESTAMP,
    RecordBatch,
    TimestampType,
)
from slackwater.wire.records.compression import Buffer, compress, decompress
from slackwater.wire.records.crc import crc32c

_CRC_AT: Final = 17
_CRC_ENDS_AT: Final = 21
_RUN: Final = 64  # records that are compared at once


class RecordView(NamedTuple):
    """One record: where it stands in the decompress_records payload, and what a log asks of it."""

    start: int
    end: int
    timestamp_delta: int
    timestamp_ends_at: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def decompress_records(batch: RecordBatch) -> bytes:
    """The records of a batch, decompress_records."""
    return bytes(decompress(batch.codec, batch.payload))


def iter_record_views(batch: RecordBatch, payload: bytes) -> Iterator[RecordView]:
    """Walk over the records in the decompress_records payload, which must hold as many as the header says."""
    at = 0
    for number in range(batch.record_count):
        try:
            length, body = _varint(payload, at)
            end = body + length
            if length < 0 or end > len(payload):
                raise batch.wrong(f"record {number} of {batch.record_count} is not whole")
            timestamp_delta, timestamp_ends_at = _varint(payload, body + 1)
            offset_delta, place = _varint(payload, timestamp_ends_at)
            key_length, place = _varint(payload, place)
            key = payload[place : place + key_length] if key_length >= 0 else None
            value_length, place = _varint(payload, place + max(key_length, 0))
        except IndexError:
            raise batch.wrong(f"record {number} of {batch.record_count} is not whole") from None
        if place + max(value_length, 0) > end:
            raise batch.wrong(f"record {number} of {batch.record_count} is longer than it says")
        yield RecordView(at, end, timestamp_delta, timestamp_ends_at, offset_delta, key, value_length >= 0)
        at = end
    if at != len(payload):
        raise batch.wrong(f"{len(payload) - at} bytes follow its {batch.record_count} records")


def check_lengths(batch: RecordBatch) -> None:
    """Raise unless the payload, which must not be packed, holds as many records as the header says.

    This is what every produced record costs, so it hops from length to length and looks at nothing else. Records are
    often as long as their neighbours: then the lengths of many are compared at once.
    """
    payload = bytes(batch.payload)  # a copy costs less than looking into a view byte by byte
    total = len(payload)
    at = size = 0
    left = batch.record_count
    while left:
        start, before = at, size
        if at >= total:
            raise batch.wrong(f"it announces {batch.record_count} records and holds {batch.record_count - left}")
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
        if size == before:
            run = _same_lengths(payload, start, body, size, min(left, _RUN))
            at += run * size
            left -= run
    if at != total:
        raise batch.wrong(f"its {batch.record_count} records take {at} bytes, and there are {total}")


def _same_lengths(payload: bytes, start: int, body: int, size: int, most: int) -> int:
    """How many records follow that are as long as the one at `start`: every `size` bytes the same length stands."""
    for place in range(start, body):
        heads = payload[place + size : place + size * (most + 1) : size]
        most = len(heads) - len(heads.lstrip(payload[place : place + 1]))
    return most


def timestamp_of(batch: RecordBatch, record: RecordView) -> int:
    """A record's timestamp: its own, or the broker's if the batch says so."""
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return batch.max_timestamp
    return batch.base_timestamp + record.timestamp_delta


def find_first_record(batch: RecordBatch, timestamp: int, offset: int) -> tuple[int, int] | None:
    """The timestamp and offset of the first record at or after both, or None.

    Of records that cannot be decompress_records the batch itself is known: it stands for them.
    """
    try:
        for record in iter_record_views(batch, decompress_records(batch)):
            at = batch.base_offset + record.offset_delta
            if at >= offset and (found := timestamp_of(batch, record)) >= timestamp:
                return found, at
    except WireError:
        return batch.max_timestamp, max(batch.base_offset, offset)
    return None


def without_records(batch: RecordBatch) -> bytes:
    """The batch without its records: what it says of offsets, timestamps and its producer stays.

    Kafka writes no base timestamp and no codec into such a batch.
    """
    attributes = batch.attributes & ~DELETE_HORIZON_BIT & ~0b111
    return _built(batch, attributes, NO_TIMESTAMP, batch.max_timestamp, 0, b"")


def with_records(
    batch: RecordBatch, payload: bytes, kept: Sequence[RecordView], delete_horizon_ms: int | None
) -> bytes:
    """The batch with only the records `kept`, at least one; `delete_horizon_ms` is the horizon to note, if it is new.

    A horizon takes the place of the base timestamp (KIP-534), so the records' timestamps are told anew against it;
    without one the records are copied as they are.
    """
    attributes, base_timestamp = batch.attributes, batch.base_timestamp
    if delete_horizon_ms is None:
        packed = b"".join(payload[record.start : record.end] for record in kept)
    else:
        shift = base_timestamp - delete_horizon_ms
        attributes, base_timestamp = attributes | DELETE_HORIZON_BIT, delete_horizon_ms
        packed = b"".join(_shifted(payload, record, shift) for record in kept)
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = batch.max_timestamp
    else:
        max_timestamp = max(timestamp_of(batch, record) for record in kept)
    return _built(batch, attributes, base_timestamp, max_timestamp, len(kept), compress(batch.codec, packed))


def _built(
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
    struct.pack_into(">I", data, _CRC_AT, crc32c(memoryview(data)[_CRC_ENDS_AT:]))
    return bytes(data)


def _shifted(payload: bytes, record: RecordView, shift: int) -> bytes:
    """A record whose timestamp is told against another base."""
    _, body = _varint(payload, record.start)
    rest = payload[record.timestamp_ends_at : record.end]
    delta = to_varint(record.timestamp_delta + shift)
    return to_varint(1 + len(delta) + len(rest)) + payload[body : body + 1] + delta + rest


def to_varint(value: int) -> bytes:
    """A number as Kafka writes it inside records."""
    left = (value << 1) ^ (value >> 63)
    made = bytearray()
    while left >= 0x80:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at byte `at`, and the byte behind it."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise WireError("A varint takes more than ten bytes.")
    return (value >> 1) ^ -(value & 1), at
