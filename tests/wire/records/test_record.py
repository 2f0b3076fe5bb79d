"""Encoding records, the plain decoder, and the errors of both."""

import struct
from random import Random

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records import record as record_module
from slackwater.wire.records.batch import HEADER_BYTES, RecordBatch, check_batch
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import (
    NO_HEADERS,
    BatchBuilder,
    ControlType,
    Record,
    control_type,
    decode_records,
    encode_batch,
    pack_headers,
)
from tests.wire.records.transaction_markers import end_transaction_marker

from .random_records import random_records


def batch_of(payload: bytes, count: int = 1, **header: int) -> RecordBatch:
    """Return a batch with these bytes as payload."""
    data = encode_batch([], base_offset=100) + payload
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    batch = RecordBatch(data)
    for name, value in header.items():
        setattr(batch, name, value)
    return batch


@pytest.mark.parametrize("base_offset", [0, 5])
def test_extend_gives_same_bytes_as_append(base_offset: int) -> None:
    random = Random(1)
    sizes = (0, 1, 63, 64, 8_191, 8_192, 20_000)
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (random.randbytes(key_size), random.randbytes(value_size)) for key_size in sizes for value_size in sizes
    ]
    pairs += [(None, b"v"), (b"k", None)] + [(b"k", b"v")] * 100
    appended, extended = BatchBuilder(base_offset), BatchBuilder(base_offset)
    for start, stop, timestamp in ((0, 30, 1_000), (30, 60, 70_000), (60, len(pairs), 500)):
        extended.extend(pairs[start:stop], timestamp)
        for key, value in pairs[start:stop]:
            appended.append(Record(key, value, timestamp=timestamp))
    assert extended.build() == appended.build()
    assert extended.size == appended.size
    with pytest.raises(WireError, match="timestamp -2"):
        extended.extend([(b"k", b"v")], -2)


def test_extend_packed_gives_same_bytes_as_append() -> None:
    headers = [("h", b"1"), ("ü", None)]
    appended, extended = BatchBuilder(), BatchBuilder()
    records = [
        Record(
            b"k" * (number % 1_100), None if number % 7 == 0 else b"v" * number, headers[: number % 3], 5_000 + number
        )
        for number in range(1_500)
    ]
    for record in records:
        appended.append(record)
    packed = [(record.key, record.value, pack_headers(record.headers), record.timestamp) for record in records]
    extended.extend_packed(packed[:700])
    extended.extend_packed(packed[700:])
    assert extended.build() == appended.build()
    assert (extended.size, extended.count) == (appended.size, appended.count)


def test_invalid_timestamp_leaves_batch_unchanged() -> None:
    builder = BatchBuilder()
    builder.extend_packed([(b"k", b"v", NO_HEADERS, 5)])
    before = builder.build()
    with pytest.raises(WireError, match="timestamp -2 is negative"):
        builder.extend_packed([(b"a", b"b", NO_HEADERS, 6), (b"c", b"d", NO_HEADERS, -2)])
    assert builder.build() == before


@pytest.mark.parametrize("codec", list(Codec))
def test_encode_decode_round_trip(codec: Codec) -> None:
    for seed in range(20):
        records = random_records(Random(seed))
        batch = RecordBatch(encode_batch(records, base_offset=records[0].offset, codec=codec))
        check_batch(batch)
        assert list(decode_records(batch)) == records
        assert batch.max_timestamp == max(record.timestamp for record in records)


def test_encoded_bytes() -> None:
    """Bytes as Kafka's `MemoryRecordsBuilder` writes them; test_java.py compares with Kafka."""
    data = encode_batch([Record(None, b"hi", (("h", None),), 1_700_000_000_000), Record(b"", None)])
    first = bytes.fromhex("16 00 00 00 01 04") + b"hi" + bytes.fromhex("02 02") + b"h" + bytes.fromhex("01")
    second = bytes.fromhex("16 00 81a0abfef962 02 00 01 00")
    assert data[HEADER_BYTES:] == first + second


def test_offsets_are_consecutive_by_default() -> None:
    records = [Record(b"a", None), Record(b"b", None, offset=60), Record(b"c", None)]
    batch = RecordBatch(encode_batch(records, base_offset=50))
    assert [record.offset for record in decode_records(batch)] == [50, 60, 61]
    assert (batch.last_offset, batch.record_count) == (61, 3)


def test_empty_batch_after_compaction() -> None:
    builder = BatchBuilder(50)
    batch = RecordBatch(builder.build(codec=Codec.ZSTD, last_offset=59))
    check_batch(batch)
    assert (batch.record_count, batch.last_offset, batch.codec, batch.size) == (0, 59, Codec.NONE, HEADER_BYTES)
    assert list(decode_records(batch)) == []
    assert list(decode_records(batch_of(b"nonsense", count=0))) == []


def test_builder_size_is_uncompressed_size() -> None:
    builder = BatchBuilder()
    for record in random_records(Random(4)):
        builder.append(record._replace(offset=-1))
        assert builder.size == len(builder.build())


@pytest.mark.parametrize("offset", [49, 50 + 2**31])
def test_offset_outside_batch_is_rejected(offset: int) -> None:
    with pytest.raises(WireError, match=f"offset {offset} does not follow 49 in a batch with base offset 50"):
        encode_batch([Record(None, None, offset=offset)], base_offset=50)


def test_offsets_must_increase() -> None:
    with pytest.raises(WireError, match="offset 52 does not follow 52"):
        encode_batch([Record(None, None, offset=52), Record(None, None, offset=52)], base_offset=50)


def test_negative_timestamp_is_rejected() -> None:
    with pytest.raises(WireError, match="timestamp -2 is negative"):
        encode_batch([Record(None, None, timestamp=-2)])


def test_invalid_header_key_is_rejected() -> None:
    with pytest.raises(WireError, match="header key is not valid UTF-8"):
        encode_batch([Record(None, None, (("\ud800", None),))])


def test_too_large_header_number_is_rejected() -> None:
    with pytest.raises(WireError, match="a number does not fit into its header"):
        encode_batch([Record(None, None)], producer_epoch=2**15)


def test_too_large_batch_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "_MAX_SIZE", 1000)
    with pytest.raises(WireError, match=r"the batch would have 1070 bytes; at most 1000 fit"):
        encode_batch([Record(None, bytes(1000))])


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("", "1 records do not fit into 0 bytes"),
        ("0c0000000101", "1 records do not fit into 6 bytes"),
        ("0100000001010000", "record 0 has length -1, but 7 bytes are left"),
        ("1000000001010000", "record 0 has length 8, but 7 bytes are left"),
        ("0e00000001010000", "record 0 has length 7, but its fields have 6 bytes"),
        ("0c0000000101000000", "2 bytes follow its 1 records"),
        ("0a00000001010000", "record 0 has 0 headers, but -1 bytes are left"),
        ("0c00000001010100", "record 0 has -1 headers"),
        ("0c00000001010e00", "record 0 has 7 headers, but 0 bytes are left"),
        ("10000000010102 01 00", "record 0 has a header without a key"),
        ("0e 00 00 00 01 01 80 80", "record 0 is truncated"),
        ("0e 00 00 00 02 61 01 7e", "record 0 has 63 headers, but 0 bytes are left"),
        ("0e 00 00 00 7e 61 01 00", "record 0 is truncated"),
        ("18 00 00 ffffffffff00 01 01 00 00 00", "record 0 has a varint that is too long"),
        ("24 00 ffffffffffffffffffff00 00 01 01 00 00 00", "record 0 has a varint that is too long"),
    ],
)
def test_corrupt_record_is_rejected(payload: str, message: str) -> None:
    with pytest.raises(WireError, match=f"^Record batch at offset 100: ({message})"):
        list(decode_records(batch_of(bytes.fromhex(payload))))


def test_invalid_compression_error_names_offset() -> None:
    with pytest.raises(WireError, match="Record batch at offset 100: Cannot decompress 8 bytes of gzip"):
        list(decode_records(batch_of(b"nonsense", attributes=Codec.GZIP.value)))


def test_records_before_corrupt_one_are_returned() -> None:
    records = decode_records(batch_of(bytes.fromhex("0c000000010100" + "0d000000010100"), count=2))
    assert next(records) == Record(None, None, (), -1, 100)
    with pytest.raises(WireError, match="record 1 has length -7"):
        next(records)


def test_long_varints_and_overflow_as_in_java() -> None:
    payload = bytes.fromhex("2c 00 ffffffffffffffffff01 ffffffff7f 8100 818000 00")
    (record,) = decode_records(batch_of(payload, base_timestamp=-5, base_offset=-(2**63)))
    assert record == Record(None, None, (), 2**63 - 5, 2**63 - 2**31)


def test_invalid_utf8_in_header_key_is_replaced() -> None:
    payload = bytes.fromhex("12 00 00 00 01 01 02 02 ff 01")
    (record,) = decode_records(batch_of(payload))
    assert record.headers == (("\N{REPLACEMENT CHARACTER}", None),)


@pytest.mark.parametrize("kind", list(ControlType))
def test_control_type_of_transaction_marker(kind: ControlType) -> None:
    record = end_transaction_marker(kind, 3, 1_700_000_000_000)
    batch = RecordBatch(encode_batch([record], control=True, transactional=True, producer_id=1))
    assert batch.is_control
    assert control_type(batch) is not None
    assert control_type(batch) == kind


def test_control_batch_needs_key_unless_empty() -> None:
    assert control_type(RecordBatch(encode_batch([], control=True))) is None
    for key in (None, b"\x00\x00\x00"):
        with pytest.raises(WireError, match="a control record needs a key of 4 bytes"):
            control_type(RecordBatch(encode_batch([Record(key, None)], control=True)))
