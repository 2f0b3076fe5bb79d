"""A crash between any two steps of creating, growing or deleting topics: each is done or not done at the next start.

An audit hook raises before the n-th change of the file system, as if the process were killed there.
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater.broker.config import Settings
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.topics import FILE, Topics

from .log.batches import NOW_MS, batch

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}
FOREIGN = ("photos-2024", "backup-delete", "old-1")
_ids = itertools.count(1)


class Killed(BaseException):
    """Ends the process; nothing in the broker handles it."""


class Killer:
    """Raises `Killed` before the change number `at` of files below a directory."""

    def __init__(self) -> None:
        self.directory = ""
        self.at = 0
        self.changes = 0

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if not self.directory:
            return
        opens_for_writing = event == "open" and isinstance(args[2], int) and bool(args[2] & (os.O_WRONLY | os.O_RDWR))
        if (event in CHANGES or opens_for_writing) and str(args[0]).startswith(self.directory):
            self.changes += 1
            if self.changes == self.at:
                self.directory = ""
                raise Killed

    @contextmanager
    def armed(self, directory: Path, at: int) -> Iterator[None]:
        self.directory, self.at, self.changes = str(directory), at, 0
        try:
            yield
        finally:
            self.directory = ""


KILLER = Killer()
sys.addaudithook(KILLER)


def _open(directory: Path) -> Topics:
    topics = Topics(directory, Settings(None), wall_ms=lambda: NOW_MS, new_id=lambda: next(_ids).to_bytes(16, "big"))
    topics.load()
    return topics


def _content(topics: Topics) -> dict[str, list[int]]:
    """Return the end offsets of all partitions by topic."""
    return {topic.name: [partition.log.log_end_offset for partition in topic.partitions] for topic in topics}


def _create(topics: Topics) -> None:
    topics.create("new", 2)


def _grow(topics: Topics) -> None:
    topic = topics.get("t")
    assert topic is not None
    topics.add_partitions(topic, 4)


def _delete(topics: Topics) -> None:
    topic = topics.get("t")
    assert topic is not None
    topics.delete(topic)


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (_create, {"t": [1, 1], "new": [0, 0]}),
        (_grow, {"t": [1, 1, 0, 0]}),
        (_delete, {}),
    ],
    ids=["create", "grow", "delete"],
)
@pytest.mark.parametrize("second_kill", [0, 1, 2, 3])
def test_killed_change_is_done_or_not_done(
    tmp_path: Path, change: Callable[[Topics], None], after: dict[str, list[int]], second_kill: int
) -> None:
    before = {"t": [1, 1]}
    outcomes = []
    for at in itertools.count(1):
        data = tmp_path / str(at)
        data.mkdir()
        for name in FOREIGN:
            (data / name).mkdir()
            (data / name / "file").touch()
        topics = _open(data)
        for partition in topics.create("t", 2).partitions:
            assert isinstance(partition.log.append(batch(), NOW_MS), AppendInfo)
        is_killed = False
        try:
            with KILLER.armed(data, at):
                change(topics)
        except Killed:
            is_killed = True
        topics.close(clean=False)
        if second_kill:
            try:
                with KILLER.armed(data, second_kill):
                    _open(data).close(clean=False)
            except Killed:
                pass
        again = _open(data)
        content = _content(again)
        assert content in (before, after), (at, content)
        outcomes.append(content)
        again.close()
        expected = {FILE, *FOREIGN} | {f"{name}-{index}" for name in content for index in range(len(content[name]))}
        assert set(os.listdir(data)) - {FILE + ".tmp"} == expected, at
        assert all((data / name / "file").exists() for name in FOREIGN)
        if not is_killed:
            break
    assert outcomes[0] == before
    assert outcomes[-1] == after
