"""`slackwater demo`: the whole story, and what Ctrl-C leaves behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater.cli.demo.crew import Read

DEADLINE_S = 120.0
MEMBER = "slackwater.cli.demo.members"


@contextmanager
def _demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "slackwater", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "140"},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _members_of(tmp_path: Path) -> list[str]:
    """The member processes that belong to a demo with this temporary directory."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                command = (directory / "cmdline").read_bytes().decode(errors="replace")
                environment = (directory / "environ").read_bytes()
            except OSError:  # it has ended, or is somebody else's
                continue
            if MEMBER in command and f"TMPDIR={tmp_path}".encode() in environment:
                found.append(command)
    return found


def test_the_demo_tells_its_five_chapters_and_loses_nothing(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, out
    assert re.findall(r"\d of 5  ([A-Z][a-z -]+):", out) == [
        "Join",
        "Scale-out",
        "Static restart",
        "Kill",
        "Cooperative",
    ]
    account = out[out.index("The account") :]
    for row in (r"Join +1 +member_join", r"Static restart +0 +– +same generation", r"Kill +1 +session_timeout"):
        assert re.search(row, account), account
    counts = re.search(r"(\d+) records acknowledged, (\d+) read", account)
    assert counts is not None
    acknowledged, read = map(int, counts.groups())
    assert acknowledged == read > 0
    assert _members_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_demo_that_is_interrupted(tmp_path: Path, how: signal.Signals) -> None:
    with _demo(tmp_path) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:  # the first member has joined
            if "joins" in line:
                break
        assert _members_of(tmp_path)
        demo.send_signal(how)
        demo.wait(DEADLINE_S)
    assert demo.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while (left := _members_of(tmp_path)) and time.monotonic() < deadline:
        os.sched_yield()
    assert left == []
    if how is signal.SIGINT:
        assert list(tmp_path.iterdir()) == []


def test_what_was_read_twice_is_counted_once_and_told() -> None:
    read = Read()
    read.ranges["t", 0] += [(0, 5), (3, 8), (10, 12)]
    read.ranges["t", 1] += [(0, 2), (0, 2)]
    assert read.counts() == (12, 4)
