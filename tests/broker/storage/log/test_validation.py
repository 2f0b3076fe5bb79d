"""Tests of the validation of produced batches."""

from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.partition_log import AppendOrigin
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.records import decompress_records
from slackwater.broker.storage.log.validation import Rejection, validate
from slackwater.group.errors import Error
from slackwater.wire.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    RecordBatch,
    TimestampType,
    complete_batches,
)
from slackwater.wire.records.compression import Codec, compress

from .batches import NOW_MS, Sent, batch, opened, sized

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))
APPEND_TIME = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)


def damaged() -> bytearray:
    made = batch()
    made[-1] ^= 1
    return made


def old_format() -> bytearray:
    made = batch()
    made[16] = 1
    return made


def with_wrong_offset_delta() -> bytes:
    payload = decompress_records(RecordBatch(batch()))
    return payload[:3] + b"\x02" + payload[4:]


@pytest.mark.parametrize(
    ("buffer", "error"),
    [
        (b"", Error.INVALID_RECORD),
        (batch()[:-1], Error.CORRUPT_MESSAGE),
        (batch() + b"\0" * 20, Error.CORRUPT_MESSAGE),
        (b"\0" * 80, Error.CORRUPT_MESSAGE),
        (old_format(), Error.CORRUPT_MESSAGE),
        (damaged(), Error.CORRUPT_MESSAGE),
        (batch(attributes=7), Error.CORRUPT_MESSAGE),
        (batch(count=-1, last_delta=-1), Error.CORRUPT_MESSAGE),
        (batch(count=0), Error.INVALID_RECORD),
        (batch(count=5), Error.INVALID_RECORD),
        (batch(count=5, last_delta=4), Error.INVALID_RECORD),
        (batch(payload=b""), Error.INVALID_RECORD),
        (batch(attributes=CONTROL_BIT), Error.INVALID_RECORD),
        (batch(producer_id=1, epoch=0, sequence=-1), Error.INVALID_RECORD),
        (batch(producer_id=1, epoch=-1, sequence=0), Error.INVALID_RECORD),
        (batch(producer_id=1, epoch=0, sequence=0, attributes=TRANSACTIONAL_BIT), Error.INVALID_TXN_STATE),
        (sized(1_048_589), Error.MESSAGE_TOO_LARGE),
        (batch(Sent(timestamp=NOW_MS + 3_600_001)), Error.INVALID_TIMESTAMP),
    ],
)
def test_rejected_batch_leaves_no_trace(tmp_path: Path, buffer: bytearray, error: Error) -> None:
    log = opened(tmp_path, LogConfig())
    result = log.append(buffer, NOW_MS)
    assert isinstance(result, Rejection)
    assert result.error is error
    assert result.message
    assert (log.log_end_offset, log.size, log.producers.producers) == (0, 0, {})


def test_largest_batch_and_newest_timestamp_are_accepted(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig())
    assert isinstance(log.append(sized(1_048_588, timestamp=NOW_MS + 3_600_000), NOW_MS), AppendInfo)


def test_request_larger_than_segment_is_rejected(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(segment_bytes=500))
    result = log.append(sized(300) + sized(300), NOW_MS)
    assert isinstance(result, Rejection)
    assert result.error is Error.RECORD_LIST_TOO_LARGE


def test_compacted_topic_rejects_records_without_key(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    result = log.append(batch(Sent(b"k"), Sent(None), codec=Codec.ZSTD), NOW_MS)
    assert result == Rejection(Error.INVALID_RECORD, "A compacted topic does not accept records without a key.", (1,))
    assert isinstance(log.append(batch(Sent(b""), Sent(b"k"), codec=Codec.ZSTD), NOW_MS), AppendInfo)


def test_compacted_topic_validates_records(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    for payload, codec in ((b"no gzip", Codec.GZIP), (b"", Codec.NONE), (with_wrong_offset_delta(), Codec.NONE)):
        result = log.append(batch(payload=payload, codec=codec), NOW_MS)
        assert isinstance(result, Rejection)
        assert result.error is Error.INVALID_RECORD


def test_record_older_than_limit_is_rejected(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    log = opened(tmp_path, config)
    for age_ms, is_accepted in ((1000, True), (1001, False)):
        result = log.append(batch(Sent(), Sent(timestamp=NOW_MS - age_ms)), NOW_MS)
        assert isinstance(result, AppendInfo if is_accepted else Rejection)
    log.config = replace(config, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert isinstance(log.append(batch(Sent(timestamp=5)), NOW_MS), AppendInfo)


def test_log_append_time_is_set_by_broker_only(tmp_path: Path) -> None:
    log = opened(tmp_path, APPEND_TIME)
    result = log.append(batch(attributes=LOG_APPEND_TIME_BIT), NOW_MS)
    assert isinstance(result, Rejection)
    assert result.error is Error.INVALID_TIMESTAMP
    result = log.append(batch(Sent(timestamp=NOW_MS * 2)), NOW_MS)
    assert result == AppendInfo(0, 0, NOW_MS, 0)


def test_create_time_topic_clears_append_time_bit(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig())
    assert log.append(batch(attributes=LOG_APPEND_TIME_BIT), NOW_MS) == AppendInfo(0, 0, -1, 0)
    data = log.read(0, 1000)
    assert not isinstance(data, Rejection)
    (stored,) = complete_batches(data)
    assert stored.timestamp_type is TimestampType.CREATE_TIME


def test_coordinator_batches_are_not_validated(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(max_message_bytes=10))
    assert log.append(batch(attributes=CONTROL_BIT), NOW_MS, AppendOrigin.COORDINATOR) == AppendInfo(0, 0, -1, 0)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("count", [1, 2, 4, 200])
@pytest.mark.parametrize("config", [LogConfig(), COMPACT], ids=["delete", "compact"])
def test_false_record_count_of_a_compressed_batch(tmp_path: Path, codec: Codec, count: int, config: LogConfig) -> None:
    log = opened(tmp_path, config)
    three = (Sent(b"a"), Sent(b"b", b"longer value"), Sent(b"c"))
    rejected = log.append(batch(*three, codec=codec, count=count, last_delta=count - 1), NOW_MS)
    assert isinstance(rejected, Rejection)
    assert rejected.error is Error.INVALID_RECORD
    assert isinstance(log.append(batch(*three, codec=codec), NOW_MS), AppendInfo)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_bombs_are_too_large(tmp_path: Path, codec: Codec, policy: str) -> None:
    config = LogConfig(cleanup_policy=frozenset({policy}), message_max_uncompressed_bytes=3 << 20)
    log = opened(tmp_path, config)
    fits = log.append(batch(Sent(b"k", bytes(2 << 20)), codec=codec), NOW_MS)
    assert isinstance(fits, AppendInfo)
    rejected = log.append(batch(Sent(b"k", bytes(3 << 20)), codec=codec), NOW_MS)
    assert rejected == Rejection(
        Error.MESSAGE_TOO_LARGE,
        "The records of the batch have more than 3145728 bytes after decompression. "
        "message.max.uncompressed.bytes is the limit.",
    )


def test_validation_of_many_records_is_interrupted() -> None:
    count = 100_000
    payload = (b"".join([b"\x0e\0\0\0\x01\x01\0", b"\x10\0\0\0\x01\x02\0\0"]) * count)[: count * 15 // 2]
    made = batch(codec=Codec.ZSTD, payload=compress(Codec.ZSTD, payload), count=count, last_delta=count - 1)
    interruptions = 0
    for _ in validate(made, LogConfig(), NOW_MS):
        interruptions += 1
    assert interruptions > 50


def test_large_payload_is_decompressed_in_the_thread() -> None:
    made = batch(Sent(b"k", bytes(4 << 20)), codec=Codec.GZIP)
    first = next(validate(made, LogConfig(), NOW_MS))
    assert callable(first)
    payload = first()
    assert isinstance(payload, bytes)
    assert len(payload) > 4 << 20
