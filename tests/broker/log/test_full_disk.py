"""A full disk refuses appends, leaves the log as it was, and is forgotten when there is room."""

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
    """Set how many bytes the disk still takes; what does not fit is written in part."""
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


def storage_error(answer: AppendInfo | Rejection) -> bool:
    return isinstance(answer, Rejection) and answer.error is Error.KAFKA_STORAGE_ERROR


def test_a_write_that_does_not_fit_is_refused_and_leaves_no_trace(tmp_path: Path, room: Callable[[int], None]) -> None:
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


def test_a_turn_that_does_not_fit_is_refused_as_a_whole(tmp_path: Path, room: Callable[[int], None]) -> None:
    log = opened(tmp_path)
    room(250)
    answers = log.append_many([sized(100), b"wrong", sized(100), sized(100)], NOW_MS)
    assert [answer[0] for answer in answers] == [
        Error.KAFKA_STORAGE_ERROR,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
        Error.KAFKA_STORAGE_ERROR,
    ]
    assert log.log_end_offset == 0


def test_who_follows_a_refused_batch_of_the_same_turn_is_refused_too(
    tmp_path: Path, room: Callable[[int], None]
) -> None:
    log = opened(tmp_path)
    fill(log, 19)
    room(50)
    turn = [batch(producer_id=3, epoch=0, sequence=number) for number in range(4)]
    answers = log.append_many(turn, NOW_MS)
    assert storage_error(answers[0])
    assert all(isinstance(answer, Rejection) for answer in answers)
    assert log.log_end_offset == 19
    room(10_000)
    assert [answer[0] for answer in log.append_many(turn, NOW_MS)] == [19, 20, 21, 22]


def test_a_roll_that_does_not_fit_leaves_the_old_segment_active(tmp_path: Path, room: Callable[[int], None]) -> None:
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
    assert log.retain(NOW_MS * 2) == [0, 20]
    assert len(contents(log)) == 5
    room(10_000)
    assert log.retain(NOW_MS * 2) == [40]


def test_what_cannot_even_be_cut_off_is_written_over(
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
from tests.broker.log.batches import NOW_MS, SMALL, contents, sized
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.partition_log import AppendInfo, PartitionLog
log = PartitionLog.open(Path(sys.argv[1]), LogConfig(), NOW_MS)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_050, hard))
answers = [log.append(sized(300), NOW_MS) for _ in range(40)]
print(sum(isinstance(answer, AppendInfo) for answer in answers), log.size, len(contents(log)), answers[-1].error.name)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(log.append(sized(300), NOW_MS).base_offset)
"""


def test_a_limit_of_the_operating_system_is_met_in_the_same_way(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", CHILD.format(path=[root]), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "33 9900 33 KAFKA_STORAGE_ERROR\n33\n"
    assert PartitionLog.open(tmp_path, SMALL, NOW_MS).log_end_offset == 34
