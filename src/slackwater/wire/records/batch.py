"""Record batches of format 2 (magic 2), on the wire and on disk: the header, and what a broker does to it.

Rules kept here
- Nothing is copied. A `RecordBatch` is a view of the bytes it was found in; a setter writes into those very bytes, and
  the fields of the view follow.
- A batch that is not whole is never given out. Whoever walks over batches learns where the last whole one ended and
  how many bytes hang over: a consumer ignores them, a log cuts them off.
- Walking reads headers alone; `check` reads every byte that the checksum covers. The checksum begins behind itself, at
  the attributes, so base offset and leader epoch are set without computing it anew; a timestamp is not.
- The formats before Kafka 0.11 (magic 0 and 1) are refused by name.

The header, 61 bytes, big-endian: base offset (8), length of what follows (4), partition leader epoch (4), magic (1),
CRC-32C (4), attributes (2), last offset delta (4), base timestamp (8), max timestamp (8), producer id (8), producer
epoch (2), base sequence (4), record count (4). The attributes: codec in bits 0 to 2, timestamp type in bit 3,
transactional in bit 4, control in bit 5, and in bit 6 "the base timestamp is a delete horizon" (KIP-534).
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
LENGTH_ENDS_AT: Final = 12
_LEAST_LENGTH: Final = HEADER_BYTES - LENGTH_ENDS_AT
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
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
_LAST_OFFSET_DELTA_AT: Final = 23
_MAX_TIMESTAMP_AT: Final = 35
_INT32: Final = struct.Struct(">i")


class TimestampType(IntEnum):
    """Whose clock a batch's timestamps are from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader:
    """The 61 bytes before the records, as they stand: nothing is known yet of the bytes behind them."""

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

    def __init__(self, buffer: Buffer, at: int = 0) -> None:
        """Read the header at byte `at`, where HEADER_BYTES must be left."""
        left = len(buffer) - at
        if left < HEADER_BYTES:
            raise WireError(f"Record batch: a header takes {HEADER_BYTES} bytes, and {max(left, 0)} are left.")
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
        ) = HEADER.unpack_from(buffer, at)
        if self.magic != MAGIC or self.batch_length < _LEAST_LENGTH:
            _check_frame(self.base_offset, self.batch_length, self.magic)

    @property
    def size(self) -> int:
        """The bytes of the whole batch, header and records."""
        return self.batch_length + LENGTH_ENDS_AT

    @property
    def last_offset(self) -> int:
        """The offset of the last record the batch was written with; compaction may have taken that record away."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset that follows this batch."""
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        """How the records are packed."""
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise self.wrong(f"its attributes name codec {number}, and there are 0 to {len(_CODECS) - 1}")
        return _CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whose clock the timestamps are from."""
        stamped = self.attributes & LOG_APPEND_TIME_BIT
        return TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker for brokers and clients instead of somebody's records."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on the tombstones and markers in this batch may be forgotten (KIP-534), or None."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote this batch."""
        return self.producer_id > NO_PRODUCER_ID

    def wrong(self, why: str) -> WireError:
        """The error to raise."""
        return WireError(f"Record batch at offset {self.base_offset}: {why}.")


class RecordBatch(BatchHeader):
    """A whole batch: its header, a view of all its bytes, and where they stand in the buffer they were found in."""

    __slots__ = ("at", "data", "source")

    data: memoryview
    source: memoryview
    at: int

    def __init__(self, buffer: Buffer, at: int = 0) -> None:
        """Take the batch at byte `at`, which must be whole; what follows it is not looked at."""
        super().__init__(buffer, at)
        end = at + self.batch_length + LENGTH_ENDS_AT
        if end > len(buffer):
            raise self.wrong(f"it takes {self.size} bytes, and {len(buffer) - at} are left")
        self.source = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
        self.at = at
        self.data = self.source[at:end]

    @property
    def payload(self) -> memoryview:
        """The records, packed as the codec says."""
        return self.data[HEADER_BYTES:]

    def computed_crc(self) -> int:
        """The checksum that the bytes have, whatever the header says."""
        return crc32c(self.data[ATTRIBUTES_AT:])

    def set_base_offset(self, offset: int) -> None:
        """Give the first record its place in the log; the others follow."""
        struct.pack_into(">q", self.data, 0, offset)
        self.base_offset = offset

    def set_partition_leader_epoch(self, epoch: int) -> None:
        """Say under which leader the batch was appended."""
        struct.pack_into(">i", self.data, _LEADER_EPOCH_AT, epoch)
        self.partition_leader_epoch = epoch

    def set_max_timestamp(self, timestamp_type: TimestampType, timestamp: int) -> None:
        """Set the newest timestamp and whose clock it is from; the checksum follows if anything changed."""
        if self.timestamp_type is timestamp_type and self.max_timestamp == timestamp:
            return
        kept = self.attributes & _KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME_BIT
        attributes = kept | (LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        struct.pack_into(">h", self.data, ATTRIBUTES_AT, attributes)
        struct.pack_into(">q", self.data, _MAX_TIMESTAMP_AT, timestamp)
        self.attributes = attributes
        self.max_timestamp = timestamp
        self.crc = self.computed_crc()
        struct.pack_into(">I", self.data, _CRC_AT, self.crc)

    def set_log_append_time(self, now_ms: int) -> None:
        """Give every record of the batch the broker's time (`message.timestamp.type=LogAppendTime`)."""
        self.set_max_timestamp(TimestampType.LOG_APPEND_TIME, now_ms)


class Batches:
    """The batches that follow each other in a buffer.

    While it is walked over, `end` is the byte behind the last whole batch; when the walk is over, `torn` bytes of an
    unfinished one are left behind it. After a `WireError` the bytes before `end` are still whole batches.
    """

    __slots__ = ("buffer", "end")

    def __init__(self, buffer: Buffer, at: int = 0) -> None:
        self.buffer = memoryview(buffer)
        self.end = at

    @property
    def torn(self) -> int:
        """The bytes behind the last whole batch."""
        return len(self.buffer) - self.end

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RecordBatch:
        at = self.end
        left = len(self.buffer) - at
        if left < MAGIC_ENDS_AT:
            raise StopIteration
        base_offset, length = _LENGTH.unpack_from(self.buffer, at)
        if left < HEADER_BYTES or length > left - LENGTH_ENDS_AT:
            _check_frame(base_offset, length, self.buffer[at + _MAGIC_AT])
            raise StopIteration
        batch = RecordBatch(self.buffer, at)
        self.end = at + length + LENGTH_ENDS_AT
        return batch


def iter_batches(buffer: Buffer, at: int = 0) -> Batches:
    """Walk over the batches in `buffer` from byte `at` on; see `Batches` for what is left over."""
    return Batches(buffer, at)


def end_offset(buffer: Buffer) -> int | None:
    """The offset behind the last whole batch in `buffer`, found by the lengths alone; None if there is no whole one."""
    at, size, found = 0, len(buffer), None
    while size - at >= HEADER_BYTES:
        base_offset, length = _LENGTH.unpack_from(buffer, at)
        if not 0 < length <= size - at - LENGTH_ENDS_AT:
            break
        (delta,) = _INT32.unpack_from(buffer, at + _LAST_OFFSET_DELTA_AT)
        found = base_offset + delta + 1
        at += length + LENGTH_ENDS_AT
    return found


def whole_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """The batches of a produce request, which must be whole: what hangs over is an error."""
    batches = Batches(buffer)
    yield from batches
    if batches.torn:
        raise WireError(f"Record batches: {batches.torn} bytes after the last whole batch, at byte {batches.end}.")


def check(batch: RecordBatch) -> None:
    """Raise unless codec, count and checksum are right; size and magic were looked at when the batch was taken."""
    if batch.record_count < 0:
        raise batch.wrong(f"it announces {batch.record_count} records")
    if batch.last_offset_delta < 0:
        raise batch.wrong(f"its last offset is {batch.last_offset}, before its first")
    _ = batch.codec
    crc = crc32c(batch.data[ATTRIBUTES_AT:])
    if crc != batch.crc:
        raise batch.wrong(f"its CRC-32C is {crc:#010x}, and its header says {batch.crc:#010x}; the bytes are damaged")


def check_produced(batch: RecordBatch) -> None:
    """Raise unless a producer may have written this: `check`, and what Kafka's LogValidator asks of clients."""
    check(batch)
    if batch.record_count == 0:
        raise batch.wrong("it holds no records, and a producer's batch has one at least")
    if batch.last_offset_delta + 1 != batch.record_count:
        raise batch.wrong(f"it announces {batch.record_count} records over {batch.last_offset_delta + 1} offsets")
    if batch.is_control:
        raise batch.wrong("it is a control batch, which clients may not write")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise batch.wrong(f"producer {batch.producer_id} numbers it {batch.base_sequence}; sequences begin at 0")


def _check_frame(base_offset: int, length: int, magic: int) -> None:
    """Raise unless a batch of our format can stand here."""
    what = f"Record batch at offset {base_offset}"
    if magic != MAGIC:
        if magic in (0, 1):
            why = "a format from before Kafka 0.11; only magic 2 is read, which every client writes since then"
        else:
            why = "and there are 0 to 2; these bytes are no record batch, or damaged"
        raise WireError(f"{what}: its magic is {magic}, {why}.")
    if length < _LEAST_LENGTH:
        raise WireError(f"{what}: its length is {length}, and its header alone takes {_LEAST_LENGTH}.")
