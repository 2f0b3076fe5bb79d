"""Record batches of format 2 (magic 2), on the wire and on disk: the header and the fields a broker sets.

The header has 61 bytes, big-endian: base offset (8), length of the rest (4), partition leader epoch (4), magic (1),
CRC-32C (4), attributes (2), last offset delta (4), base timestamp (8), max timestamp (8), producer id (8), producer
epoch (2), base sequence (4), record count (4). Attributes: codec in bits 0 to 2, timestamp type in bit 3,
transactional in bit 4, control in bit 5, and in bit 6 "the base timestamp is a delete horizon" (KIP-534).

Invariants:
- A `RecordBatch` is a view: it copies no bytes, and a setter changes the buffer and the field.
- An incomplete batch is never returned. A consumer ignores the bytes after the last complete batch; a log truncates
  them.
- Iteration reads headers only. `check_batch` reads every byte that the checksum covers.
- The checksum starts at the attributes. Setting the base offset or the leader epoch keeps it valid; setting a
  timestamp recomputes it.
- Magic 0 and 1 (before Kafka 0.11) are rejected with an error that names them.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, Self

from slackwater.wire.errors import WireError
from slackwater.wire.records.compression import Buffer, Codec
from slackwater.wire.records.crc import crc32c

MAGIC: Final = 2
HEADER_BYTES: Final = 61
LENGTH_AT: Final = 8
LENGTH_ENDS_AT: Final = 12
_MIN_LENGTH: Final = HEADER_BYTES - LENGTH_ENDS_AT
MAGIC_ENDS_AT: Final = 17
NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1

CODEC_MASK: Final = 0b0000111
LOG_APPEND_TIME_BIT: Final = 0b0001000
TRANSACTIONAL_BIT: Final = 0b0010000
CONTROL_BIT: Final = 0b0100000
DELETE_HORIZON_BIT: Final = 0b1000000
_KNOWN_ATTRIBUTES: Final = 0b1111111

_CODECS: Final = tuple(Codec)
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">qi")
_LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
_LAST_OFFSET_DELTA_AT: Final = 23
_MAX_TIMESTAMP_AT: Final = 35
_INT32: Final = struct.Struct(">i")


class TimestampType(IntEnum):
    """Whether the producer or the broker set the timestamps of a batch."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader:
    """The 61 bytes before the records. The records may be missing."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        """Read the header at byte `position`."""
        left = len(buffer) - position
        if left < HEADER_BYTES:
            raise WireError(f"Record batch: a header has {HEADER_BYTES} bytes, but only {max(left, 0)} are left.")
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, position)
        if self.magic != MAGIC or self.batch_length < _MIN_LENGTH:
            _check_frame(self.base_offset, self.batch_length, self.magic)

    @property
    def size(self) -> int:
        """Size of the batch in bytes, header included."""
        return self.batch_length + LENGTH_ENDS_AT

    @property
    def last_offset(self) -> int:
        """Offset of the last record when the batch was written; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after this batch."""
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        """The codec of the records."""
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise self.error(f"unknown codec {number} in its attributes; known are 0 to {len(_CODECS) - 1}")
        return _CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps."""
        is_append_time = self.attributes & LOG_APPEND_TIME_BIT
        return TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record, for example a transaction marker, instead of data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time after which compaction may remove the tombstones and markers of this batch (KIP-534), or None."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote this batch."""
        return self.producer_id > NO_PRODUCER_ID

    def error(self, reason: str) -> WireError:
        """Create an error that names this batch."""
        return WireError(f"Record batch at offset {self.base_offset}: {reason}.")


class RecordBatch(BatchHeader):
    """A complete batch: header, a view of all its bytes, and its position in the buffer that contains it."""

    __slots__ = ("buffer", "data", "position")

    buffer: memoryview
    data: memoryview
    position: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        """Take the batch at byte `position`, which must be complete."""
        BatchHeader.__init__(self, buffer, position)  # a fetch has thousands of batches: super() would be slower
        end = position + self.batch_length + LENGTH_ENDS_AT
        if end > len(buffer):
            raise self.error(f"it has {self.size} bytes, but only {len(buffer) - position} are left")
        self.buffer = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
        self.position = position
        self.data = self.buffer[position:end]

    @property
    def payload(self) -> memoryview:
        """The records, still compressed."""
        return self.data[HEADER_BYTES:]

    def computed_crc(self) -> int:
        """Compute the checksum of the bytes."""
        return crc32c(self.data[ATTRIBUTES_AT:])

    def set_base_offset(self, offset: int) -> None:
        """Set the offset of the first record; the others are relative to it."""
        struct.pack_into(">q", self.data, 0, offset)
        self.base_offset = offset

    def set_partition_leader_epoch(self, epoch: int) -> None:
        """Set the epoch of the leader that appended the batch."""
        struct.pack_into(">i", self.data, _LEADER_EPOCH_AT, epoch)
        self.partition_leader_epoch = epoch

    def set_max_timestamp(self, timestamp_type: TimestampType, timestamp: int) -> None:
        """Set the max timestamp and the timestamp type, and update the checksum if either changed."""
        if self.timestamp_type is timestamp_type and self.max_timestamp == timestamp:
            return
        attributes = self.attributes & _KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME_BIT
        attributes |= LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
        struct.pack_into(">h", self.data, ATTRIBUTES_AT, attributes)
        struct.pack_into(">q", self.data, _MAX_TIMESTAMP_AT, timestamp)
        self.attributes = attributes
        self.max_timestamp = timestamp
        self.crc = self.computed_crc()
        struct.pack_into(">I", self.data, CRC_AT, self.crc)

    def set_log_append_time(self, now_ms: int) -> None:
        """Set the timestamp of every record to the broker's time (`message.timestamp.type=LogAppendTime`)."""
        self.set_max_timestamp(TimestampType.LOG_APPEND_TIME, now_ms)


class BatchIterator:
    """Iterates over the complete batches in a buffer.

    `end` is the position after the last batch that was returned, also after a `WireError`. At the end of the iteration
    `trailing_bytes` is the size of the incomplete batch that follows.
    """

    __slots__ = ("buffer", "end")

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = memoryview(buffer)
        self.end = position

    @property
    def trailing_bytes(self) -> int:
        """Number of bytes after `end`."""
        return len(self.buffer) - self.end

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RecordBatch:
        position = self.end
        left = len(self.buffer) - position
        if left < MAGIC_ENDS_AT:
            raise StopIteration
        base_offset, length = _LENGTH.unpack_from(self.buffer, position)
        size = length + LENGTH_ENDS_AT
        if left < HEADER_BYTES or size > left:
            _check_frame(base_offset, length, self.buffer[position + MAGIC_AT])
            raise StopIteration
        batch = RecordBatch(self.buffer, position)
        self.end = position + size
        return batch


def iter_batches(buffer: Buffer, position: int = 0) -> BatchIterator:
    """Iterate over the batches in `buffer`, starting at byte `position`."""
    return BatchIterator(buffer, position)


def end_offset(buffer: Buffer) -> int | None:
    """Return the offset after the last complete batch in `buffer`, or None if there is none. Reads only lengths."""
    position, size, next_offset = 0, len(buffer), None
    while size - position >= HEADER_BYTES:
        base_offset, length = _LENGTH.unpack_from(buffer, position)
        if not 0 < length <= size - position - LENGTH_ENDS_AT:
            break
        (delta,) = _INT32.unpack_from(buffer, position + _LAST_OFFSET_DELTA_AT)
        next_offset = base_offset + delta + 1
        position += length + LENGTH_ENDS_AT
    return next_offset


def complete_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """Iterate over the batches of a produce request. An incomplete batch at the end is an error."""
    batches = BatchIterator(buffer)
    yield from batches
    if batches.trailing_bytes:
        raise WireError(
            f"Record batches: {batches.trailing_bytes} bytes follow the last complete batch at byte {batches.end}."
        )


def check_batch(batch: RecordBatch) -> None:
    """Raise unless codec, record count and checksum are valid. The constructor has checked size and magic."""
    if batch.record_count < 0:
        raise batch.error(f"its record count is {batch.record_count}")
    if batch.last_offset_delta < 0:
        raise batch.error(f"its last offset {batch.last_offset} is before its base offset")
    if batch.attributes & CODEC_MASK >= len(_CODECS):
        _ = batch.codec  # raises
    crc = crc32c(batch.data[ATTRIBUTES_AT:])
    if crc != batch.crc:
        raise batch.error(f"CRC mismatch: computed {crc:#010x}, header has {batch.crc:#010x}; the batch is corrupt")


def _check_frame(base_offset: int, length: int, magic: int) -> None:
    """Raise unless magic and length are those of a batch in format 2."""
    batch = f"Record batch at offset {base_offset}"
    if magic != MAGIC:
        if magic in (0, 1):
            reason = "a format from before Kafka 0.11; only magic 2 is supported"
        else:
            reason = "but only 2 is supported; this is not a record batch, or it is corrupt"
        raise WireError(f"{batch}: its magic is {magic}, {reason}.")
    if length < _MIN_LENGTH:
        raise WireError(f"{batch}: its length is {length}, but the header alone has {_MIN_LENGTH}.")
