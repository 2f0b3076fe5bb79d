"""PySpark applications in separate processes, which tests start, stop and kill."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = (sys.executable, "-m", "tests.spark.application")
TIMEOUT_S: Final = 180.0
LOG_LINES: Final = 60
JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Application:
    """One process of `tests.spark.application`, with its JVM and their child processes."""

    def __init__(
        self,
        name: str,
        directory: Path,
        options: Mapping[str, str],
        *,
        command: Sequence[str] = PROGRAM,
        environment: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        spec = {"name": name, "directory": str(directory), "options": dict(options), **settings}
        if environment is None:
            environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, json.dumps(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env=environment,
                start_new_session=True,
            )
        self._status_lines: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self._status_lines.put(json.loads(line))

    def start(self) -> None:
        """Start the query."""
        self._send("start")
        self.wait_for_status("started")

    def stop(self) -> dict[str, Any]:
        """Stop the query and wait for the end. Returns the last status line."""
        self._send("stop")
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.wait_for_status("stopped")
        self.process.wait(TIMEOUT_S)
        return status

    def kill(self) -> None:
        """Send SIGKILL to the driver, its JVM and all child processes."""

        def are_gone() -> bool:
            running = self.processes()
            for process in running:
                kill(process)
            return not running

        wait_until(are_gone, self.processes, TIMEOUT_S)
        self.process.wait(TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def kill_driver(self) -> None:
        """Send SIGKILL to the driver's Python process only."""
        self.process.kill()

    def kill_jvm(self) -> None:
        """Send SIGKILL to the JVM only."""
        jvms = [process for process in self.processes() if is_jvm(process)]
        assert len(jvms) == 1, f"{self.name} has the JVMs {jvms}"
        kill(jvms[0])

    def processes(self) -> list[int]:
        """The ids of its processes. Spark's Python daemons leave the process group, but not the session."""
        return processes_of_session(self.process.pid)

    def wait_for_status(self, status: str) -> dict[str, Any]:
        """Wait for a status line."""
        while True:
            try:
                line = self._status_lines.get(timeout=TIMEOUT_S)
            except queue.Empty:
                raise AssertionError(f"{self.name} did not report {status!r}: {self.tail()}") from None
            if line["status"] == status:
                return line
            assert line["status"] != "failed", f"{self.name} failed: {line['details']}"

    def received(self) -> list[dict[str, Any]]:
        """The status lines that were not waited for."""
        lines = []
        with contextlib.suppress(queue.Empty):
            while True:
                lines.append(self._status_lines.get_nowait())
        return lines

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    def _send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()


def processes_of_session(session: int) -> list[int]:
    """The ids of the processes of a session; a process that starts a session has its id."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _session(path) == session]


def _session(process: Path) -> int | None:
    """The session id of a process; None for a zombie."""
    with contextlib.suppress(OSError):
        state, _parent, _group, session, *_ = (process / "stat").read_text().rpartition(")")[2].split()
        return None if state == "Z" else int(session)
    return None


def is_jvm(process: int) -> bool:
    """Whether a process is a JVM; False if it has ended meanwhile."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip() == "java"
    except OSError:
        return False


def kill(process: int) -> None:
    """Send SIGKILL to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def wait_for(condition: Any, *applications: Application) -> Any:
    """Wait for a condition; after the timeout, show the logs of the applications."""
    return wait_until(
        condition,
        lambda: "\n".join(f"{application.name}: {application.tail()}" for application in applications),
        TIMEOUT_S,
    )


def in_sink(directory: Path) -> dict[tuple[str, int, int], list[str]]:
    """The batches that contain each record."""
    batches: dict[tuple[str, int, int], list[str]] = {}
    for path in sorted((directory / "sink").glob("*.json")):
        for topic, partition, offset in json.loads(path.read_text()):
            batches.setdefault((topic, partition, offset), []).append(path.stem)
    return batches
