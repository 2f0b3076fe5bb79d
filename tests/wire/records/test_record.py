"""Records as Python values: what is written and read, and what is refused."""

import struct
from random import Random

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records import record as records_module
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
    end_transaction_marker,
    pack_headers,
)

from .random_records import random_records


def batch_of(payload: bytes, count: int = 1, **header: int) -> RecordBatch:
    """A batch with these bytes for records."""
    data = encode_batch([], base_offset=100) + payload
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    batch = RecordBatch(data)
    for name, value in header.items():
        setattr(batch, name, value)
    return batch


@pytest.mark.parametrize("base", [0, 5])
def test_pairs_are_written_as_records_of_one_time_are(base: int) -> None:
    random = Random(1)
    sizes = (0, 1, 63, 64, 8_191, 8_192, 20_000)
    given: list[tuple[bytes | None, bytes | None]] = [
        (random.randbytes(a), random.randbytes(b)) for a in sizes for b in sizes
    ]
    given += [(None, b"v"), (b"k", None)] + [(b"k", b"v")] * 100
    one_by_one, together = BatchBuilder(base), BatchBuilder(base)
    for start, time in ((0, 1_000), (30, 70_000), (60, 500)):
        pairs = given[start : start + 30] if start < 60 else given[start:]
        together.extend(pairs, time)
        for key, value in pairs:
            one_by_one.append(Record(key, value, timestamp=time))
    assert together.build() == one_by_one.build()
    assert together.size == one_by_one.size


def test_packed_records_are_written_as_others_are() -> None:
    headers = [("h", b"1"), ("ü", None)]
    one_by_one, together = BatchBuilder(), BatchBuilder()
    given = [
        Record(
            b"k" * (number % 1_100), None if number % 7 == 0 else b"v" * number, headers[: number % 3], 5_000 + number
        )
        for number in range(1_500)
    ]
    for record in given:
        one_by_one.append(record)
    packed = [(record.key, record.value, pack_headers(record.headers), record.timestamp) for record in given]
    together.extend_packed(packed[:700])
    together.extend_packed(packed[700:])
    assert together.build() == one_by_one.build()
    assert (together.size, together.count) == (one_by_one.size, one_by_one.count)


def test_a_record_of_an_impossible_time_leaves_a_batch_as_it_was() -> None:
    builder = BatchBuilder()
    builder.extend([(b"k", b"v")], 5)
    before = builder.build()
    with pytest.raises(WireError, match="timestamp is -2"):
        builder.extend_packed([(b"a", b"b", NO_HEADERS, 6), (b"c", b"d", NO_HEADERS, -2)])
    assert builder.build() == before


def test_pairs_of_an_impossible_time_are_refused() -> None:
    with pytest.raises(WireError, match="timestamp is -2"):
        BatchBuilder().extend([(b"k", b"v")], -2)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_back_as_they_were(codec: Codec) -> None:
    for seed in range(20):
        given = random_records(Random(seed))
        batch = RecordBatch(encode_batch(given, base_offset=given[0].offset, codec=codec))
        check_batch(batch)
        assert list(decode_records(batch)) == given
        assert batch.max_timestamp == max(record.timestamp for record in given)


def test_a_batch_has_these_bytes() -> None:
    """As Kafka's `MemoryRecordsBuilder` writes it; the comparison with the real one is in test_records_java."""
    data = encode_batch([Record(None, b"hi", (("h", None),), 1_700_000_000_000), Record(b"", None)])
    first = bytes.fromhex("16 00 00 00 01 04") + b"hi" + bytes.fromhex("02 02") + b"h" + bytes.fromhex("01")
    second = bytes.fromhex("16 00 81a0abfef962 02 00 01 00")
    assert data[HEADER_BYTES:] == first + second


def test_offsets_follow_each_other_unless_they_are_given() -> None:
    given = [Record(b"a", None), Record(b"b", None, offset=60), Record(b"c", None)]
    batch = RecordBatch(encode_batch(given, base_offset=50))
    assert [record.offset for record in decode_records(batch)] == [50, 60, 61]
    assert (batch.last_offset, batch.record_count) == (61, 3)


def test_an_empty_batch_is_what_compaction_leaves() -> None:
    builder = BatchBuilder(50)
    batch = RecordBatch(builder.build(codec=Codec.ZSTD, last_offset=59))
    check_batch(batch)
    assert (batch.record_count, batch.last_offset, batch.codec, batch.size) == (0, 59, Codec.NONE, HEADER_BYTES)
    assert list(decode_records(batch)) == []
    assert list(decode_records(batch_of(b"nonsense", count=0))) == []


def test_a_builder_knows_how_large_the_batch_is_before_it_is_compressed() -> None:
    builder = BatchBuilder()
    for record in random_records(Random(4)):
        builder.append(record._replace(offset=-1))
        assert builder.size == len(builder.build())


@pytest.mark.parametrize("offset", [49, 50 + 2**31])
def test_an_offset_outside_of_the_batch_is_refused(offset: int) -> None:
    with pytest.raises(WireError, match=f"offset {offset} does not follow 49 in a batch from 50 on"):
        encode_batch([Record(None, None, offset=offset)], base_offset=50)


def test_offsets_that_do_not_rise_are_refused() -> None:
    with pytest.raises(WireError, match="offset 52 does not follow 52"):
        encode_batch([Record(None, None, offset=52), Record(None, None, offset=52)], base_offset=50)


def test_a_negative_timestamp_is_refused() -> None:
    with pytest.raises(WireError, match="its timestamp is -2"):
        encode_batch([Record(None, None, timestamp=-2)])


def test_a_header_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(WireError, match="header's key cannot be written as UTF-8"):
        encode_batch([Record(None, None, (("\ud800", None),))])


def test_a_number_that_the_header_has_no_place_for_is_refused() -> None:
    with pytest.raises(WireError, match="a number in its header does not fit"):
        encode_batch([Record(None, None)], producer_epoch=2**15)


def test_a_batch_that_outgrows_its_length_field_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "_MAX_SIZE", 1000)
    with pytest.raises(WireError, match=r"with it the batch takes 1070 bytes; 1000 are the most"):
        encode_batch([Record(None, bytes(1000))])


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("", "it announces 1 records in 0 bytes"),
        ("0c0000000101", "it announces 1 records in 6 bytes"),
        ("0100000001010000", "record 0 is -1 bytes long, and 7 are left"),
        ("1000000001010000", "record 0 is 8 bytes long, and 7 are left"),
        ("0e00000001010000", "record 0 announces 7 bytes, and its fields take 6"),
        ("0c0000000101000000", "2 bytes are left after its 1 records"),
        ("0a00000001010000", "record 0 announces 0 headers, and -1 bytes are left of it"),
        ("0c00000001010100", "record 0 announces -1 headers"),
        ("0c00000001010e00", "record 0 announces 7 headers, and 0 bytes are left of it"),
        ("10000000010102 01 00", "record 0 has a header without a key"),
        ("0e 00 00 00 01 01 80 80", "record 0 ends in the middle of a field"),
        ("0e 00 00 00 02 61 01 7e", "record 0 announces 63 headers, and 0 bytes are left of it"),
        ("0e 00 00 00 7e 61 01 00", "record 0 ends in the middle of a field"),
        ("18 00 00 ffffffffff00 01 01 00 00 00", "record 0 has a number that is longer than its type"),
        ("24 00 ffffffffffffffffffff00 00 01 01 00 00 00", "record 0 has a number that is longer than its type"),
    ],
)
def test_damaged_records_are_refused_in_a_sentence(payload: str, message: str) -> None:
    with pytest.raises(WireError, match=f"^Record batch at offset 100: ({message})"):
        list(decode_records(batch_of(bytes.fromhex(payload))))


def test_a_payload_that_cannot_be_unpacked_is_refused_with_its_offset() -> None:
    with pytest.raises(WireError, match="Record batch at offset 100: 8 bytes of gzip cannot be unpacked"):
        list(decode_records(batch_of(b"nonsense", attributes=Codec.GZIP.value)))


def test_records_before_the_damage_are_given_out() -> None:
    found = decode_records(batch_of(bytes.fromhex("0c000000010100" + "0d000000010100"), count=2))
    assert next(found) == Record(None, None, (), -1, 100)
    with pytest.raises(WireError, match="record 1 is -7 bytes long"):
        next(found)


def test_numbers_of_more_bytes_than_needed_are_read_and_sums_wrap_as_in_java() -> None:
    payload = bytes.fromhex("2c 00 ffffffffffffffffff01 ffffffff7f 8100 818000 00")
    (record,) = decode_records(batch_of(payload, base_timestamp=-5, base_offset=-(2**63)))
    assert record == Record(None, None, (), 2**63 - 5, 2**63 - 2**31)


def test_header_keys_that_are_no_text_are_replaced() -> None:
    payload = bytes.fromhex("12 00 00 00 01 01 02 02 ff 01")
    (record,) = decode_records(batch_of(payload))
    assert record.headers == (("\N{REPLACEMENT CHARACTER}", None),)


@pytest.mark.parametrize("kind", list(ControlType))
def test_a_marker_tells_how_a_transaction_ended(kind: ControlType) -> None:
    record = end_transaction_marker(kind, 3, 1_700_000_000_000)
    batch = RecordBatch(encode_batch([record], control=True, transactional=True, producer_id=1))
    assert batch.is_control
    assert control_type(batch) is not None
    assert control_type(batch) == kind


def test_a_control_batch_may_be_empty_and_its_key_may_not() -> None:
    assert control_type(RecordBatch(encode_batch([], control=True))) is None
    for key in (None, b"\x00\x00\x00"):
        with pytest.raises(WireError, match="the key of a control record takes 4 bytes"):
            control_type(RecordBatch(encode_batch([Record(key, None)], control=True)))
