"""fsync for many waiters at once."""

import os
from pathlib import Path

import pytest

from slackwater.broker.storage.log import flush as flush_module
from slackwater.broker.storage.log.checkpoint import Checkpoint
from slackwater.broker.storage.log.flush import DirtyLogs
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error

from .batches import NOW_MS, appended, batch, fill, opened


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    paths: list[str] = []
    monkeypatch.setattr(flush_module, "_fsync", lambda fd: paths.append(os.readlink(f"/proc/self/fd/{fd}")))
    return paths


def flushed(flushes: DirtyLogs, *, rolled_only: bool = False) -> bool:
    flush = flushes.take(rolled_only=rolled_only)
    if flush is None:
        return False
    flush.run()
    assert flush.settle() == []
    return True


def test_all_who_wrote_in_a_turn_share_one_flush(tmp_path: Path, synced: list[str]) -> None:
    flushes = DirtyLogs()
    logs = [opened(tmp_path / name) for name in ("a", "b", "c")]
    for log in logs[:2]:
        for _ in range(3):
            appended(log)
            flushes.mark(log)
    assert flushed(flushes)
    assert sorted(Path(path).name for path in synced) == ["0" * 20 + ".log"] * 2 + ["a", "b"]
    assert [log.checkpoint.recovery_point for log in logs] == [3, 3, 0]
    assert not flushed(flushes)
    appended(logs[0])
    flushes.mark(logs[0])
    synced.clear()
    assert flushed(flushes)
    assert [Path(path).name for path in synced] == ["0" * 20 + ".log"]


def test_rolled_segments_alone_move_the_recovery_point_on_disk(tmp_path: Path, synced: list[str]) -> None:
    flushes, log = DirtyLogs(), opened(tmp_path)
    flushes.mark(log)
    fill(log, 10)
    assert not flushed(flushes, rolled_only=True)
    fill(log, 40)
    assert flushed(flushes, rolled_only=True)
    assert len(synced) == 2 * 3 + 1
    assert Checkpoint.read(tmp_path).recovery_point == 40
    assert not flushed(flushes, rolled_only=True)
    synced.clear()
    assert flushed(flushes)
    assert [Path(path).name for path in synced] == [f"{40:020d}.log"]
    assert log.checkpoint.recovery_point == 50


def test_a_segment_that_is_deleted_during_the_flush_disturbs_nobody(tmp_path: Path) -> None:
    flushes, log = DirtyLogs(), opened(tmp_path)
    fill(log, 50)
    flushes.mark(log)
    flush = flushes.take()
    assert flush is not None
    log.retain(NOW_MS * 2)
    flush.run()
    assert flush.settle() == []


def test_after_a_flush_that_failed_the_log_refuses_until_it_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes, good, bad = DirtyLogs(), opened(tmp_path / "good"), opened(tmp_path / "bad")

    def fail(fd: int) -> None:
        if "bad" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(flush_module, "_fsync", fail)
    for log in (good, bad):
        appended(log)
        flushes.mark(log)
    flush = flushes.take()
    assert flush is not None
    flush.run()
    assert flush.settle() == [bad]
    answer = bad.append(batch(), NOW_MS)
    assert isinstance(answer, Rejection)
    assert answer.error is Error.KAFKA_STORAGE_ERROR
    assert "Input/output error" in answer.message
    appended(good)
    bad.close()
    assert PartitionLog.open(tmp_path / "bad", bad.config, NOW_MS).checkpoint.recovery_point == 0
