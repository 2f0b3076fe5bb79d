"""A broker in a child process: start it, stop it, kill it, and read its log."""

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
        self._stderr: list[bytes] = []
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()
        try:
            self.port = self._wait_for_port()
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
        """Its standard error so far."""
        return b"".join(self._stderr).decode(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def connect(self, client_id: str = "client") -> RawClient:
        """Connect a raw client."""
        return await RawClient.at(self.port, client_id)

    def kill(self) -> None:
        """Kill the process and read the rest of its log."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """Stop it with SIGTERM and check the exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_S)
        self._end()
        assert code == 0, f"the broker exited with {code}\n{self.log[-4000:]}"

    def resident_bytes(self) -> int:
        """Its resident memory."""
        return self._memory("VmRSS")

    def peak_resident_bytes(self) -> int:
        """Its peak resident memory."""
        return self._memory("VmHWM")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        assert match, status
        return int(match[1]) * 1024

    def limit_files(self, size: int | None) -> None:
        """Limit the file size, which acts like a full disk; None removes the limit."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))

    def open_descriptors(self) -> int:
        """The number of its open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def limit_descriptors(self, limit: int | None) -> None:
        """Limit the file descriptors; None removes the limit."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (hard if limit is None else limit, hard))

    def _end(self) -> None:
        self._process.wait(STOP_S)
        self._stderr_reader.join(STOP_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        fd = self._process.stderr.fileno()
        while data := os.read(fd, 1 << 16):
            self._stderr.append(data)

    def _wait_for_port(self) -> int:
        assert self._process.stdout is not None
        fd, line = self._process.stdout.fileno(), b""
        deadline = time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            while not line.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(fd, 4096)
                if not data:
                    break
                line += data
        listening = LISTENING.fullmatch(line)
        assert listening, f"the broker did not start; its output is {line!r}\n{self.log[-4000:]}"
        return int(listening[2])


def _command(data: Path, settings: Mapping[str, str], port: int = 0) -> list[str]:
    command = [sys.executable, "-m", "slackwater", "broker", "--listen", f"127.0.0.1:{port}", "--data", str(data)]
    return command + [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def kill_while_starting(data: Path, settings: Mapping[str, str], seconds: float) -> None:
    """Start a broker and kill it after some seconds, ready or not."""
    command = _command(data, settings)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        else:
            raise AssertionError(f"the broker exited with {process.returncode}")


def wait_until(condition: Callable[[], bool], about: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for a condition; a failure shows `about()`."""
    waiting.wait_until(condition, about, seconds)


@contextmanager
def many_files() -> Iterator[None]:
    """Raise the limit of open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
