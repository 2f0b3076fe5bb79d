"""Tests of appends, reads, time lookups, deletion and retention."""

from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.timestamp_search import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    TimestampOffset,
)
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error
from slackwater.wire.records.batch import TimestampType, complete_batches
from slackwater.wire.records.compression import Codec

from .batches import (
    NOW_MS,
    SMALL,
    Sent,
    appended,
    batch,
    contents,
    fill,
    offset_at,
    opened,
    read_records,
    reopen,
    values,
)


def test_offsets_are_assigned_in_order(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.leader_epoch = 4
    three = batch(Sent(b"a"), Sent(b"b"), Sent(b"c"), codec=Codec.SNAPPY)
    assert log.append(batch(), NOW_MS) == AppendInfo(0, 0, -1, 0)
    assert log.append(three, NOW_MS) == AppendInfo(1, 3, -1, 0)
    data = log.read(0, 10_000)
    assert not isinstance(data, Rejection)
    assert [(stored.base_offset, stored.partition_leader_epoch) for stored in complete_batches(data)] == [
        (0, 4),
        (1, 4),
    ]
    assert bytes(data[-len(three) :]) == three
    assert [record.key for record in read_records(data)] == [b"k", b"a", b"b", b"c"]
    assert log.high_watermark == log.log_end_offset == 4


def test_read_only_buffer_is_copied(tmp_path: Path) -> None:
    log = opened(tmp_path)
    appended(log)
    made = bytes(batch())
    assert log.append(made, NOW_MS) == AppendInfo(1, 1, -1, 0)
    assert made == bytes(batch())


def test_batches_of_one_request_are_one_append(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert log.append(batch(Sent(), Sent()) + batch(Sent()), NOW_MS) == AppendInfo(0, 2, -1, 0)
    assert [record.offset for record in contents(log)] == [0, 1, 2]


def test_append_many_is_one_write_with_own_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    writes: list[object] = []
    real = log.active.append

    def append(_: object, buffers: list[bytes]) -> None:
        writes.append(buffers)
        real(buffers)

    monkeypatch.setattr("slackwater.broker.storage.log.segment.Segment.append", append)
    results = log.append_many([batch(), b"wrong", batch(Sent(), Sent())], NOW_MS)
    assert len(writes) == 1
    assert [result[0] for result in results] == [0, Error.CORRUPT_MESSAGE, 1]


def test_log_append_time_is_returned_and_written(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert log.append(batch(Sent(timestamp=5), Sent(timestamp=6)), NOW_MS) == AppendInfo(0, 1, NOW_MS, 0)
    assert [record.timestamp for record in contents(log)] == [NOW_MS, NOW_MS]


def test_read_starts_with_batch_of_offset(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(30):
        log.append(batch(Sent(), Sent(), Sent()), NOW_MS)
    assert len(log.segments) > 1
    for offset in range(90):
        data = log.read(offset, 100)
        assert not isinstance(data, Rejection)
        assert read_records(data)[0].offset == offset // 3 * 3
    end = log.read(90, 100)
    assert not isinstance(end, Rejection)
    assert not end
    assert len(contents(log, max_bytes=1)) == len(contents(log, max_bytes=1 << 20)) == 90


def test_small_read_returns_one_batch_or_none(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 3, size=500)
    first, empty = log.read(1, 10), log.read(1, 499, min_one=False)
    assert not isinstance(first, Rejection)
    assert not isinstance(empty, Rejection)
    assert (len(first), len(empty)) == (500, 0)


@pytest.mark.parametrize("offset", [-1, 4])
def test_read_outside_log_is_out_of_range(tmp_path: Path, offset: int) -> None:
    log = opened(tmp_path)
    fill(log, 3)
    result = log.read(offset, 100)
    assert result == Rejection(Error.OFFSET_OUT_OF_RANGE, f"Offset {offset} is outside the log, 0 to 3.")


def test_failed_read_is_storage_error(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 3)
    log.active.close()
    result = log.read(0, 100)
    assert isinstance(result, Rejection)
    assert result.error is Error.KAFKA_STORAGE_ERROR


def test_segments_roll_within_append_many(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 100)
    assert [segment.base_offset for segment in log.segments] == [0, 20, 40, 60, 80]
    assert all(segment.size == 2000 for segment in log.segments)
    assert [record.offset for record in contents(log)] == list(range(100))


def test_segments_roll_by_time(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, segment_ms=100))
    fill(log, 5, step_ms=60)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_rolling_empty_segment_does_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.roll(NOW_MS)
    assert len(log.segments) == 1


# Time lookups


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_first_record_at_timestamp_is_found(tmp_path: Path, codec: Codec) -> None:
    log = opened(tmp_path)
    stamps = []
    for number in range(60):
        sent = [Sent(b"k", b"v" * 20, NOW_MS + (number * 7 + at * 13) % 101 + number * 3) for at in range(4)]
        stamps += [record.timestamp for record in sent]
        log.append(batch(*sent, codec=codec), NOW_MS)
    for timestamp in range(NOW_MS - 1, max(stamps) + 2):
        expected = next((TimestampOffset(at, n) for n, at in enumerate(stamps) if at >= timestamp), None)
        assert offset_at(log, timestamp) == expected
    newest = max(stamps)
    assert offset_at(log, MAX_TIMESTAMP) == TimestampOffset(newest, stamps.index(newest))


def test_special_timestamps(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert offset_at(log, MAX_TIMESTAMP) is None
    assert offset_at(log, 0) is None
    fill(log, 30)
    log.delete_records(25)
    assert offset_at(log, LATEST) == TimestampOffset(-1, 30)
    assert offset_at(log, EARLIEST) == offset_at(log, EARLIEST_LOCAL) == TimestampOffset(-1, 25)
    assert offset_at(log, LATEST_TIERED) == TimestampOffset(-1, -1)


def test_time_lookup_ignores_records_before_log_start(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for at in (50, 90, 20, 10, 30, 30):
        appended(log, Sent(timestamp=NOW_MS + at))
    log.delete_records(2)
    assert offset_at(log, NOW_MS) == TimestampOffset(NOW_MS + 20, 2)
    assert offset_at(log, NOW_MS + 25) == TimestampOffset(NOW_MS + 30, 4)
    assert offset_at(log, MAX_TIMESTAMP) == TimestampOffset(NOW_MS + 30, 4)
    assert offset_at(log, NOW_MS + 31) is None


# Deletion


def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 50)
    assert log.delete_records(30) == 30
    assert log.delete_records(10) == 30
    assert log.log_start_offset == 30
    assert isinstance(log.read(29, 100), Rejection)
    log = reopen(log)
    assert log.log_start_offset == 30
    assert log.delete_expired_segments(NOW_MS) == [0]
    assert [record.offset for record in contents(log)] == list(range(30, 50))
    assert log.delete_records(-1) == 50
    assert log.delete_expired_segments(NOW_MS) == [20]
    log = reopen(log)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_log_without_files_starts_at_checkpoint(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 5)
    log.delete_records(-1)
    log.close()
    for path in tmp_path.glob("0*"):
        path.unlink()
    assert opened(tmp_path).log_end_offset == 5


def test_invalid_delete_records_is_rejected(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 5)
    for up_to in (6, -2):
        result = log.delete_records(up_to)
        assert isinstance(result, Rejection)
        assert result.error is Error.OFFSET_OUT_OF_RANGE
    log.config = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    result = log.delete_records(1)
    assert isinstance(result, Rejection)
    assert result.error is Error.POLICY_VIOLATION


def test_delete_records_fails_without_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    fill(log, 5)
    monkeypatch.setattr("slackwater.broker.storage.log.checkpoint.replace_file", _raise_no_space)
    result = log.delete_records(3)
    assert isinstance(result, Rejection)
    assert result.error is Error.KAFKA_STORAGE_ERROR
    assert log.log_start_offset == 0
    log.record_cleaned(3)


def _raise_no_space(*_: object, sync: bool) -> None:
    raise OSError(28, "No space left on device")


# Retention


def test_expired_segments_are_deleted(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, retention_ms=1000))
    fill(log, 70, step_ms=10)
    assert log.delete_expired_segments(NOW_MS + 1190) == []
    assert log.delete_expired_segments(NOW_MS + 1191) == [0]
    assert log.log_start_offset == 20
    assert log.delete_expired_segments(NOW_MS + 1400) == [20]
    assert reopen(log).log_start_offset == 40


def test_active_segment_is_rolled_before_deletion(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, retention_ms=1000))
    fill(log, 5)
    assert log.delete_expired_segments(NOW_MS + 1001) == [0]
    assert (log.log_start_offset, log.log_end_offset, log.size) == (5, 5, 0)
    assert log.delete_expired_segments(NOW_MS + 9999) == []
    appended(log)
    assert values(reopen(log)) == [(5, b"k", b"v")]


def test_retention_by_size(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, retention_bytes=4000))
    fill(log, 75)
    assert log.delete_expired_segments(NOW_MS) == [0]
    log.config = replace(log.config, retention_bytes=3500)
    assert log.delete_expired_segments(NOW_MS) == [20]
    assert log.delete_expired_segments(NOW_MS) == []


def test_records_without_timestamp_use_file_age(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, retention_ms=1000))
    appended(log, Sent(timestamp=-1))
    modified_ms = int((tmp_path / f"{0:020d}.log").stat().st_mtime * 1000)
    assert log.delete_expired_segments(modified_ms + 900) == []
    assert log.delete_expired_segments(modified_ms + 2100) == [0]


def test_compacted_log_is_not_deleted_by_age(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=1))
    fill(log, 50)
    assert log.delete_expired_segments(NOW_MS * 2) == []


def test_retention_without_limits_deletes_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, retention_ms=-1))
    fill(log, 50)
    assert log.delete_expired_segments(NOW_MS * 2) == []


def test_deleted_files_are_removed_when_due(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, retention_ms=1000, file_delete_delay_ms=60_000))
    fill(log, 50)
    assert log.delete_expired_segments(NOW_MS + 2000) == [0, 20, 40]
    assert len(list(tmp_path.glob("*.deleted"))) >= 6
    log.remove_deleted_files(NOW_MS + 61_999)
    assert list(tmp_path.glob("*.deleted"))
    log.remove_deleted_files(NOW_MS + 62_000)
    assert not list(tmp_path.glob("*.deleted"))


def test_closed_log_reopens_unchanged(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 50)
    before = contents(log)
    log.close()
    again = PartitionLog.open(tmp_path, SMALL, NOW_MS, clean_shutdown=True)
    assert contents(again) == before
    assert (again.truncated_tails, again.scanned_bytes) == ([], again.active.size)


def test_empty_log_reopens(tmp_path: Path) -> None:
    opened(tmp_path, LogConfig()).close(sync=False)
    assert opened(tmp_path).log_end_offset == 0


def test_unchanged_log_closes_without_write(tmp_path: Path) -> None:
    log = opened(tmp_path)
    appended(log)
    log.close()
    before = _modification_times(log)

    log = PartitionLog.open(log.directory, SMALL, NOW_MS, clean_shutdown=True)
    log.close()
    assert _modification_times(log) == before

    log = PartitionLog.open(log.directory, SMALL, NOW_MS, clean_shutdown=True)
    appended(log)
    log.close()
    assert _modification_times(log) != before
    log = PartitionLog.open(log.directory, SMALL, NOW_MS, clean_shutdown=True)
    assert log.log_end_offset == log.checkpoint.recovery_point == 2
    log.close()


def _modification_times(log: PartitionLog) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in log.directory.iterdir()}
