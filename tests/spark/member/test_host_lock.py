"""Locks between processes, in a temporary directory that other users can write to."""

import os
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from slackwater.group.errors import UsageError
from slackwater.spark.member.host_lock import HOLDER, HostLock

TAKEN = f"The checkpoint is in use by {HOLDER}."


class Lock(HostLock):
    """A lock that a `with` block releases."""

    def close(self) -> None:
        self.release()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the locks, which does not exist yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"slackwater-{os.getuid()}"


def lock_file(directory: Path, name: str) -> Path:
    """The file of a lock that was acquired once."""
    with closing(Lock(name)) as lock:
        lock.acquire(TAKEN, timeout_s=0)
    (path,) = directory.iterdir()
    return path


def test_lock_is_exclusive_and_released(directory: Path) -> None:
    with closing(Lock("a")) as first, closing(Lock("a")) as second:
        first.acquire(TAKEN, timeout_s=0)
        with pytest.raises(UsageError, match=f"in use by process {os.getpid()}"):
            second.acquire(TAKEN, timeout_s=0)
        first.release()
        second.acquire(TAKEN, timeout_s=0)
    assert oct(directory.stat().st_mode)[-3:] == "700"


def test_linked_directory_is_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=f"{directory} cannot be opened for locks: .* set TMPDIR"):
        Lock("a").acquire(TAKEN, timeout_s=0)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_directory_of_another_user_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(UsageError, match=f"belongs to user {owner}, not to user {owner + 1}.* set TMPDIR"):
        Lock("a").acquire(TAKEN, timeout_s=0)


def test_writable_directory_is_refused(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(UsageError, match=r"is writable by other users \(mode 0777\)"):
        Lock("a").acquire(TAKEN, timeout_s=0)


def test_linked_lock_file_is_refused(directory: Path, tmp_path: Path) -> None:
    path = lock_file(directory, "a")
    victim = tmp_path / "victim"
    victim.write_text("content")
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(UsageError, match=f"{path} cannot be opened for locks"):
        Lock("a").acquire(TAKEN, timeout_s=0)
    assert victim.read_text() == "content"


def test_lock_file_that_is_no_file_is_refused(directory: Path) -> None:
    path = lock_file(directory, "a")
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(UsageError, match="is not a regular file"):
        Lock("a").acquire(TAKEN, timeout_s=0)


def test_writable_lock_file_is_refused(directory: Path) -> None:
    path = lock_file(directory, "a")
    path.chmod(0o666)
    with pytest.raises(UsageError, match="is writable by other users"):
        Lock("a").acquire(TAKEN, timeout_s=0)
