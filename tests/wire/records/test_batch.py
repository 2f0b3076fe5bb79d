"""Batch headers: fields, iteration, checks, and the fields that a broker sets."""

import struct

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    RecordBatch,
    TimestampType,
    check_batch,
    complete_batches,
    iter_batches,
)
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import BatchBuilder, Record, decode_records, encode_batch

RECORDS = [Record(b"k", b"v" * size, (), 1_700_000_000_000 + size) for size in (0, 3, 200)]


def with_field(at: int, form: str, value: int) -> bytearray:
    """Return a batch with one field changed and a valid checksum."""
    data = encode_batch(RECORDS, base_offset=40)
    struct.pack_into(form, data, at, value)
    with memoryview(data):
        crc = RecordBatch(data).computed_crc()
    struct.pack_into(">I", data, 17, crc)
    return data


def test_a_header_is_read_from_its_61_bytes_alone() -> None:
    data = encode_batch(
        RECORDS, base_offset=40, codec=Codec.ZSTD, transactional=True, producer_id=9, producer_epoch=2, base_sequence=7
    )
    header = BatchHeader(b"before" + bytes(data[:HEADER_BYTES]), 6)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 42, 43)
    assert (header.size, header.batch_length) == (len(data), len(data) - 12)
    assert (header.magic, header.partition_leader_epoch, header.record_count) == (2, -1, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 7)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_200)
    assert (header.codec, header.timestamp_type) == (Codec.ZSTD, TimestampType.CREATE_TIME)
    assert (header.is_transactional, header.is_control, header.has_producer_id) == (True, False, True)
    assert header.delete_horizon_ms is None


def test_delete_horizon_replaces_base_timestamp() -> None:
    builder = BatchBuilder(delete_horizon_ms=1_600_000_000_000)
    builder.append(RECORDS[0])
    batch = RecordBatch(builder.build())
    assert batch.delete_horizon_ms == 1_600_000_000_000
    assert next(decode_records(batch)).timestamp == 1_700_000_000_000


def test_iteration_does_not_copy() -> None:
    data = bytearray(encode_batch(RECORDS) + encode_batch(RECORDS, base_offset=3))
    first, second = iter_batches(data)
    assert (first.position, second.position) == (0, len(data) // 2)
    second.set_base_offset(77)
    assert [batch.base_offset for batch in iter_batches(data)] == [0, 77]
    assert [batch.base_offset for batch in iter_batches(data, second.position)] == [77]


@pytest.mark.parametrize("size", [0, 1, 11, 16, 17, 30, 60, 61, 100])
def test_incomplete_batch_is_not_returned(size: int) -> None:
    complete = encode_batch(RECORDS)
    batches = iter_batches(complete + complete[:size])
    assert [batch.record_count for batch in batches] == [3]
    assert (batches.end, batches.trailing_bytes) == (len(complete), size)
    if size:
        with pytest.raises(WireError, match=f"{size} bytes follow the last complete batch at byte {len(complete)}"):
            list(complete_batches(complete + complete[:size]))
    else:
        assert len(list(complete_batches(complete))) == 1


@pytest.mark.parametrize("tail", [bytes(17), bytes(500)], ids=["short", "long"])
def test_end_is_known_after_invalid_bytes(tail: bytes) -> None:
    complete = encode_batch(RECORDS)
    batches = iter_batches(complete + tail)
    next(batches)
    with pytest.raises(WireError, match="magic is 0"):
        next(batches)
    assert batches.end == len(complete)


@pytest.mark.parametrize(
    ("at", "form", "value", "message"),
    [
        (16, ">b", 0, r"offset 40: its magic is 0, a format from before Kafka 0\.11"),
        (16, ">b", 1, r"its magic is 1, a format from before Kafka 0\.11"),
        (16, ">b", 7, r"its magic is 7, but only 2 is supported"),
        (8, ">i", 48, r"its length is 48, but the header alone has 49"),
        (8, ">i", -1, r"its length is -1"),
        (8, ">i", 10_000, r"it has 10012 bytes, but only \d+ are left"),
    ],
)
def test_invalid_header_is_rejected(at: int, form: str, value: int, message: str) -> None:
    data = encode_batch(RECORDS, base_offset=40)
    struct.pack_into(form, data, at, value)
    with pytest.raises(WireError, match=message):
        RecordBatch(data)


@pytest.mark.parametrize("size", [0, 60])
def test_truncated_header_is_rejected(size: int) -> None:
    with pytest.raises(WireError, match=f"a header has 61 bytes, but only {size} are left"):
        BatchHeader(bytes(encode_batch(RECORDS)[:size]))


@pytest.mark.parametrize(
    ("at", "form", "value", "message"),
    [
        (57, ">i", -1, "its record count is -1"),
        (23, ">i", -1, "its last offset 39 is before its base offset"),
        (21, ">h", 5, "unknown codec 5 in its attributes; known are 0 to 4"),
    ],
)
def test_check_rejects_contradicting_header(at: int, form: str, value: int, message: str) -> None:
    with pytest.raises(WireError, match=message):
        check_batch(RecordBatch(with_field(at, form, value)))


def test_checksum_covers_every_byte_after_it() -> None:
    data = encode_batch(RECORDS)
    check_batch(RecordBatch(data))
    for at in (*range(17, 23), *range(27, len(data))):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(WireError, match=r"computed 0x\w{8}, header has 0x\w{8}|record count|codec"):
            check_batch(RecordBatch(damaged))


def test_offset_and_leader_epoch_keep_checksum_valid() -> None:
    data = encode_batch(RECORDS)
    batch = RecordBatch(data)
    crc = batch.crc
    batch.set_base_offset(2**40)
    batch.set_partition_leader_epoch(12)
    again = RecordBatch(data)
    check_batch(again)
    assert (again.base_offset, again.partition_leader_epoch, again.crc) == (2**40, 12, crc)
    assert (batch.base_offset, batch.partition_leader_epoch) == (2**40, 12)
    assert [record.offset for record in decode_records(again)] == [2**40, 2**40 + 1, 2**40 + 2]


def test_log_append_time_applies_to_every_record() -> None:
    data = encode_batch(RECORDS, codec=Codec.LZ4, transactional=True)
    batch = RecordBatch(data)
    batch.set_log_append_time(1_800_000_000_000)
    again = RecordBatch(data)
    check_batch(again)
    assert (batch.crc, batch.attributes, batch.max_timestamp) == (again.crc, again.attributes, 1_800_000_000_000)
    assert (again.timestamp_type, again.codec) == (TimestampType.LOG_APPEND_TIME, Codec.LZ4)
    assert again.is_transactional
    assert {record.timestamp for record in decode_records(again)} == {1_800_000_000_000}
    again.set_max_timestamp(TimestampType.CREATE_TIME, 1_700_000_000_200)
    assert data == encode_batch(RECORDS, codec=Codec.LZ4, transactional=True)


def test_setting_same_timestamp_keeps_wrong_checksum() -> None:
    data = encode_batch(RECORDS)
    data[17:21] = bytes(4)
    batch = RecordBatch(data)
    batch.set_max_timestamp(TimestampType.CREATE_TIME, batch.max_timestamp)
    assert batch.crc == 0
    with pytest.raises(WireError, match="the batch is corrupt"):
        check_batch(batch)


def test_readonly_buffer_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        RecordBatch(bytes(encode_batch(RECORDS))).set_base_offset(1)
