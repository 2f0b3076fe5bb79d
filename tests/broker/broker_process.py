"""A broker in a process of its own: started, asked, stopped, killed, and what it said."""

import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests import waiting
from tests.broker.raw_client import RawClient

START_S = 60.0
STOP_S = 60.0
LISTENING = re.compile(rb"Slackwater broker listening on (127\.0\.0\.1):(\d+)\n")


class BrokerProcess:
    """One run of `slackwater broker`; `log` is its standard error."""

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None, *, port: int = 0) -> None:
        command = _command(data, settings or {}, port)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._said: list[bytes] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        try:
            self.port = self._ready()
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has written to standard error so far."""
        return b"".join(self._said).decode(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def connect(self, client_id: str = "client") -> RawClient:
        """A client that speaks raw requests."""
        return await RawClient.at(self.port, client_id)

    def kill(self) -> None:
        """End it as a power cut would, and hear what it said until then."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """Ask it to stop, which it must do cleanly."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_S)
        self._end()
        assert code == 0, f"the broker ended with {code}\n{self.log[-4000:]}"

    def resident_bytes(self) -> int:
        """How much memory it has now."""
        return self._memory("VmRSS")

    def most_resident_bytes(self) -> int:
        """The most memory it has had."""
        return self._memory("VmHWM")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        assert found, status
        return int(found[1]) * 1024

    def limit_files(self, size: int | None) -> None:
        """Let no file grow beyond a size, as a full disk would; None takes the limit away."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))

    def _end(self) -> None:
        self._process.wait(STOP_S)
        self._listener.join(STOP_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        fd = self._process.stderr.fileno()
        while came := os.read(fd, 1 << 16):
            self._said.append(came)

    def _ready(self) -> int:
        assert self._process.stdout is not None
        fd, line = self._process.stdout.fileno(), b""
        deadline = time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            while not line.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
                came = os.read(fd, 4096)
                if not came:
                    break
                line += came
        said = LISTENING.fullmatch(line)
        assert said, f"the broker is not ready; it said {line!r}\n{self.log[-4000:]}"
        return int(said[2])


def _command(data: Path, settings: Mapping[str, str], port: int = 0) -> list[str]:
    command = [sys.executable, "-m", "slackwater", "broker", "--listen", f"127.0.0.1:{port}", "--data", str(data)]
    return command + [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def kill_while_starting(data: Path, settings: Mapping[str, str], seconds: float) -> None:
    """Start a broker and kill it so much later, ready or not."""
    command = _command(data, settings)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        else:
            raise AssertionError(f"the broker ended with {process.returncode}")


def wait_until(condition: Callable[[], bool], about: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for a condition; a failure that tells `about` if it does not come."""
    waiting.wait_until(condition, about, seconds)


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process open as many files as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
