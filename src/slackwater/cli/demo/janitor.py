"""Clears up after a demo, however it ends: a process that outlives it by a moment.

    python -m slackwater.cli.demo.janitor DIRECTORY

Rules kept here
- It is told of every child, `PID` in a line of its own. A child leads a session, so that whatever it starts is found.
- When its standard input ends, the demo has ended, orderly or by `kill -9`: it kills what is left of those sessions,
  removes the directory, and ends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 10.0
_STAT_SESSION: Final = 3
"""Where the session stands in /proc/PID/stat, behind the name."""


class Janitor:
    """The demo's side: hand it a process, and it will not be left behind."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "slackwater.cli.demo.janitor", str(directory)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # neither Ctrl-C nor the end of the terminal is for it
        )

    def see(self, pid: int) -> None:
        """There is another child."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{pid}\n")
            self._process.stdin.flush()

    def finish(self) -> None:
        """The demo is over: wait until everything is cleared up."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def kill_sessions(leaders: Collection[int]) -> None:
    """`kill -9` for these processes and all that they have started, until none is left."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := _of_sessions(leaders)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _of_sessions(leaders: Collection[int]) -> list[int]:
    """The living processes of these sessions; without /proc, the leaders' process groups are all that can be found."""
    if not Path("/proc/self/stat").exists():
        return _of_groups(leaders)
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
                if int(fields[_STAT_SESSION]) in leaders and fields[0] != "Z":
                    found.append(int(directory.name))
    return found


def _of_groups(leaders: Collection[int]) -> list[int]:
    listed = subprocess.run(["ps", "-axo", "pid=,pgid=,state="], capture_output=True, text=True, check=False)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pid, group, state in rows if int(group) in leaders and not state.startswith("Z")]


def main(directory: Path) -> None:
    """Wait for the end of the demo, and clear up."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leaders = {int(line) for line in sys.stdin}
    kill_sessions(leaders)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
