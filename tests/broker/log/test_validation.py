"""What a producer may append."""

from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.partition_log import AppendOrigin
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.records import decompress_records
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error
from slackwater.wire.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    RecordBatch,
    TimestampType,
    whole_batches,
)
from slackwater.wire.records.compression import Codec

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


def misnumbered() -> bytes:
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
def test_what_is_refused_leaves_no_trace(tmp_path: Path, buffer: bytearray, error: Error) -> None:
    log = opened(tmp_path, LogConfig())
    answer = log.append(buffer, NOW_MS)
    assert isinstance(answer, Rejection)
    assert answer.error is error
    assert answer.message
    assert (log.log_end_offset, log.size, log.producers.producers) == (0, 0, {})


def test_the_largest_batch_and_the_newest_timestamp_are_taken(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig())
    assert isinstance(log.append(sized(1_048_588, timestamp=NOW_MS + 3_600_000), NOW_MS), AppendInfo)


def test_more_than_a_segment_holds_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(segment_bytes=500))
    answer = log.append(sized(300) + sized(300), NOW_MS)
    assert isinstance(answer, Rejection)
    assert answer.error is Error.RECORD_LIST_TOO_LARGE


def test_a_compacted_topic_takes_no_record_without_a_key(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    answer = log.append(batch(Sent(b"k"), Sent(None), codec=Codec.ZSTD), NOW_MS)
    assert answer == Rejection(Error.INVALID_RECORD, "A compacted topic takes no record without a key.", (1,))
    assert isinstance(log.append(batch(Sent(b""), Sent(b"k"), codec=Codec.ZSTD), NOW_MS), AppendInfo)


def test_a_compacted_topic_looks_at_what_it_will_have_to_read(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    for payload, codec in ((b"no gzip", Codec.GZIP), (b"", Codec.NONE), (misnumbered(), Codec.NONE)):
        answer = log.append(batch(payload=payload, codec=codec), NOW_MS)
        assert isinstance(answer, Rejection)
        assert answer.error is Error.INVALID_RECORD


def test_a_record_may_not_be_older_than_the_topic_allows(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    log = opened(tmp_path, config)
    for old_ms, taken in ((1000, True), (1001, False)):
        answer = log.append(batch(Sent(), Sent(timestamp=NOW_MS - old_ms)), NOW_MS)
        assert isinstance(answer, AppendInfo if taken else Rejection)
    log.config = replace(config, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert isinstance(log.append(batch(Sent(timestamp=5)), NOW_MS), AppendInfo)


def test_under_log_append_time_the_broker_alone_says_what_time_it_is(tmp_path: Path) -> None:
    log = opened(tmp_path, APPEND_TIME)
    answer = log.append(batch(attributes=LOG_APPEND_TIME_BIT), NOW_MS)
    assert isinstance(answer, Rejection)
    assert answer.error is Error.INVALID_TIMESTAMP
    answer = log.append(batch(Sent(timestamp=NOW_MS * 2)), NOW_MS)
    assert answer == AppendInfo(0, 0, NOW_MS, 0)


def test_under_create_time_a_batch_is_never_marked_with_the_brokers(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig())
    assert log.append(batch(attributes=LOG_APPEND_TIME_BIT), NOW_MS) == AppendInfo(0, 0, -1, 0)
    data = log.read(0, 1000)
    assert not isinstance(data, Rejection)
    (stored,) = whole_batches(data)
    assert stored.timestamp_type is TimestampType.CREATE_TIME


def test_what_the_coordinator_writes_is_not_questioned(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(max_message_bytes=10))
    assert log.append(batch(attributes=CONTROL_BIT), NOW_MS, AppendOrigin.COORDINATOR) == AppendInfo(0, 0, -1, 0)
