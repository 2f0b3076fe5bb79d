"""Tests of durable writes: which callbacks wait for which flush."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.partition_log import PartitionLog

from .log.batches import appended, opened


class Steps:
    """Blocking work and timers, done one at a time."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], None], Callable[[], object]]] = []
        self.timers: list[Callable[[], None]] = []
        self.durability = Durability(always=True, in_thread=self._in_thread, call_later=self._later)
        self.done: list[tuple[str, set[str]]] = []

    def _in_thread(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        self.work.append((work, done))

    def _later(self, _seconds: float, call: Callable[[], None]) -> None:
        self.timers.append(call)

    def write(self, name: str, *logs: PartitionLog) -> None:
        for log in logs:
            appended(log)
        self.durability.call_when_durable(
            logs, lambda failed: self.done.append((name, {log.directory.name for log in failed if log in logs}))
        )
        self.durability.flush_pending()

    def flush(self) -> None:
        work, done = self.work.pop(0)
        work()
        done()


def test_writes_wait_until_there_are_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, logs = Steps(), [opened(tmp_path / name) for name in ("a", "b")]
    left = 0
    dup = os.dup

    def limited_dup(fd: int) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.EMFILE, "Too many open files")
        left -= 1
        return dup(fd)

    monkeypatch.setattr(os, "dup", limited_dup)
    steps.write("first", *logs)
    steps.write("second", logs[0])
    assert (steps.work, len(steps.timers), steps.done) == ([], 1, [])
    steps.timers.pop()()
    assert (steps.work, len(steps.timers), steps.done) == ([], 1, [])
    left = 1
    steps.timers.pop()()  # the first log can be flushed
    steps.write("third", logs[0])
    steps.flush()
    assert (steps.work, len(steps.timers), steps.done) == ([], 1, [])
    left = 10
    steps.timers.pop()()
    steps.flush()
    assert steps.done == [("first", set()), ("second", set()), ("third", set())]
    assert [log.checkpoint.recovery_point for log in logs] == [3, 1]


def test_failed_flush_fails_every_waiting_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that cannot be flushed fails the writes that wait for it, also those of a later flush."""
    steps, good, bad = Steps(), opened(tmp_path / "good"), opened(tmp_path / "bad")

    def fail(fd: int) -> None:
        if "/bad" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("slackwater.broker.storage.log.flush._fsync", fail)
    steps.write("first", good, bad)
    steps.write("second", good)
    steps.write("third", bad)
    while steps.work:
        steps.flush()
    assert steps.done == [("first", {"bad"}), ("second", set()), ("third", {"bad"})]


def test_unreadable_directory_fails_the_write(tmp_path: Path) -> None:
    steps, log = Steps(), opened(tmp_path / "log")
    appended(log)
    (tmp_path / "log").rename(tmp_path / "moved")
    steps.write("lost", log)
    steps.flush()
    assert steps.done == [("lost", {"log"})]
    assert "No such file or directory" in (log.failed or "")
