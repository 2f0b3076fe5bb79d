"""PySpark applications in processes of their own, started, stopped and killed by a test."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE_S: Final = 180.0
LOG_LINES: Final = 60


class Application:
    """One process of `tests.spark.application`, with its JVM and everything that this starts."""

    def __init__(self, name: str, directory: Path, options: Mapping[str, str], **more: object) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        spec = {"name": name, "directory": str(directory), "options": dict(options), **more}
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.application", json.dumps(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env=environment,
                start_new_session=True,
            )
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self._said.put(json.loads(line))

    def start(self) -> None:
        """Let it start its query."""
        self._tell("start")
        self.hear("started")

    def stop(self) -> dict[str, Any]:
        """Stop the query and wait for the end; the answer is its last word."""
        self._tell("stop")
        assert self.process.stdin is not None
        self.process.stdin.close()
        said = self.hear("stopped")
        self.process.wait(PATIENCE_S)
        return said

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and all their children, at once."""

        def gone() -> bool:
            running = self.processes()
            for process in running:
                _kill(process)
            return not running

        wait_until(gone, self.processes, PATIENCE_S)
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def kill_driver(self) -> None:
        """SIGKILL to the user's process alone."""
        self.process.kill()

    def kill_jvm(self) -> None:
        """SIGKILL to the JVM alone."""
        jvms = [one for one in self.processes() if Path(f"/proc/{one}/comm").read_text().strip() == "java"]
        assert len(jvms) == 1, f"{self.name} has the JVMs {jvms}"
        _kill(jvms[0])

    def processes(self) -> list[int]:
        """What of it still runs: Spark's Python daemons leave the process group, but not the session."""
        return [int(one.name) for one in Path("/proc").glob("[0-9]*") if _session(one) == self.process.pid]

    def hear(self, what: str) -> dict[str, Any]:
        """Wait until it says something."""
        while True:
            try:
                said = self._said.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError(f"{self.name} did not say {what!r}: {self.tail()}") from None
            if said["say"] == what:
                return said
            assert said["say"] != "failed", f"{self.name} failed: {said['more']}"

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    def _tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what.encode() + b"\n")
        self.process.stdin.flush()


def _session(process: Path) -> int | None:
    """The session of a process that is no zombie."""
    with contextlib.suppress(OSError):
        state, _parent, _group, session, *_ = (process / "stat").read_text().rpartition(")")[2].split()
        return None if state == "Z" else int(session)
    return None


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def wait_for(condition: Any, *applications: Application) -> Any:
    """Wait for a condition; if it does not come, show what the applications logged."""
    return wait_until(condition, lambda: "\n".join(f"{one.name}: {one.tail()}" for one in applications), PATIENCE_S)


def in_sink(directory: Path) -> dict[tuple[str, int, int], list[str]]:
    """The batches that each record is in."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for path in sorted((directory / "sink").glob("*.json")):
        for topic, partition, offset in json.loads(path.read_text()):
            found.setdefault((topic, partition, offset), []).append(path.stem)
    return found
