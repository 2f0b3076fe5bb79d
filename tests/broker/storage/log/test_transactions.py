"""Tests of transactions in a log: last stable offset, markers, the index of aborted transactions, verification."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.broker.slices import run_to_completion
from slackwater.broker.storage.log import cleaner
from slackwater.broker.storage.log.files import LOG, SNAPSHOT, TRANSACTION_INDEX, file_name, with_suffix
from slackwater.broker.storage.log.partition_log import AppendOrigin, PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.timestamp_search import LATEST, TimestampOffset
from slackwater.broker.storage.log.transaction_index import AbortedTransaction
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error
from slackwater.wire.records.batch import TRANSACTIONAL_BIT, RecordBatch, complete_batches
from slackwater.wire.records.markers import EndTransactionMarker, decode_marker

from .batches import NOW_MS, SMALL, Sent, appended, batch, compact, opened, reopen
from .transactions import committed, end, send, verified

COMPACTED = replace(
    SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, delete_retention_ms=1_000
)


def error(result: AppendInfo | Rejection) -> Error:
    assert isinstance(result, Rejection), result
    return result.error


def offset(result: AppendInfo | Rejection) -> int:
    assert isinstance(result, AppendInfo), result
    return result.base_offset


def stored_batches(log: PartitionLog, offset: int = 0) -> list[RecordBatch]:
    data = log.read(offset, 100_000)
    assert not isinstance(data, Rejection), data
    return list(complete_batches(data))


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in committed(log)]


@pytest.mark.proves("TX-60")
def test_last_stable_offset_is_start_of_oldest_transaction(tmp_path: Path) -> None:
    log = opened(tmp_path)
    appended(log)
    send(log, 1, 0)
    send(log, 2, 0)
    send(log, 1, 1)
    appended(log)
    assert (log.last_stable_offset, log.high_watermark) == (1, 5)
    end(log, 1, commit=True)
    assert log.last_stable_offset == 2
    end(log, 2, commit=False)
    assert log.last_stable_offset == log.high_watermark == 7
    assert offsets(log) == [0, 1, 3, 4]


@pytest.mark.proves("TX-61")
def test_marker_is_a_control_batch_in_kafkas_format(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 7, 0, epoch=3)
    assert offset(end(log, 7, commit=False, epoch=3, coordinator_epoch=11)) == 1
    *_, stored = stored_batches(log, 1)
    assert (stored.is_control, stored.is_transactional, stored.record_count) == (True, True, 1)
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence) == (7, 3, -1)
    assert decode_marker(stored) == EndTransactionMarker(is_commit=False, coordinator_epoch=11)
    # Length 16: attributes, two deltas, key (version 0, type 0), value (version 0, epoch 11), no headers.
    assert bytes(stored.payload) == bytes([32, 0, 0, 0, 8, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 11, 0])


@pytest.mark.proves("TX-62")
def test_segment_of_the_marker_indexes_aborted_transactions(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 1, 0)
    send(log, 2, 0)
    log.roll(NOW_MS)
    end(log, 2, commit=False)
    end(log, 1, commit=False)
    end(log, 1, commit=False)  # without a transaction: no entry
    assert list(with_suffix(tmp_path, TRANSACTION_INDEX)) == [2]
    data = (tmp_path / file_name(2, TRANSACTION_INDEX)).read_bytes()
    assert data == struct.pack(">hqqqq", 0, 2, 1, 2, 0) + struct.pack(">hqqqq", 0, 1, 0, 3, 4)


@pytest.mark.proves("TX-63")
def test_markers_are_fenced_by_epoch_and_coordinator(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 1, 0, epoch=4)
    assert error(end(log, 1, commit=True, epoch=3)) is Error.INVALID_PRODUCER_EPOCH
    assert error(end(log, 1, commit=True, epoch=4, version=2)) is Error.INVALID_PRODUCER_EPOCH
    offset(end(log, 1, commit=True, epoch=5, version=2, coordinator_epoch=8))
    offset(end(log, 1, commit=True, epoch=5, version=2, coordinator_epoch=8))  # a repetition
    assert error(end(log, 1, commit=True, epoch=5, coordinator_epoch=7)) is Error.TRANSACTION_COORDINATOR_FENCED
    late = batch(producer_id=1, epoch=4, sequence=1, attributes=TRANSACTIONAL_BIT)
    assert error(log.append(late, NOW_MS, guard=verified(log, 1, 4, 1))) is Error.INVALID_PRODUCER_EPOCH
    assert offset(end(log, 99, commit=False)) == 3  # of an unknown producer


@pytest.mark.proves("TX-64")
def test_batch_needs_open_or_verified_transaction(tmp_path: Path) -> None:
    log = opened(tmp_path)
    made = batch(producer_id=1, epoch=0, sequence=0, attributes=TRANSACTIONAL_BIT)
    assert error(log.append(made, NOW_MS)) is Error.INVALID_TXN_STATE
    guard = verified(log, 1)
    end(log, 1, commit=False)  # the coordinator aborts in the meantime
    assert error(log.append(made, NOW_MS, guard=guard)) is Error.INVALID_TXN_STATE
    assert offset(log.append(made, NOW_MS, guard=verified(log, 1))) == 1
    assert verified(log, 1) is None
    following = batch(producer_id=1, epoch=0, sequence=1, attributes=TRANSACTIONAL_BIT)
    assert offset(log.append(following, NOW_MS)) == 2
    plain = batch(producer_id=1, epoch=0, sequence=2)
    assert error(log.append(plain, NOW_MS)) is Error.INVALID_TXN_STATE


@pytest.mark.proves("TX-64")
def test_verified_batch_must_be_the_first_one_sent(tmp_path: Path) -> None:
    log = opened(tmp_path)
    guard = verified(log, 1, sequence=3)
    assert verified(log, 1, sequence=1) is guard
    later, first = (batch(producer_id=1, epoch=0, sequence=at, attributes=TRANSACTIONAL_BIT) for at in (3, 1))
    assert error(log.append(later, NOW_MS, guard=guard)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offset(log.append(first, NOW_MS, guard=guard)) == 0
    bumping = verified(log, 2, sequence=1, supports_epoch_bump=True)
    made = batch(producer_id=2, epoch=0, sequence=1, attributes=TRANSACTIONAL_BIT)
    assert error(log.append(made, NOW_MS, guard=bumping)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_restart_with_the_epoch_of_a_marker(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 1, 0)
    end(log, 1, commit=True, epoch=1, version=2)
    wrong = batch(producer_id=1, epoch=1, sequence=1, attributes=TRANSACTIONAL_BIT)
    assert error(log.append(wrong, NOW_MS, guard=verified(log, 1, 1, 1))) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 1, 0, epoch=1)
    end(log, 1, commit=True, epoch=1)
    send(log, 1, 1, epoch=1)  # a marker of the same epoch keeps the sequence


def test_duplicate_after_the_marker_is_a_duplicate(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 1, 0)
    end(log, 1, commit=True)
    again = log.append(batch(producer_id=1, epoch=0, sequence=0, attributes=TRANSACTIONAL_BIT), NOW_MS)
    assert isinstance(again, AppendInfo)
    assert (again.base_offset, again.duplicate) == (0, True)
    assert log.last_stable_offset == log.log_end_offset == 2


def test_transactional_batch_needs_a_producer_id(tmp_path: Path) -> None:
    assert error(opened(tmp_path).append(batch(attributes=TRANSACTIONAL_BIT), NOW_MS)) is Error.INVALID_RECORD


def test_coordinator_batch_opens_transaction_without_sequence(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(2):
        made = batch(producer_id=1, epoch=2, attributes=TRANSACTIONAL_BIT)
        guard = verified(log, 1, 2, -1)
        offset(log.append(made, NOW_MS, AppendOrigin.COORDINATOR, guard))
    assert log.last_stable_offset == 0
    old = batch(producer_id=1, epoch=1, attributes=TRANSACTIONAL_BIT)
    assert error(log.append(old, NOW_MS, AppendOrigin.COORDINATOR)) is Error.INVALID_TXN_STATE
    offset(end(log, 1, commit=True, epoch=2))
    assert log.last_stable_offset == 3


@pytest.mark.proves("TX-65")
def test_reader_gets_the_aborted_transactions_of_its_range(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(3):
        send(log, number, 0)
        end(log, number, commit=False)
    start = log.find(2)
    assert not isinstance(start, Rejection)
    assert log.aborted_transactions(2, start, 100) == [AbortedTransaction(1, 2, 3, 4), AbortedTransaction(2, 4, 5, 6)]


def test_latest_committed_offset_is_the_last_stable_one(tmp_path: Path) -> None:
    log = opened(tmp_path)
    appended(log, Sent(timestamp=NOW_MS))
    send(log, 1, 0, Sent(timestamp=NOW_MS + 5))
    assert run_to_completion(log.search_timestamp(LATEST, committed=True)) == TimestampOffset(-1, 1)
    assert run_to_completion(log.search_timestamp(LATEST)) == TimestampOffset(-1, 2)
    assert run_to_completion(log.search_timestamp(NOW_MS, committed=True)) == TimestampOffset(NOW_MS, 0)
    assert run_to_completion(log.search_timestamp(NOW_MS + 1, committed=True)) is None


@pytest.mark.parametrize("clean", [True, False])
def test_open_transaction_survives_a_restart(tmp_path: Path, clean: bool) -> None:
    log = opened(tmp_path)
    send(log, 1, 0)
    end(log, 1, commit=False, coordinator_epoch=6)
    send(log, 1, 1)
    log.roll(NOW_MS)
    appended(log)
    if clean:
        log.close()
    log = reopen(log, clean=clean)
    assert (log.last_stable_offset, log.log_end_offset) == (2, 4)
    known = log.producers.producers[1]
    assert (known.coordinator_epoch, known.transaction_start, known.last_sequence) == (6, 2, 1)
    assert error(end(log, 1, commit=True, coordinator_epoch=5)) is Error.TRANSACTION_COORDINATOR_FENCED
    end(log, 1, commit=True, coordinator_epoch=6)
    assert offsets(log) == [2, 3]


def test_open_transaction_does_not_expire(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 1, 0)
    send(log, 2, 0)
    end(log, 2, commit=True)
    log.delete_expired_segments(NOW_MS + log.config.producer_id_expiration_ms)
    assert list(log.producers.producers) == [1]
    assert log.last_stable_offset == 0


@pytest.mark.proves("TX-62")
@pytest.mark.parametrize("lost", ["entry", "file", "torn", "version"])
def test_kill_between_marker_and_index_entry(tmp_path: Path, lost: str) -> None:
    log = opened(tmp_path)
    send(log, 1, 0)
    end(log, 1, commit=False)
    send(log, 1, 1)
    end(log, 1, commit=False)
    path = tmp_path / file_name(0, TRANSACTION_INDEX)
    data = path.read_bytes()
    match lost:
        case "entry":
            path.write_bytes(data[:34])
        case "file":
            path.unlink()
        case "torn":
            path.write_bytes(data[:40])
        case _:
            path.write_bytes(b"\1\1" + data[2:])
    log = reopen(log)
    assert log.segments[0].transaction_index.entries == [AbortedTransaction(1, 0, 1, 2), AbortedTransaction(1, 2, 3, 4)]
    assert path.read_bytes() == data
    assert offsets(log) == []


def test_damaged_index_of_a_closed_segment_is_rebuilt(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(3):
        send(log, 1, number)
        end(log, 1, commit=False)
        log.roll(NOW_MS)
    log.close()
    path = tmp_path / file_name(2, TRANSACTION_INDEX)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    log = reopen(log, clean=True)
    assert log.warnings == [f"Rebuilt {path}: 33 bytes are not a multiple of 34."]
    assert path.read_bytes() == data
    assert offsets(log) == []


def test_damaged_index_without_entries_is_replaced(tmp_path: Path) -> None:
    log = opened(tmp_path)
    appended(log)
    log.roll(NOW_MS)
    log.close()
    path = tmp_path / file_name(0, TRANSACTION_INDEX)
    path.write_bytes(b"x")
    assert reopen(log, clean=True).warnings == [f"Rebuilt {path}: 1 bytes are not a multiple of 34."]
    assert reopen(log, clean=True).warnings == []


def test_index_of_removed_segments_is_removed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 1, 0)
    end(log, 1, commit=False)
    log.roll(NOW_MS)
    appended(log)
    log.delete_records(2)
    log.delete_expired_segments(NOW_MS)
    log.delete_expired_segments(NOW_MS)
    assert not with_suffix(tmp_path, TRANSACTION_INDEX)
    assert offsets(log) == [2]


def test_last_stable_offset_is_never_before_the_log_start(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 1, 0)
    appended(log)
    log.delete_records(1)
    assert log.last_stable_offset == 1
    assert committed(log) == []


@pytest.mark.proves("TX-66")
def test_cleaner_removes_aborted_and_keeps_newest_committed(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACTED)
    appended(log, Sent(b"k", b"committed"))
    send(log, 1, 0, Sent(b"k", b"aborted"))
    send(log, 1, 1, Sent(b"k", b"aborted"))
    end(log, 1, commit=False)
    log.roll(NOW_MS)
    assert compact(log, NOW_MS)
    assert [(record.offset, record.value) for record in committed(log)] == [(0, b"committed")]
    # The last batch of the producer keeps its sequence, and therefore the marker and its entry stay.
    assert log.segments[0].transaction_index.entries == [AbortedTransaction(1, 1, 3, 4)]
    assert [stored.base_offset for stored in stored_batches(log)] == [0, 2, 3]


@pytest.mark.proves("TX-66")
def test_cleaner_keeps_records_from_the_last_stable_offset_on(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACTED)
    appended(log, Sent(b"k", b"old"))
    log.roll(NOW_MS)
    send(log, 1, 0, Sent(b"k", b"open"))
    log.roll(NOW_MS)
    appended(log, Sent(b"k", b"new"))
    log.roll(NOW_MS)
    compact(log, NOW_MS)
    assert [record.value for record in committed(log)] == [b"old"]
    end(log, 1, commit=False)
    log.roll(NOW_MS)
    compact(log, NOW_MS)
    assert [record.value for record in committed(log)] == [b"new"]


@pytest.mark.proves("TX-66")
@pytest.mark.parametrize("commit", [True, False])
def test_cleaner_removes_marker_after_batches_and_retention(tmp_path: Path, commit: bool) -> None:
    log = opened(tmp_path, COMPACTED)
    send(log, 1, 0, Sent(b"k", b"first"))
    end(log, 1, commit=commit)
    send(log, 1, 1, Sent(b"k", b"second"))
    end(log, 1, commit=True)
    for round_number in range(4):
        appended(log, Sent(b"x%d" % round_number, b"v"))
        log.roll(NOW_MS)
        compact(log, NOW_MS + 2_000 * round_number)
        found = [stored.base_offset for stored in stored_batches(log) if stored.is_control]
        # The first run removes the batch, the second sets the horizon, the third passes it.
        assert found == ([1, 3] if round_number < 2 else [3])
        log = reopen(log)
    assert next(record.value for record in committed(log)) == b"second"
    assert not any(segment.transaction_index.entries for segment in log.segments)


def test_interrupted_compaction_keeps_the_index(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACTED)
    send(log, 1, 0, Sent(b"k", b"aborted"))
    end(log, 1, commit=False)
    log.roll(NOW_MS)
    plan = cleaner.plan(log, NOW_MS)
    assert plan is not None
    cleaner.clean(plan)
    for kind in (".index", ".timeindex", TRANSACTION_INDEX, LOG):
        path = tmp_path / (file_name(0, kind) + ".cleaned")
        path.rename(tmp_path / (file_name(0, kind) + ".swap"))
    (tmp_path / file_name(0, LOG)).unlink()
    for name in with_suffix(tmp_path, SNAPSHOT).values():
        name.unlink()
    log = reopen(log, clean=True)
    assert log.segments[0].transaction_index.entries == [AbortedTransaction(1, 0, 1, 2)]
    assert committed(log) == []
