"""Tests of the sequences of idempotent producers."""

from pathlib import Path

import pytest

from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import SNAPSHOT, file_name, with_suffix
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.producer_state import ProducerState, SequencedBatch, last_sequence, remove_snapshots
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error
from slackwater.wire.records.batch import TimestampType

from .batches import NOW_MS, SMALL, Sent, batch, opened, reopen


def send(
    log: PartitionLog, sequence: int, *, epoch: int = 0, records: int = 1, producer_id: int = 7
) -> AppendInfo | Rejection:
    made = batch(*[Sent()] * records, producer_id=producer_id, epoch=epoch, sequence=sequence)
    return log.append(made, NOW_MS)


def offset(result: AppendInfo | Rejection) -> int:
    assert isinstance(result, AppendInfo), result
    return result.base_offset


def error(result: AppendInfo | Rejection) -> Error:
    assert isinstance(result, Rejection), result
    return result.error


def test_last_five_batches_are_duplicates(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(7):
        assert offset(send(log, number * 2, records=2)) == number * 2
    for number in range(2, 7):
        again = send(log, number * 2, records=2)
        assert isinstance(again, AppendInfo)
        assert (again.base_offset, again.last_offset, again.duplicate) == (number * 2, number * 2 + 1, True)
    assert error(send(log, 2, records=2)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 14


def test_sequence_gap_and_old_epoch_are_rejected(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 0)
    rejected = send(log, 2)
    assert rejected == Rejection(
        Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Producer 7 in {tmp_path.name}: Sequence 2 in epoch 0 is out of order; expected 1.",
    )
    assert error(send(log, 3, epoch=1)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offset(send(log, 0, epoch=1)) == 1
    assert error(send(log, 1, epoch=0)) is Error.INVALID_PRODUCER_EPOCH
    assert offset(send(log, 1, epoch=1)) == 2


def test_unknown_producer_may_start_anywhere(tmp_path: Path) -> None:
    assert offset(send(opened(tmp_path), 1234)) == 0


def test_sequences_wrap_to_zero(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert last_sequence((1 << 31) - 2, 3) == 1
    assert offset(send(log, (1 << 31) - 2, records=4)) == 0
    assert offset(send(log, 2)) == 4
    assert offset(send(log, (1 << 31) - 2, records=4)) == 0


def test_sequences_within_append_many(tmp_path: Path) -> None:
    log = opened(tmp_path)
    made = [batch(producer_id=7, epoch=0, sequence=number) for number in (0, 1, 1, 3, 2)]
    results = log.append_many(made, NOW_MS)
    assert [result.base_offset if isinstance(result, AppendInfo) else result.error for result in results] == [
        0,
        1,
        1,
        Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
        2,
    ]
    assert isinstance(results[2], AppendInfo)
    assert results[2].duplicate


def test_sequences_within_one_request(tmp_path: Path) -> None:
    log = opened(tmp_path)
    first, second, gap = (batch(producer_id=7, epoch=0, sequence=number) for number in (0, 1, 3))
    assert error(log.append(first + gap, NOW_MS)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offset(log.append(first + second, NOW_MS)) == 0
    assert offset(send(log, 2)) == 2


def test_duplicate_has_original_append_time(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    send(log, 0)
    again = log.append(batch(producer_id=7, epoch=0, sequence=0), NOW_MS + 500)
    assert isinstance(again, AppendInfo)
    assert again.log_append_time_ms == NOW_MS


@pytest.mark.parametrize("how", ["killed", "closed", "snapshot lost", "snapshot damaged"])
def test_duplicates_are_known_after_restart(tmp_path: Path, how: str) -> None:
    log = opened(tmp_path)
    for number in range(60):
        send(log, number, records=2 if number % 2 else 1, producer_id=number % 3)
        send(log, number, producer_id=100 + number)
    assert len(log.segments) > 2
    before = {key: known.batches for key, known in log.producers.producers.items()}
    if how == "killed":
        log = reopen(log)
    else:
        log.close()
        for path in with_suffix(tmp_path, SNAPSHOT).values():
            if how == "snapshot lost":
                path.unlink()
            elif how == "snapshot damaged":
                path.write_bytes(path.read_bytes()[:-1] + b"?")
        log = PartitionLog.open(tmp_path, SMALL, NOW_MS)
    assert {key: known.batches for key, known in log.producers.producers.items()} == before


def test_producer_state_expires(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, 0)
    log.delete_expired_segments(NOW_MS + SMALL.producer_id_expiration_ms - 1)
    assert log.producers.producers
    log.delete_expired_segments(NOW_MS + SMALL.producer_id_expiration_ms)
    assert not log.producers.producers
    assert offset(send(log, 55)) == 1
    log.close()
    assert not PartitionLog.open(tmp_path, SMALL, NOW_MS + SMALL.producer_id_expiration_ms).producers.producers


def test_snapshots_are_kept_with_their_segment(tmp_path: Path) -> None:
    for at in (10, 20, 30, 40):
        ProducerState(at).write(tmp_path)
    remove_snapshots(tmp_path, {20})
    assert list(with_suffix(tmp_path, SNAPSHOT)) == [20, 40]
    remove_snapshots(tmp_path / "..", set())


@pytest.mark.parametrize("data", [b"", b"\0\2" + bytes(8), b"\0\1" + bytes(8), bytes(10)])
def test_damaged_snapshot_is_ignored(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / file_name(5, SNAPSHOT)
    path.write_bytes(data)
    assert ProducerState.read(path, 5) is None
    assert ProducerState.latest(tmp_path, 3, 9).end_offset == 3
    assert not path.exists()


def test_snapshot_after_log_end_is_removed(tmp_path: Path) -> None:
    for at in (5, 10):
        state = ProducerState(at)
        state.replay(1, 0, SequencedBatch(at, at, 0, NOW_MS))
        state.write(tmp_path)
    assert ProducerState.latest(tmp_path, 0, 7).producers[1].batches[-1].last_offset == 5
    assert list(with_suffix(tmp_path, SNAPSHOT)) == [5]
