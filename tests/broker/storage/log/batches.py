"""Helpers: record batches as a producer sends them, and the records that a log returns."""

import contextlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from slackwater.broker.slices import run_to_completion
from slackwater.broker.storage.log import cleaner
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.records import decompress_records, iter_record_views, timestamp_of
from slackwater.broker.storage.log.timestamp_search import TimestampOffset
from slackwater.broker.storage.log.validation import Rejection
from slackwater.wire.records.batch import HEADER, HEADER_BYTES, check_batch, complete_batches
from slackwater.wire.records.compression import Codec, compress
from slackwater.wire.records.varints import encode_varint

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, file_delete_delay_ms=0)
COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1500,
    index_interval_bytes=200,
    file_delete_delay_ms=0,
    min_cleanable_dirty_ratio=0.0,
)


@dataclass(frozen=True)
class Sent:
    """A record to send."""

    key: bytes | None = b"k"
    value: bytes | None = b"v"
    timestamp: int = NOW_MS


@dataclass(frozen=True)
class Read:
    """A record read from a log."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def batch(
    *sent: Sent,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
    count: int | None = None,
    last_delta: int | None = None,
    max_timestamp: int | None = None,
    payload: bytes | None = None,
) -> bytearray:
    """Build a batch; the last arguments overwrite header fields and the payload."""
    sent = sent or (Sent(),)
    base_timestamp = sent[0].timestamp
    records = b"".join(_record(number, record, base_timestamp) for number, record in enumerate(sent))
    body = compress(codec, records) if payload is None else payload
    data = bytearray(HEADER_BYTES + len(body))
    HEADER.pack_into(
        data,
        0,
        0,
        len(data) - 12,
        -1,
        2,
        0,
        attributes | codec,
        len(sent) - 1 if last_delta is None else last_delta,
        base_timestamp,
        max(record.timestamp for record in sent) if max_timestamp is None else max_timestamp,
        producer_id,
        epoch,
        sequence,
        len(sent) if count is None else count,
    )
    data[HEADER_BYTES:] = body
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def sized(size: int, value: bytes = b"x", timestamp: int = NOW_MS) -> bytearray:
    """Build a batch of one record with exactly this size."""
    length = size - len(batch(Sent(b"k", b"", timestamp)))
    while True:
        data = batch(Sent(b"k", value * length, timestamp))
        if len(data) == size:
            return data
        length -= len(data) - size


def _record(number: int, sent: Sent, base_timestamp: int) -> bytes:
    body = b"\0" + encode_varint(sent.timestamp - base_timestamp) + encode_varint(number)
    for part in (sent.key, sent.value):
        body += encode_varint(-1) if part is None else encode_varint(len(part)) + part
    body += encode_varint(0)
    return encode_varint(len(body)) + body


def read_records(data: bytes | memoryview) -> list[Read]:
    """Return the records of batches with valid checksums."""
    records = []
    for stored in complete_batches(data):
        check_batch(stored)
        payload = decompress_records(stored)
        for record in iter_record_views(stored, payload):
            value = _value(payload, record.timestamp_ends_at) if record.has_value else None
            offset = stored.base_offset + record.offset_delta
            records.append(Read(offset, record.key, value, timestamp_of(stored, record)))
    return records


def _value(payload: bytes, at: int) -> bytes:
    _, at = _varint(payload, at)
    length, at = _varint(payload, at)
    length, at = _varint(payload, at + max(length, 0))
    return payload[at : at + length]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def contents(log: PartitionLog, max_bytes: int = 1000) -> list[Read]:
    """Return all records of a log, read as a consumer reads them."""
    offset, records = log.log_start_offset, list[Read]()
    while True:
        data = log.read(offset, max_bytes)
        assert not isinstance(data, Rejection)
        if not data:
            return records
        records += [record for record in read_records(data) if record.offset >= offset]
        *_, last = complete_batches(data)
        offset = last.next_offset


def reopen(log: PartitionLog, *, now_ms: int = NOW_MS, clean: bool = False) -> PartitionLog:
    """Open the log again, as after a kill."""
    log.close_unclean()
    return PartitionLog.open(log.directory, log.config, now_ms, clean_shutdown=clean)


def opened(path: Path, config: LogConfig = SMALL) -> PartitionLog:
    """Open a log in a directory."""
    return PartitionLog.open(path, config, NOW_MS)


def appended(log: PartitionLog, *sent: Sent, now_ms: int = NOW_MS) -> AppendInfo:
    """Append one batch, which must succeed."""
    result = log.append(batch(*sent), now_ms)
    assert isinstance(result, AppendInfo), result
    return result


def fill(log: PartitionLog, batches: int, *, size: int = 100, step_ms: int = 0, start_ms: int = NOW_MS) -> None:
    """Append batches of one record and `size` bytes, with timestamps `step_ms` apart."""
    results = log.append_many([sized(size, timestamp=start_ms + step_ms * at) for at in range(batches)], NOW_MS)
    assert all(isinstance(result, AppendInfo) for result in results), results


def keyed(log: PartitionLog, number: int, keys: int = 7, codec: Codec = Codec.NONE) -> None:
    """Append batches of three records with few keys; every eleventh value is null."""
    for at in range(number):
        sent = [
            Sent(b"k%d" % ((at * 3 + index) % keys), None if (at + index) % 11 == 0 else b"v%d-%d" % (at, index))
            for index in range(3)
        ]
        assert isinstance(log.append(batch(*sent, codec=codec), NOW_MS), AppendInfo)


def values(log: PartitionLog) -> Sequence[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of all records of a log."""
    return [(record.offset, record.key, record.value) for record in contents(log)]


def offset_at(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """Return the first record at or after a timestamp, as ListOffsets finds it."""
    return run_to_completion(log.search_timestamp(timestamp))


def open_descriptors(directory: Path) -> int:
    """Return how many descriptors of this process are open below a directory."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # another thread has closed it
            count += os.readlink(f"/proc/self/fd/{name}").startswith(f"{directory}/")
    return count


def compact(log: PartitionLog, now_ms: int) -> bool:
    """Plan, clean and install in one call; return whether anything was cleaned."""
    plan = cleaner.plan(log, now_ms)
    return plan is not None and cleaner.install(log, cleaner.clean(plan), now_ms)
