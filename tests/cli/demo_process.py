"""Runs `slackwater demo` as a process."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

DEADLINE_S = 120.0


@contextmanager
def demo_process(tmp_path: Path, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A running demo; all its processes have ended afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "slackwater", "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "160"} | environment,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        wait_until(
            lambda: not demo_children(tmp_path, process.pid), lambda: demo_children(tmp_path, process.pid), DEADLINE_S
        )


def demo_children(tmp_path: Path, demo: int) -> list[str]:
    """The processes that belong to the demo with this temporary directory."""
    commands = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != demo:
            try:
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (directory / "environ").read_bytes()
            except OSError:  # it has ended, or belongs to another user
                continue
            if f"TMPDIR={tmp_path}".encode() in environment:
                commands.append(command)
    return commands


def wait_for_end_of_children(tmp_path: Path, demo: int) -> None:
    """Wait until no process belongs to the demo."""
    wait_until(lambda: not demo_children(tmp_path, demo), lambda: demo_children(tmp_path, demo), DEADLINE_S)


def steps(out: str) -> list[str]:
    """The titles of the steps in the demo's output."""
    return re.findall(r"^\d of \d  ([A-Z][a-z -]+):", out, re.MULTILINE)
