"""Tests of the shared fsync."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import pytest

from slackwater.broker.storage.log import flush as flush_module
from slackwater.broker.storage.log.checkpoint import Checkpoint
from slackwater.broker.storage.log.flush import DirtyLogs
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error

from .batches import NOW_MS, appended, batch, fill, open_descriptors, opened

P = ParamSpec("P")


class LimitedDescriptors:
    """Lets functions open a number of descriptors, and then fail as at the limit of the process."""

    def __init__(self, available: int) -> None:
        self.available = available

    def limit(self, function: Callable[P, int]) -> Callable[P, int]:
        def call(*args: P.args, **kwargs: P.kwargs) -> int:
            if not self.available:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self.available -= 1
            return function(*args, **kwargs)

        return call


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    paths: list[str] = []
    monkeypatch.setattr(flush_module, "_fsync", lambda fd: paths.append(os.readlink(f"/proc/self/fd/{fd}")))
    return paths


def flushed(dirty_logs: DirtyLogs, *, rolled_only: bool = False) -> bool:
    flush = dirty_logs.take(rolled_only=rolled_only)
    if flush is None:
        return False
    flush.run()
    assert flush.complete() == []
    return True


def test_appends_share_one_flush(tmp_path: Path, synced: list[str]) -> None:
    dirty_logs = DirtyLogs()
    logs = [opened(tmp_path / name) for name in ("a", "b", "c")]
    for log in logs[:2]:
        for _ in range(3):
            appended(log)
            dirty_logs.mark(log)
    assert flushed(dirty_logs)
    assert sorted(Path(path).name for path in synced) == ["0" * 20 + ".log"] * 2 + ["a", "b"]
    assert [log.checkpoint.recovery_point for log in logs] == [3, 3, 0]
    assert not flushed(dirty_logs)
    appended(logs[0])
    dirty_logs.mark(logs[0])
    synced.clear()
    assert flushed(dirty_logs)
    assert [Path(path).name for path in synced] == ["0" * 20 + ".log"]


def test_flush_of_rolled_segments_moves_recovery_point(tmp_path: Path, synced: list[str]) -> None:
    dirty_logs, log = DirtyLogs(), opened(tmp_path)
    dirty_logs.mark(log)
    fill(log, 10)
    assert not flushed(dirty_logs, rolled_only=True)
    fill(log, 40)
    assert flushed(dirty_logs, rolled_only=True)
    assert len(synced) == 2 * 3 + 1
    assert (Checkpoint.read(tmp_path) or Checkpoint()).recovery_point == 40
    assert not flushed(dirty_logs, rolled_only=True)
    synced.clear()
    assert flushed(dirty_logs)
    assert [Path(path).name for path in synced] == [f"{40:020d}.log"]
    assert log.checkpoint.recovery_point == 50


def test_segment_deleted_during_flush(tmp_path: Path) -> None:
    dirty_logs, log = DirtyLogs(), opened(tmp_path)
    fill(log, 50)
    dirty_logs.mark(log)
    flush = dirty_logs.take()
    assert flush is not None
    log.delete_expired_segments(NOW_MS * 2)
    flush.run()
    assert flush.complete() == []


def test_log_rejects_appends_after_failed_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dirty_logs, good, bad = DirtyLogs(), opened(tmp_path / "good"), opened(tmp_path / "bad")

    def fail(fd: int) -> None:
        if "bad" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(flush_module, "_fsync", fail)
    for log in (good, bad):
        appended(log)
        dirty_logs.mark(log)
    flush = dirty_logs.take()
    assert flush is not None
    flush.run()
    assert flush.complete() == [bad]
    (message,) = caplog.messages
    assert message.startswith(f"Appends to {bad.directory} fail with KAFKA_STORAGE_ERROR from now on: fsync failed: ")
    result = bad.append(batch(), NOW_MS)
    assert isinstance(result, Rejection)
    assert result.error is Error.KAFKA_STORAGE_ERROR
    assert "Input/output error" in result.message
    appended(good)
    bad.close()
    assert PartitionLog.open(tmp_path / "bad", bad.config, NOW_MS).checkpoint.recovery_point == 0


def test_missing_index_leaks_no_descriptor(tmp_path: Path) -> None:
    dirty_logs, log = DirtyLogs(), opened(tmp_path)
    fill(log, 50)
    dirty_logs.mark(log)
    (tmp_path / ("0" * 20 + ".index")).unlink()
    before = open_descriptors(tmp_path)
    assert flushed(dirty_logs, rolled_only=True)
    assert not flushed(dirty_logs, rolled_only=True)
    assert open_descriptors(tmp_path) == before
    assert log.checkpoint.recovery_point == 40
    log.close()


@pytest.mark.parametrize("available", range(12))
def test_logs_without_descriptors_stay_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str], available: int
) -> None:
    dirty_logs = DirtyLogs()
    logs = [opened(tmp_path / name) for name in ("a", "b")]
    for log in logs:
        fill(log, 30)  # two segments: three files, one file and the directory
        dirty_logs.mark(log)
    before = open_descriptors(tmp_path)
    with monkeypatch.context() as patched:
        limited = LimitedDescriptors(available)
        patched.setattr(os, "open", limited.limit(os.open))
        patched.setattr(os, "dup", limited.limit(os.dup))
        flush = dirty_logs.take()
    assert len(dirty_logs.ids()) == 2 - available // 5 if available < 10 else not dirty_logs.ids()
    if flush is not None:
        flush.run()
        assert flush.complete() == []
    assert flushed(dirty_logs) == (available < 10)
    assert sorted(map(os.path.basename, synced)) == sorted(
        [f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", f"{20:020d}.log"] * 2 + ["a", "b"]
    )
    assert [log.checkpoint.recovery_point for log in logs] == [30, 30]
    assert open_descriptors(tmp_path) == before
    for log in logs:
        log.close()
