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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from tests import waiting
from tests.broker.raw_client import RawClient

START_S = 60.0
STOP_S = 60.0
EXIT_S = 10.0
LISTENING = re.compile(rb"Slackwater broker listening on (127\.0\.0\.1):(\d+)\n")


class StartFailed(AssertionError):
    """The broker did not start; `exit_code` is None if it had to be killed."""

    def __init__(self, output: bytes, log: str, exit_code: int | None) -> None:
        super().__init__(f"the broker did not start ({exit_code}); its output is {output!r}\n{log[-4000:]}")
        self.log = log
        self.exit_code = exit_code


class BrokerProcess:
    """One run of `slackwater broker`; `log` is its standard error.

    `environment` is added to that of this process; `prefix` is put before the command.
    """

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        command = [*prefix, *_command(data, settings or {}, port)]
        variables = {**os.environ, **(environment or {})}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables)
        self._stderr: list[bytes] = []
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()
        try:
            output = self._first_line()
        except BaseException:
            self.kill()
            raise
        listening = LISTENING.fullmatch(output)
        if listening is None:
            exit_code = self._exit_code()
            self.kill()
            raise StartFailed(output, self.log, exit_code)
        self.port = int(listening[2])

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

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """Stop it with SIGTERM and check the exit code."""
        self.send_signal(signal.SIGTERM)
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
        """The number of its open file descriptors, without modules that it imports after the start."""
        count = 0
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                file = descriptor.readlink()
                count += file.suffix != ".py" and file.parent.name != "__pycache__"
        return count

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

    def _first_line(self) -> bytes:
        """Return the first line of standard output, or what there is of it at the deadline or the end."""
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
        return line

    def _exit_code(self) -> int | None:
        try:
            return self._process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            return None


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
