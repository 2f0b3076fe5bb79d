"""Records as Python values: written into a batch, and read out of one, each as it is asked for.

Rules kept here
- An uncompressed batch has the bytes that Kafka's Java producer writes for the same records, and a compressed one is
  read by it.
- Reading raises `WireError` and nothing else. It is as strict as Kafka's `DefaultRecord`: every record fills the length
  it announces, every batch holds the records it announces and nothing behind them.
- A null key or value is not an empty one. Header keys are text; bytes that are no UTF-8 are replaced, as in Java.

One record: length, attributes (one byte, unused), timestamp delta, offset delta, key length and key, value length and
value, number of headers, and for each the length and bytes of its key and value. All numbers are zigzag varints; a
length of -1 is null. Deltas count from the batch's base. Where the broker stamps the time, the batch's max timestamp
is that of every record, and the deltas mean nothing.

This is the way for a few records. For many, `slackwater.wire.records.arrow` makes no Python object per record.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    RecordBatch,
    TimestampType,
)
from slackwater.wire.records.compression import DEFAULT_LIMIT, Buffer, Codec, compress, decompress, decompress_into
from slackwater.wire.records.crc import crc32c

NEXT_OFFSET: Final = -1
# Length, attributes, two deltas, two lengths of null, and no headers.
SMALLEST_RECORD_BYTES: Final = 7

_MAX_SIZE: Final = 2**31 - 1
_MAX_OFFSET_DELTA: Final = 2**31 - 1
_VARINT_SHIFTS: Final = 5 * 7
_VARLONG_SHIFTS: Final = 10 * 7
_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))
_NULL: Final = b"\x01"
_CONTROL_KEY: Final = struct.Struct(">hh")
_END_TRANSACTION: Final = struct.Struct(">hi")

NO_HEADERS: Final = b"\x00"

Header: TypeAlias = tuple[str, bytes | None]
# Key, value, headers as `pack_headers` writes them, timestamp.
PackedRecord: TypeAlias = tuple[bytes | None, bytes | None, bytes, int]


class Record(NamedTuple):
    """One record. A timestamp of -1 is none; an offset of -1, in a record to be written, is the one that comes next."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp: int = NO_TIMESTAMP
    offset: int = NEXT_OFFSET


class ControlType(IntEnum):
    """What a control record tells; Kafka has more, which concern no client."""

    ABORT = 0
    COMMIT = 1


def end_transaction_marker(control_type: ControlType, coordinator_epoch: int, timestamp: int) -> Record:
    """The record of a control batch that ends a transaction."""
    key = _CONTROL_KEY.pack(0, control_type)
    return Record(key, _END_TRANSACTION.pack(0, coordinator_epoch), timestamp=timestamp)


def control_type(batch: RecordBatch) -> int | None:
    """The `ControlType` of a control batch, a higher number if Kafka knows one that we do not, None if it is empty."""
    for record in decode_records(batch):
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            raise batch.error(f"the key of a control record takes {_CONTROL_KEY.size} bytes, and it is {record.key!r}")
        return int(_CONTROL_KEY.unpack_from(record.key)[1])
    return None


def pack_headers(headers: Sequence[Header]) -> bytes:
    """The headers of a record as they are written."""
    packed = [_varint(len(headers))]
    for name, content in headers:
        try:
            raw = name.encode()
        except UnicodeEncodeError as error:
            raise WireError(f"Record to write: a header's key cannot be written as UTF-8: {error}.") from error
        packed += (_varint(len(raw)), raw, _NULL if content is None else _varint(len(content)), content or b"")
    return b"".join(packed)


class BatchBuilder:
    """A batch to which records are added until it is large enough."""

    __slots__ = (
        "base_offset",
        "base_timestamp",
        "count",
        "has_delete_horizon",
        "last_offset",
        "max_timestamp",
        "parts",
        "size",
    )

    def __init__(self, base_offset: int = 0, delete_horizon_ms: int | None = None) -> None:
        self.base_offset = base_offset
        self.last_offset = base_offset - 1
        self.base_timestamp = delete_horizon_ms
        self.has_delete_horizon = delete_horizon_ms is not None
        self.max_timestamp = NO_TIMESTAMP
        self.count = 0
        self.size = HEADER_BYTES
        self.parts: list[bytes] = []

    def append(self, record: Record) -> None:
        """Add a record; `size` is then what the batch takes without compression."""
        key, value, headers, timestamp, offset = record
        if offset == NEXT_OFFSET:
            offset = self.last_offset + 1
        if not 0 <= offset - self.base_offset <= _MAX_OFFSET_DELTA or (self.count and offset <= self.last_offset):
            raise WireError(
                f"Record to write: offset {offset} does not follow {self.last_offset} in a batch from "
                f"{self.base_offset} on."
            )
        if timestamp < NO_TIMESTAMP:
            raise WireError(f"Record to write: its timestamp is {timestamp}, and -1 (none) is the least.")
        base_timestamp = self.base_timestamp
        if base_timestamp is None:
            base_timestamp = self.base_timestamp = timestamp
        body = [
            b"\x00",
            _varint(timestamp - base_timestamp),
            _varint(offset - self.base_offset),
            _NULL if key is None else _varint(len(key)),
            key or b"",
            _NULL if value is None else _varint(len(value)),
            value or b"",
            pack_headers(headers) if headers else NO_HEADERS,
        ]
        data = b"".join(body)
        length = _varint(len(data))
        self.size += len(length) + len(data)
        if self.size > _MAX_SIZE:
            raise WireError(f"Record to write: with it the batch takes {self.size} bytes; {_MAX_SIZE} are the most.")
        self.parts += (length, data)
        self.last_offset = offset
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.count += 1

    def extend(self, pairs: Iterable[tuple[bytes | None, bytes | None]], timestamp: int) -> None:
        """Add records that are a key and a value, all of one time: the same bytes as by `append`, in less time."""
        self.extend_packed((key, value, NO_HEADERS, timestamp) for key, value in pairs)

    def extend_packed(self, records: Iterable[PackedRecord]) -> None:
        """Add records whose headers are packed: the same bytes as by `append`, in a third of the time."""
        parts, delta = self.parts, self.last_offset - self.base_offset
        first = len(parts)
        newest, count, base, seen = self.max_timestamp, self.count, self.base_timestamp, None
        begin = b""  # attributes and timestamp; neighbours mostly share them
        for key, value, headers, timestamp in records:
            if timestamp != seen:
                if timestamp < NO_TIMESTAMP:
                    del parts[first:]
                    raise WireError(f"Record to write: its timestamp is {timestamp}, and -1 (none) is the least.")
                if base is None:
                    base = timestamp
                begin = b"\x00" + _varint(timestamp - base)
                newest, seen = max(newest, timestamp), timestamp
            delta += 1
            key_size = -1 if key is None else len(key)
            value_size = -1 if value is None else len(value)
            data = b"".join(
                (
                    begin,
                    _VARINTS[delta] if delta < _COMMON else _varint(delta),
                    _VARINTS[key_size] if key_size < _COMMON else _varint(key_size),
                    key or b"",
                    _VARINTS[value_size] if value_size < _COMMON else _varint(value_size),
                    value or b"",
                    headers,
                )
            )
            size = len(data)
            parts += (_VARINTS[size] if size < _COMMON else _varint(size), data)
            count += 1
        self.size += sum(map(len, parts[first:]))
        if self.size > _MAX_SIZE or delta > _MAX_OFFSET_DELTA:
            raise WireError(f"Records to write: with them the batch takes {self.size} bytes; {_MAX_SIZE} are the most.")
        self.base_timestamp, self.max_timestamp, self.count = base, newest, count
        self.last_offset = self.base_offset + delta

    def build(
        self,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        last_offset: int | None = None,
        log_append_time_ms: int | None = None,
        transactional: bool = False,
        control: bool = False,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        partition_leader_epoch: int = -1,
    ) -> bytearray:
        """The batch, in bytes that a `RecordBatch` can set fields of; compaction keeps the `last_offset` there was."""
        if not self.count:
            codec = Codec.NONE
        attributes = codec.value
        max_timestamp = self.max_timestamp
        if log_append_time_ms is not None:
            attributes |= LOG_APPEND_TIME_BIT
            max_timestamp = log_append_time_ms
        attributes |= transactional * TRANSACTIONAL_BIT | control * CONTROL_BIT
        attributes |= self.has_delete_horizon * DELETE_HORIZON_BIT
        last = max(self.base_offset, self.last_offset) if last_offset is None else last_offset
        payload = compress(codec, b"".join(self.parts), level)
        try:
            batch = bytearray(
                HEADER.pack(
                    self.base_offset,
                    HEADER_BYTES - LENGTH_ENDS_AT + len(payload),
                    partition_leader_epoch,
                    MAGIC,
                    0,
                    attributes,
                    last - self.base_offset,
                    NO_TIMESTAMP if self.base_timestamp is None else self.base_timestamp,
                    max_timestamp,
                    producer_id,
                    producer_epoch,
                    base_sequence,
                    self.count,
                )
            )
        except struct.error as error:
            raise WireError(f"Batch to write: a number in its header does not fit: {error}.") from error
        batch += payload
        with memoryview(batch) as view:
            struct.pack_into(">I", batch, ATTRIBUTES_AT - 4, crc32c(view[ATTRIBUTES_AT:]))
        return batch


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    log_append_time_ms: int | None = None,
    transactional: bool = False,
    control: bool = False,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """Write records as one batch; `BatchBuilder` offers more."""
    builder = BatchBuilder(base_offset)
    for record in records:
        builder.append(record)
    return builder.build(
        codec=codec,
        log_append_time_ms=log_append_time_ms,
        transactional=transactional,
        control=control,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def unpacked(batch: RecordBatch, limit: int = DEFAULT_LIMIT) -> Buffer:
    """The records of a batch, unpacked, with room for as many as the header announces."""
    try:
        payload = decompress(batch.codec, batch.payload, limit)
    except WireError as error:
        raise batch.error(str(error).rstrip(".")) from error
    check_room(batch, len(payload))
    return payload


def unpacked_into(batch: RecordBatch, output: memoryview) -> int | None:
    """Unpack the records of a batch to the beginning of `output`: their bytes, or None if there is not enough room."""
    try:
        size = decompress_into(batch.codec, batch.payload, output)
    except WireError as error:
        raise batch.error(str(error).rstrip(".")) from error
    if size is not None:
        check_room(batch, size)
    return size


def check_room(batch: RecordBatch, size: int) -> None:
    """Raise unless `size` bytes can hold as many records as the header announces."""
    if not 0 <= batch.record_count * SMALLEST_RECORD_BYTES <= size:
        raise batch.error(f"it announces {batch.record_count} records in {size} bytes")


def decode_records(batch: RecordBatch, limit: int = DEFAULT_LIMIT) -> Iterator[Record]:
    """Read the records of a batch, one by one; its checksum is `check`'s matter."""
    if batch.record_count == 0:
        return  # Whatever the bytes behind the header are: Kafka does not look at them either.
    data = bytes(unpacked(batch, limit))
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    stamped = batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    at = 0
    for number in range(batch.record_count):
        try:
            length, start = _read_varint(data, at)
            end = start + length
            if length < 0 or end > len(data):
                raise batch.error(f"record {number} is {length} bytes long, and {len(data) - start} are left")
            delta, at = _read_varint(data, start + 1, _VARLONG_SHIFTS)
            offset_delta, at = _read_varint(data, at)
            key, at = _read_nullable(data, at)
            value, at = _read_nullable(data, at)
            count, at = _read_varint(data, at)
            if not 0 <= count <= end - at:
                raise batch.error(f"record {number} announces {count} headers, and {end - at} bytes are left of it")
            headers = []
            for _ in range(count):
                name, at = _read_nullable(data, at)
                if name is None:
                    raise batch.error(f"record {number} has a header without a key")
                content, at = _read_nullable(data, at)
                headers.append((name.decode(errors="replace"), content))
        except IndexError:
            raise batch.error(f"record {number} ends in the middle of a field") from None
        except _LongVarint:
            raise batch.error(f"record {number} has a number that is longer than its type") from None
        if at != end:
            raise batch.error(f"record {number} announces {length} bytes, and its fields take {at - start}")
        timestamp = _wrapped(base_timestamp + delta) if stamped is None else stamped
        yield Record(key, value, tuple(headers), timestamp, _wrapped(base_offset + offset_delta))
    if at != len(data):
        raise batch.error(f"{len(data) - at} bytes are left after its {batch.record_count} records")


class _LongVarint(Exception):
    """More bytes than the number's type has."""


def _varint(number: int) -> bytes:
    """A signed integer, zigzag, seven bits to the byte, lowest first."""
    rest = (number << 1) ^ (number >> 63)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_COMMON: Final = 1024
# The lengths and offsets that most records have, and at -1, the last place, that of null.
_VARINTS: Final = (*map(_varint, range(_COMMON)), _NULL)


def _read_varint(data: bytes, at: int, shifts: int = _VARINT_SHIFTS) -> tuple[int, int]:
    """A number, and where the next field begins; bits that its type has no place for are dropped, as in Java."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 0x7F
    for shift in range(7, shifts, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFF_FFFF if shifts == _VARINT_SHIFTS else 0xFFFF_FFFF_FFFF_FFFF
            return (value >> 1) ^ -(value & 1), at + 1
    raise _LongVarint


def _read_nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them, and where the next field begins; any negative length is null, as in Java."""
    length, at = _read_varint(data, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _wrapped(number: int) -> int:
    """A sum in 64 bits, as Java and numpy add."""
    return (number + 2**63) % 2**64 - 2**63
