"""A guest of the broker: a process that tells what it does, a line at a time.

Rules kept here
- A guest is watched by two threads, one for each of its streams, so it never blocks on a full pipe.
- Waiting has a deadline, and a guest that ended while it was waited for is an error at once, with its last words.
- A killed guest gets SIGKILL and is reaped; nothing outlives the test that started it.
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


def need(what: str, *paths: Path) -> None:
    """Skip the test if `make peers` has not installed this client."""
    if all(path.exists() for path in paths):
        return
    missing = f"{what} is not installed; run: make peers"
    pytest.skip(missing)


def eventually(what: str, condition: Callable[[], T], seconds: float = SECONDS, watch: "Sequence[Guest]" = ()) -> T:
    """The first true value of a condition; too late is a failure, and so is the end of a guest that is watched."""
    give_up = time.monotonic() + seconds
    while True:
        ended = [guest for guest in watch if guest.returncode is not None]
        if value := condition():
            return value
        if ended:
            pytest.fail(f"waiting for {what}: {ended[0].last_words()}")
        if time.monotonic() > give_up:
            words = "\n".join(guest.last_words() for guest in watch)
            pytest.fail(f"waited {seconds:g} s in vain for {what}\n{words}")
        time.sleep(_POLL_SECONDS)


class Guest:
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
            threading.Thread(target=self._read, args=(self._process.stdout, self._keep_line), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self._errors.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: IO[str], keep: Callable[[str], None]) -> None:
        for line in stream:
            keep(line.rstrip("\n"))

    def _keep_line(self, line: str) -> None:
        try:
            self._lines.append(json.loads(line))
        except ValueError:
            self._errors.append(line)

    @property
    def lines(self) -> list[Line]:
        """What it has told so far."""
        return list(self._lines)

    @property
    def errors(self) -> list[str]:
        """What it has written on standard error so far."""
        return list(self._errors)

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def told(self, key: str) -> list[Any]:
        """Everything told under this name, oldest first."""
        return [line[key] for line in self._lines if key in line]

    def last_words(self) -> str:
        """Its state, and the end of what it wrote on standard error."""
        return f"{self.name} (exit code {self.returncode}) wrote: " + "\n".join(self._errors[-30:])

    def tell(self, text: str) -> None:
        """Write to its standard input, and end that."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended; whoever waits for it sees how

    def finish(self, seconds: float = SECONDS) -> list[Line]:
        """End its standard input and wait for its good end; what it has told."""
        self.tell("")
        return self.result(seconds)

    def result(self, seconds: float = SECONDS) -> list[Line]:
        """Wait for its good end; what it has told."""
        self._wait(seconds)
        assert self.returncode == 0, self.last_words()
        return self.lines

    def terminate(self, seconds: float = SECONDS) -> None:
        """Ask it to end, and wait until it has."""
        self._process.send_signal(signal.SIGTERM)
        self._wait(seconds)

    def kill(self) -> None:
        """SIGKILL: no word of leave, and no commit."""
        self._process.kill()
        self._wait(SECONDS)

    def _wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"did not end within {seconds:g} s: {self.last_words()}")
        for reader in self._readers:
            reader.join(seconds)

    def close(self) -> None:
        """Whatever it is doing: end it, and free what it held."""
        if self.returncode is None:
            self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(SECONDS)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                with suppress(BrokenPipeError):
                    stream.close()
