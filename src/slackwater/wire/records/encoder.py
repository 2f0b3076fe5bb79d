"""The compiled encoder: writes many records into batches in one call, without a Python object per record.

`RecordEncoder` takes columns of keys, values and headers and the partition of each row. It writes the rows into one
buffer per partition, and yields a partition's records as one `EncodedRecords` when its buffer is full, or when they are
taken. The functions compile with numba when this module is imported, as those of `scanner.py`; import it only where it
is needed.

Invariants:
- The bytes are those that `record.BatchBuilder` writes for the same records.
- Records of a partition keep the order of their rows.
- Memory is bounded: `partitions` × `batch_bytes`, and one record that is larger.
- Compiled code never writes outside the buffer of a partition.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic, overload, register_jitable

from slackwater.wire.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    MAGIC,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
)
from slackwater.wire.records.compression import Codec, compress
from slackwater.wire.records.crc import crc32c
from slackwater.wire.records.record import BatchBuilder, Header, Record
from slackwater.wire.records.scanner import (
    DATA,
    Address,
    Bytes,
    Ints,
    Longs,
    address_of,
    byte_at,
    compiled,
    copy_bytes,
)

ALL_ENCODED: Final = -1
_NO_BYTES: Final = np.zeros(0, np.uint8)
_NO_BYTES.flags.writeable = False
_NO_LONGS: Final = np.zeros(0, np.int64)


class ByteColumn(NamedTuple):
    """A column of bytes: where each row is in `data`. A length of -1 is null."""

    data: Bytes
    starts: Longs
    lengths: Longs

    def at(self, row: int) -> bytes | None:
        """Return the bytes of one row."""
        start, length = int(self.starts[row]), int(self.lengths[row])
        return None if length < 0 else self.data[start : start + length].tobytes()


NO_COLUMN: Final = ByteColumn(_NO_BYTES, _NO_LONGS, _NO_LONGS)


class HeaderColumn(NamedTuple):
    """A column of headers: row `i` has `counts[i]` of the keys and values, from `starts[i]` on."""

    starts: Longs
    counts: Longs
    keys: ByteColumn
    values: ByteColumn


NO_HEADER_COLUMN: Final = HeaderColumn(_NO_LONGS, _NO_LONGS, NO_COLUMN, NO_COLUMN)


class RecordColumns(NamedTuple):
    """The columns of many records. `keys` and `headers` may have no rows, which means none."""

    values: ByteColumn
    keys: ByteColumn = NO_COLUMN
    headers: HeaderColumn = NO_HEADER_COLUMN

    def record(self, row: int, timestamp_ms: int) -> Record:
        """Return one row as a record."""
        headers: list[Header] = []
        if len(self.headers.counts):
            first = int(self.headers.starts[row])
            for position in range(first, first + int(self.headers.counts[row])):
                headers.append(((self.headers.keys.at(position) or b"").decode(), self.headers.values.at(position)))
        key = self.keys.at(row) if len(self.keys.lengths) else None
        return Record(key, self.values.at(row), headers, timestamp_ms)

    def sizes(self) -> Longs:
        """Return the bytes of key, value and headers of each row."""
        sizes = np.maximum(self.values.lengths, 0)
        if len(self.keys.lengths):
            sizes = sizes + np.maximum(self.keys.lengths, 0)
        if len(self.headers.counts):
            each = self.headers.keys.lengths + np.maximum(self.headers.values.lengths, 0)
            before = np.concatenate([[0], np.cumsum(each)])
            sizes = sizes + before[self.headers.starts + self.headers.counts] - before[self.headers.starts]
        return sizes


class EncodedRecords:
    """The records of one batch, compressed, with room for the header before them."""

    __slots__ = ("base_timestamp", "codec", "count", "data", "max_timestamp")

    def __init__(
        self,
        data: bytearray,
        count: int,
        base_timestamp: int,
        max_timestamp: int,
        codec: Codec,
    ) -> None:
        self.data = data
        self.count = count
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.codec = codec

    def build(
        self,
        *,
        transactional: bool = False,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> bytearray:
        """Write the header and return the batch."""
        data = self.data
        HEADER.pack_into(
            data,
            0,
            0,
            len(data) - LENGTH_ENDS_AT,
            -1,
            MAGIC,
            0,
            self.codec.value | transactional * TRANSACTIONAL_BIT,
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        with memoryview(data) as view:
            struct.pack_into(">I", data, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))
        return data


class RecordEncoder:
    """Encodes the records of one topic."""

    def __init__(self, partitions: int, batch_bytes: int, codec: Codec = Codec.NONE) -> None:
        """A batch has up to `batch_bytes` before compression, or one larger record."""
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._buffer = np.empty(partitions * batch_bytes, np.uint8)
        self._starts = np.arange(partitions, dtype=np.int64) * batch_bytes + HEADER_BYTES
        self._ends = self._starts.copy()
        self._counts = np.zeros(partitions, np.int64)
        self._base_timestamps = np.zeros(partitions, np.int64)
        self._max_timestamps = np.zeros(partitions, np.int64)

    def encode(
        self, columns: RecordColumns, rows: Longs, partitions: Ints, timestamp_ms: int
    ) -> Iterator[tuple[int, EncodedRecords]]:
        """Encode rows with one timestamp; `partitions` has the partition of each of `rows`. Yield full batches."""
        keys, values, headers = columns.keys, columns.values, columns.headers
        first = 0
        while True:
            first = encode_records(
                keys.data,
                keys.starts,
                keys.lengths,
                values.data,
                values.starts,
                values.lengths,
                headers.starts,
                headers.counts,
                headers.keys.data,
                headers.keys.starts,
                headers.keys.lengths,
                headers.values.data,
                headers.values.starts,
                headers.values.lengths,
                rows,
                partitions,
                first,
                timestamp_ms,
                self._batch_bytes,
                self._buffer,
                self._ends,
                self._counts,
                self._base_timestamps,
                self._max_timestamps,
            )
            if first == ALL_ENCODED:
                return
            partition = int(partitions[first])
            if self._counts[partition]:
                yield partition, self.take(partition)
            else:
                yield partition, self._encode_large(columns.record(int(rows[first]), timestamp_ms))
                first += 1

    def take(self, partition: int) -> EncodedRecords:
        """Return the records of a partition, which then has none."""
        start, end = int(self._starts[partition]), int(self._ends[partition])
        count = int(self._counts[partition])
        self._ends[partition], self._counts[partition] = start, 0
        if self._codec is Codec.NONE:
            data = bytearray(self._buffer[start - HEADER_BYTES : end].data)
        else:
            data = _compressed(self._codec, self._buffer[start:end].data)
        return EncodedRecords(
            data,
            count,
            int(self._base_timestamps[partition]),
            int(self._max_timestamps[partition]),
            self._codec,
        )

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that have records."""
        return [int(partition) for partition in np.flatnonzero(self._counts)]

    def _encode_large(self, record: Record) -> EncodedRecords:
        """Encode a record that is larger than the buffer of a partition as a batch of its own."""
        builder = BatchBuilder()
        builder.append(record)
        data = _compressed(self._codec, b"".join(builder.parts))
        return EncodedRecords(data, 1, record.timestamp, record.timestamp, self._codec)


def _compressed(codec: Codec, payload: bytes | memoryview) -> bytearray:
    data = bytearray(HEADER_BYTES)
    data += compress(codec, payload)
    return data


# --- bytes by address -------------------------------------------------------------------------------------------------


def set_byte(address: Address, index: int, byte: int) -> None:
    """Write one byte."""
    address[index] = byte


def _store(_typing: Any, _address: Any, _byte: Any) -> Any:
    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        builder.store(builder.trunc(arguments[1], ir.IntType(8)), address)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


_store_byte: Any = intrinsic(_store)
overload(set_byte)(lambda address, index, byte: lambda address, index, byte: _store_byte(address + index, byte))


# --- compiled functions -----------------------------------------------------------------------------------------------


@register_jitable
def varint_size(number: int) -> int:
    """Return the bytes of a zigzag number. Only timestamp deltas may be negative."""
    rest = (number << 1) ^ (number >> 63)
    size = 1
    while rest > 0x7F or rest < 0:
        rest = (rest >> 7) & 0x01FF_FFFF_FFFF_FFFF
        size += 1
    return size


@register_jitable
def write_varint(target: Address, at: int, number: int) -> int:
    """Write a zigzag number; return the position after it."""
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F or rest < 0:
        set_byte(target, at, (rest & 0x7F) | 0x80)
        rest = (rest >> 7) & 0x01FF_FFFF_FFFF_FFFF
        at += 1
    set_byte(target, at, rest)
    return at + 1


@register_jitable
def write_bytes(target: Address, at: int, source: Address, start: int, length: int) -> int:
    """Write a length and the bytes; return the position after them."""
    at = write_varint(target, at, length)
    if length > 0:
        copy_bytes(target, at, source, start, length)
        at += length
    return at


@compiled(
    f"int64({DATA}, int64[::1], int64[::1], {DATA}, int64[::1], int64[::1], int64[::1], int64[::1], {DATA}, int64[::1],"
    f"int64[::1], {DATA}, int64[::1], int64[::1], int64[::1], int32[::1], int64, int64, int64, uint8[::1], int64[::1],"
    "int64[::1], int64[::1], int64[::1])"
)
def encode_records(
    key_data: Bytes,
    key_starts: Longs,
    key_lengths: Longs,
    value_data: Bytes,
    value_starts: Longs,
    value_lengths: Longs,
    header_starts: Longs,
    header_counts: Longs,
    header_key_data: Bytes,
    header_key_starts: Longs,
    header_key_lengths: Longs,
    header_value_data: Bytes,
    header_value_starts: Longs,
    header_value_lengths: Longs,
    rows: Longs,
    partitions: Ints,
    first: int,
    timestamp: int,
    batch_bytes: int,
    buffer: Bytes,
    ends: Longs,
    counts: Longs,
    base_timestamps: Longs,
    max_timestamps: Longs,
) -> int:
    """Write rows from number `first` on; return the number of the first that does not fit, or ALL_ENCODED."""
    has_keys, has_headers = len(key_lengths) > 0, len(header_counts) > 0
    target = address_of(buffer)
    keys, values = address_of(key_data), address_of(value_data)
    header_keys, header_values = address_of(header_key_data), address_of(header_value_data)
    for number in range(first, len(rows)):
        row = rows[number]
        partition = partitions[number]
        count = counts[partition]
        delta = timestamp - base_timestamps[partition] if count else 0
        key_length = key_lengths[row] if has_keys else -1
        value_length = value_lengths[row]
        size = 1 + varint_size(delta) + varint_size(count) + varint_size(key_length) + varint_size(value_length)
        size += max(key_length, 0) + max(value_length, 0)
        headers = header_counts[row] if has_headers else 0
        first_header = header_starts[row] if has_headers else 0
        size += varint_size(headers)
        for header in range(first_header, first_header + headers):
            length = header_value_lengths[header]
            size += varint_size(header_key_lengths[header]) + header_key_lengths[header]
            size += varint_size(length) + max(length, 0)
        at = ends[partition]
        if at + varint_size(size) + size > (partition + 1) * batch_bytes:
            return number
        at = write_varint(target, at, size)
        set_byte(target, at, 0)
        at = write_varint(target, at + 1, delta)
        at = write_varint(target, at, count)
        at = write_bytes(target, at, keys, key_starts[row] if has_keys else 0, key_length)
        at = write_bytes(target, at, values, value_starts[row], value_length)
        at = write_varint(target, at, headers)
        for header in range(first_header, first_header + headers):
            at = write_bytes(target, at, header_keys, header_key_starts[header], header_key_lengths[header])
            at = write_bytes(target, at, header_values, header_value_starts[header], header_value_lengths[header])
        ends[partition] = at
        counts[partition] = count + 1
        if not count:
            base_timestamps[partition] = timestamp
            max_timestamps[partition] = timestamp
        elif timestamp > max_timestamps[partition]:
            max_timestamps[partition] = timestamp
    return ALL_ENCODED


@register_jitable
def murmur2(data: Address, start: int, length: int) -> int:
    """Return Kafka's murmur2 hash of bytes, as an unsigned 32-bit number."""
    mask, m = 0xFFFF_FFFF, 0x5BD1_E995
    h = (0x9747_B28C ^ length) & mask
    at = start
    for _ in range(length >> 2):
        k = byte_at(data, at) | byte_at(data, at + 1) << 8 | byte_at(data, at + 2) << 16 | byte_at(data, at + 3) << 24
        k = k * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
        at += 4
    rest = length & 3
    if rest:
        if rest == 3:
            h ^= byte_at(data, at + 2) << 16
        if rest >= 2:
            h ^= byte_at(data, at + 1) << 8
        h = (h ^ byte_at(data, at)) * m & mask
    h = (h ^ h >> 13) * m & mask
    return int(h ^ h >> 15)


@compiled(
    f"int64({DATA}, int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int32[::1], int64, int64, int64[::1],"
    "int32[::1])"
)
def choose_partitions(
    key_data: Bytes,
    key_starts: Longs,
    key_lengths: Longs,
    wanted: Ints,
    sizes: Longs,
    rows: Longs,
    available: Ints,
    count: int,
    sticky_bytes: int,
    sticky: Longs,
    partitions: Ints,
) -> int:
    """Choose the partition of each row, as Java's producer does; return the first row with an invalid one, or -1.

    `wanted` has the partitions that the rows name, -1 for none; it may be empty. `sticky` has the position in
    `available` of the partition for rows without a key, and the bytes that it has received.
    """
    has_keys, has_wanted = len(key_lengths) > 0, len(wanted) > 0
    keys = address_of(key_data)
    for number in range(len(rows)):
        row = rows[number]
        partition = wanted[row] if has_wanted else -1
        if partition >= count or partition < -1:
            return int(row)
        if partition < 0 and has_keys and key_lengths[row] >= 0:
            partition = (murmur2(keys, key_starts[row], key_lengths[row]) & 0x7FFF_FFFF) % count
        elif partition < 0:
            if sticky[1] >= sticky_bytes:
                sticky[0] = (sticky[0] + 1) % len(available)
                sticky[1] = 0
            sticky[1] += sizes[row]
            partition = available[sticky[0]]
        partitions[number] = partition
    return ALL_ENCODED
