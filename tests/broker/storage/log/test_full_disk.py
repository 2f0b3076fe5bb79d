"""Tests of a full disk: appends fail, the log stays as it was, and works again when there is room."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error

from .batches import NOW_MS, SMALL, appended, batch, contents, fill, opened, reopen, sized


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set how many bytes fit on the disk; the rest of a write is dropped."""
    left = 1 << 40
    real = os.pwritev

    def pwritev(fd: int, buffers: list[bytes], position: int) -> int:
        nonlocal left
        data = b"".join(buffers)[: max(left, 0)]
        if not data:
            raise OSError(errno.ENOSPC, "No space left on device")
        left -= len(data)
        return real(fd, [data], position)

    def set_room(size: int) -> None:
        nonlocal left
        left = size

    monkeypatch.setattr(os, "pwritev", pwritev)
    return set_room


def storage_error(result: AppendInfo | Rejection) -> bool:
    return isinstance(result, Rejection) and result.error is Error.KAFKA_STORAGE_ERROR


def test_failed_write_leaves_no_trace(tmp_path: Path, room: Callable[[int], None]) -> None:
    log = opened(tmp_path)
    fill(log, 5)
    for left in range(0, 100, 9):
        room(left)
        made = batch(producer_id=3, epoch=0, sequence=0)
        assert storage_error(log.append(made + sized(100), NOW_MS))
        assert (log.log_end_offset, log.size, log.producers.producers) == (5, 500, {})
        assert (tmp_path / f"{0:020d}.log").stat().st_size == 500
        assert len(contents(log)) == 5
    room(10_000)
    assert appended(log).base_offset == 5
    assert len(contents(reopen(log))) == 6


def test_failed_write_rejects_all_pending_appends(tmp_path: Path, room: Callable[[int], None]) -> None:
    log = opened(tmp_path)
    room(250)
    results = log.append_many([sized(100), b"wrong", sized(100), sized(100)], NOW_MS)
    assert [result[0] for result in results] == [
        Error.KAFKA_STORAGE_ERROR,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
        Error.KAFKA_STORAGE_ERROR,
    ]
    assert log.log_end_offset == 0


def test_append_after_failed_write_is_rejected(tmp_path: Path, room: Callable[[int], None]) -> None:
    log = opened(tmp_path)
    fill(log, 19)
    room(50)
    buffers = [batch(producer_id=3, epoch=0, sequence=number) for number in range(4)]
    results = log.append_many(buffers, NOW_MS)
    assert storage_error(results[0])
    assert all(isinstance(result, Rejection) for result in results)
    assert log.log_end_offset == 19
    room(10_000)
    assert [result[0] for result in log.append_many(buffers, NOW_MS)] == [19, 20, 21, 22]


def test_failed_roll_keeps_old_segment_active(tmp_path: Path, room: Callable[[int], None]) -> None:
    log = opened(tmp_path)
    fill(log, 20)
    room(0)
    assert storage_error(log.append(sized(100), NOW_MS))
    assert len(log.segments) == 1
    room(10_000)
    assert appended(log).base_offset == 20
    assert len(log.segments) == 2
    assert len(contents(reopen(log))) == 21


def test_retention_waits_for_room_to_roll(tmp_path: Path, room: Callable[[int], None]) -> None:
    log = opened(tmp_path)
    fill(log, 45)
    room(0)
    assert log.delete_expired_segments(NOW_MS * 2) == [0, 20]
    assert len(contents(log)) == 5
    room(10_000)
    assert log.delete_expired_segments(NOW_MS * 2) == [40]


def test_bytes_that_cannot_be_truncated_are_overwritten(
    tmp_path: Path, room: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    fill(log, 2)

    def ftruncate(fd: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", ftruncate)
        room(60)
        assert storage_error(log.append(sized(100), NOW_MS))
    assert (tmp_path / f"{0:020d}.log").stat().st_size == 260
    assert len(contents(log)) == 2
    assert reopen(log).truncated_tails[0].size == 60


CHILD = """
import resource, sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.broker.storage.log.batches import NOW_MS, SMALL, contents, sized
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.partition_log import AppendInfo, PartitionLog
log = PartitionLog.open(Path(sys.argv[1]), LogConfig(), NOW_MS)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_050, hard))
results = [log.append(sized(300), NOW_MS) for _ in range(40)]
print(sum(isinstance(result, AppendInfo) for result in results), log.size, len(contents(log)), results[-1].error.name)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(log.append(sized(300), NOW_MS).base_offset)
"""


def test_file_size_limit_is_storage_error(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[4])
    command = [sys.executable, "-c", CHILD.format(path=[root]), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "33 9900 33 KAFKA_STORAGE_ERROR\n33\n"
    assert PartitionLog.open(tmp_path, SMALL, NOW_MS).log_end_offset == 34
