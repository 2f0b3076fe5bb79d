"""A client process that prints JSON lines.

Invariants:
- Two threads read the process's output, so that it never blocks on a full pipe.
- Waiting has a deadline. If a watched process ends, the test fails at once and shows the end of its stderr.
- A killed process gets SIGKILL and is reaped; no process outlives its test.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PEERS: Final = ROOT / ".cache" / "peers"
JARS: Final = ROOT / ".jars" / "streams-connect-4.3.1"
SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02

T = TypeVar("T")
Line = dict[str, Any]


def require_installed(client: str, *paths: Path) -> None:
    """Skip the test if `make peers` has not installed this client."""
    if all(path.exists() for path in paths):
        return
    pytest.skip(f"{client} is not installed; run: make peers")


def wait_for(
    what: str, condition: Callable[[], T], seconds: float = SECONDS, watch: "Sequence[ClientProcess]" = ()
) -> T:
    """Wait for the condition's first true value; fail at the deadline, or when a watched process ends."""
    deadline = time.monotonic() + seconds
    while True:
        ended = [process for process in watch if process.returncode is not None]
        if value := condition():
            return value
        if ended:
            pytest.fail(f"waiting for {what}: {ended[0].stderr_tail()}")
        if time.monotonic() > deadline:
            stderr = "\n".join(process.stderr_tail() for process in watch)
            pytest.fail(f"{what}: not within {seconds:g} s\n{stderr}")
        time.sleep(_POLL_SECONDS)


class ClientProcess:
    """A process whose standard output is JSON lines."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        self.name = Path(command[0]).name
        self._lines: list[Line] = []
        self._errors: list[str] = []
        self._process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **(environment or {})},
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self._add_line), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self._errors.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: IO[str], add: Callable[[str], None]) -> None:
        for line in stream:
            add(line.rstrip("\n"))

    def _add_line(self, line: str) -> None:
        try:
            self._lines.append(json.loads(line))
        except ValueError:
            self._errors.append(line)

    @property
    def lines(self) -> list[Line]:
        """The JSON lines so far."""
        return list(self._lines)

    @property
    def errors(self) -> list[str]:
        """The lines on standard error so far."""
        return list(self._errors)

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def values(self, key: str) -> list[Any]:
        """The values of this key in all lines, oldest first."""
        return [line[key] for line in self._lines if key in line]

    def stderr_tail(self) -> str:
        """Its exit code and the end of its standard error."""
        return f"{self.name} (exit code {self.returncode}) wrote: " + "\n".join(self._errors[-30:])

    def send(self, text: str) -> None:
        """Write to its standard input and close it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended; the next wait reports that

    def finish(self, seconds: float = SECONDS) -> list[Line]:
        """Close its standard input, wait for exit code 0, and return its lines."""
        self.send("")
        return self.result(seconds)

    def result(self, seconds: float = SECONDS) -> list[Line]:
        """Wait for exit code 0 and return its lines."""
        self._wait(seconds)
        assert self.returncode == 0, self.stderr_tail()
        return self.lines

    def terminate(self, seconds: float = SECONDS) -> None:
        """Send SIGTERM and wait."""
        self._process.send_signal(signal.SIGTERM)
        self._wait(seconds)

    def kill(self) -> None:
        """Send SIGKILL and wait."""
        self._process.kill()
        self._wait(SECONDS)

    def _wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"did not end within {seconds:g} s: {self.stderr_tail()}")
        for reader in self._readers:
            reader.join(seconds)

    def close(self) -> None:
        """Kill it if it runs, and close its pipes."""
        if self.returncode is None:
            self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(SECONDS)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                with suppress(BrokenPipeError):
                    stream.close()
