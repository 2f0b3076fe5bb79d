"""Tests of access to the records inside a batch."""

import pytest

from slackwater.broker.slices import run_to_completion
from slackwater.broker.storage.log.records import (
    check_lengths,
    decompress_records,
    find_first_record,
    iter_record_views,
    with_records,
    without_records,
)
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import LOG_APPEND_TIME_BIT, RecordBatch, TimestampType, check_batch
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.varints import encode_varint

from .batches import NOW_MS, Sent, batch, read_records


def _check_lengths(made: RecordBatch) -> None:
    run_to_completion(check_lengths(made, decompress_records(made)))


THREE = (Sent(b"a", b"1"), Sent(None, b"x" * 500, NOW_MS - 5), Sent(b"c", None, NOW_MS + 300_000))


@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_read_with_every_codec(codec: Codec) -> None:
    made = RecordBatch(batch(*THREE, codec=codec))
    records = list(iter_record_views(made, decompress_records(made)))
    assert [(record.key, record.has_value, record.offset_delta) for record in records] == [
        (b"a", True, 0),
        (None, True, 1),
        (b"c", False, 2),
    ]
    assert [record.timestamp for record in read_records(made.data)] == [record.timestamp for record in THREE]


def test_record_lengths_are_checked() -> None:
    _check_lengths(RecordBatch(batch(*THREE)))
    _check_lengths(RecordBatch(batch(Sent(b"k", b"x" * 100_000))))
    whole = decompress_records(RecordBatch(batch(*THREE)))
    for payload in (whole[:-1], whole + b"\0", b"", b"\xff\xff", whole[:20]):
        with pytest.raises(WireError):
            _check_lengths(RecordBatch(batch(*THREE, payload=payload)))


def test_damaged_records_raise() -> None:
    whole = decompress_records(RecordBatch(batch(*THREE)))
    for end in range(len(whole)):
        made = RecordBatch(batch(*THREE, payload=whole[:end]))
        with pytest.raises(WireError):
            list(iter_record_views(made, decompress_records(made)))
    for payload in (whole + b"\0", b"\x01" + whole[1:], b"\xff" * 12, b"\x08\0\0\0\x01\x7e"):
        made = RecordBatch(batch(*THREE, payload=payload))
        with pytest.raises(WireError):
            list(iter_record_views(made, payload))


def test_varints_are_zigzag() -> None:
    assert [encode_varint(number) for number in (0, -1, 1, 63, 64, -65)] == [
        b"\0",
        b"\1",
        b"\2",
        b"\x7e",
        b"\x80\1",
        b"\x81\1",
    ]


def test_find_first_record() -> None:
    made = RecordBatch(batch(*THREE))
    assert run_to_completion(find_first_record(made, NOW_MS - 10, 0)) == (NOW_MS, 0)
    assert run_to_completion(find_first_record(made, NOW_MS - 10, 1)) == (NOW_MS - 5, 1)
    assert run_to_completion(find_first_record(made, NOW_MS + 1, 0)) == (NOW_MS + 300_000, 2)
    assert run_to_completion(find_first_record(made, NOW_MS + 300_001, 0)) is None


def test_log_append_time_applies_to_every_record() -> None:
    made = RecordBatch(batch(*THREE))
    made.set_log_append_time(NOW_MS + 7)
    assert run_to_completion(find_first_record(made, NOW_MS + 7, 1)) == (NOW_MS + 7, 1)


def test_find_first_record_in_damaged_batch() -> None:
    made = RecordBatch(batch(*THREE, codec=Codec.GZIP, payload=b"no gzip"))
    assert run_to_completion(find_first_record(made, NOW_MS, 0)) == (NOW_MS + 300_000, 0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("horizon_ms", [None, NOW_MS + 86_400_000])
def test_batch_keeps_offsets_when_records_are_removed(codec: Codec, horizon_ms: int | None) -> None:
    made = RecordBatch(batch(*THREE, codec=codec, producer_id=9, epoch=1, sequence=40))
    made.set_base_offset(100)
    payload = decompress_records(made)
    records = list(iter_record_views(made, payload))
    new = RecordBatch(with_records(made, payload, records[1:], horizon_ms))
    check_batch(new)
    assert (new.base_offset, new.last_offset, new.record_count) == (100, 102, 2)
    assert (new.producer_id, new.producer_epoch, new.base_sequence) == (9, 1, 40)
    assert new.delete_horizon_ms == horizon_ms
    assert new.max_timestamp == NOW_MS + 300_000
    assert [(record.offset, record.key, record.value, record.timestamp) for record in read_records(new.data)] == [
        (101, None, b"x" * 500, NOW_MS - 5),
        (102, b"c", None, NOW_MS + 300_000),
    ]


def test_batch_keeps_log_append_time() -> None:
    made = RecordBatch(batch(*THREE))
    made.set_log_append_time(NOW_MS + 7)
    payload = decompress_records(made)
    new = RecordBatch(with_records(made, payload, list(iter_record_views(made, payload))[:1], NOW_MS))
    assert new.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert read_records(new.data)[0].timestamp == NOW_MS + 7


def test_batch_without_records_keeps_producer() -> None:
    made = RecordBatch(
        batch(*THREE, codec=Codec.ZSTD, producer_id=9, epoch=1, sequence=40, attributes=LOG_APPEND_TIME_BIT)
    )
    new = RecordBatch(without_records(made))
    check_batch(new)
    assert new.size == 61
    assert (new.record_count, new.last_offset_delta, new.base_sequence, new.producer_id) == (0, 2, 40, 9)
    assert (new.codec, new.max_timestamp) == (Codec.NONE, made.max_timestamp)
