"""The demo's child processes: start, command, stop, kill, and collect what they report.

Invariants:
- No child outlives the demo. Each child leads a session, ends when its standard input closes, and is known to a cleanup
  process, which kills what is left of those sessions when the demo has ended and removes the demo's directory.
- A replaced child keeps its name: the old process ends, the new one takes the name.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import psutil

from slackwater.cli.demo.read_counts import ReadCounts

STOP_TIMEOUT_S: Final = 5.0
KILL_ROUNDS: Final = 10
SPARK: Final = "Spark"


@dataclass(slots=True)
class ChildProcess:
    """One child; `messages` are the JSON lines with a "message" field that it has printed."""

    name: str
    client: str
    group: str
    process: subprocess.Popen[str]
    directory: Path
    messages: list[dict[str, Any]] = field(default_factory=list)
    reader: threading.Thread | None = None

    def send(self, **command: Any) -> None:
        """Send a command as a JSON line."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()

    def has_sent(self, message: str, **fields: object) -> bool:
        """Whether the child has sent this message, with these fields."""
        expected = {"message": message, **fields}
        return any(expected.items() <= sent.items() for sent in self.messages)

    def failure(self) -> str | None:
        """Why the child cannot go on, or None."""
        reason = next((str(sent["reason"]) for sent in self.messages if sent["message"] == "failed"), None)
        if reason is None and self.process.poll() not in (None, 0) and not self.has_sent("ended"):
            advice = "Run the demo again"
            if self.client == SPARK:
                advice += "; if it fails again, use `slackwater demo --no-spark`"
            last = self._last_log_line().removesuffix(".")
            return f"exited with code {self.process.returncode}; last log line: {last}. {advice}."
        return reason

    def _last_log_line(self) -> str:
        path = self.directory / "log"
        lines = path.read_text(errors="replace").split("\n") if path.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "none")


class ProcessPool:
    """All children of a demo; their files are in `directory`."""

    def __init__(self, bootstrap: str, directory: Path, cleanup: "CleanupProcess") -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._cleanup = cleanup
        self._children: dict[str, ChildProcess] = {}
        self._ended: list[ChildProcess] = []
        self._lock = threading.Lock()
        self._started = 0
        self.counts: dict[str, ReadCounts] = defaultdict(ReadCounts)
        """The offsets that each group has read."""
        self.reads: dict[tuple[str, str], int] = defaultdict(int)
        """Records read by group and child name, repeated reads included."""
        self.produced: dict[str, int] = defaultdict(int)
        """Acknowledged records by topic."""

    def clients(self) -> dict[str, str]:
        """The client library of each name."""
        return {child.name: child.client for child in (*self._ended, *self._children.values())}

    def read_counts(self, *groups: str) -> tuple[int, int]:
        """The number of records that these groups have read, and of repeated reads."""
        with self._lock:
            counts = [self.counts[group].totals() for group in groups]
        return sum(read for read, _ in counts), sum(repeated for _, repeated in counts)

    def child(self, name: str) -> ChildProcess:
        """The child with this name."""
        return self._children[name]

    def failures(self) -> list[str]:
        """The failures of the running children."""
        children = list(self._children.values())
        return [f"{child.name}: {reason}" for child in children if (reason := child.failure()) is not None]

    def restarts(self) -> dict[str, int]:
        """The number of restarted queries of each running child."""
        return {
            child.name: sum(sent["message"] == "restarted" for sent in list(child.messages))
            for child in list(self._children.values())
        }

    def start_client(self, name: str, client: str, topic: str, group: str = "", **config: Any) -> None:
        """Start a child that is a Kafka client."""
        config |= {"name": name, "client": client, "topic": topic, "group": group, "bootstrap": self._bootstrap}
        self._children[name] = self._start(name, client, group, "clients", lambda _directory: json.dumps(config))

    def prepare_spark(self, name: str) -> ChildProcess:
        """Start a Spark application. It has no name in the pool before `register`."""
        return self._start(name, SPARK, "", "spark_application", str)

    def register(self, child: ChildProcess) -> None:
        """Register a prepared child under its name."""
        assert child.name not in self._children, f"{child.name} is still running"
        self._children[child.name] = child

    def stop(self, name: str, timeout_s: float | None = STOP_TIMEOUT_S) -> None:
        """Close the child's client and wait for its end; after the timeout, kill it."""
        self._end(name, self._request_end, timeout_s)

    def kill(self, name: str) -> None:
        """Kill a child and everything it has started, as `kill -9` does."""
        self._end(name, lambda child: kill_sessions([child.process.pid]), STOP_TIMEOUT_S)

    def stop_all(self, timeout_s: float | None = STOP_TIMEOUT_S) -> None:
        """Stop all children at the same time."""
        children = list(self._children.values())
        for child in children:
            self._request_end(child)
        for child in children:
            self.stop(child.name, timeout_s)

    def kill_all(self) -> None:
        """Kill all children that are left."""
        for name in list(self._children):
            self.kill(name)

    def _end(self, name: str, end: Callable[[ChildProcess], None], timeout_s: float | None) -> None:
        child = self._children.pop(name)
        self._ended.append(child)
        end(child)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout_s)
        kill_sessions([child.process.pid])  # what a Spark application leaves for a moment
        child.process.wait()
        if child.reader is not None:
            child.reader.join()
        for pipe in (child.process.stdin, child.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _request_end(self, child: ChildProcess) -> None:
        if child.client == SPARK:
            child.send(command="end")
        else:
            child.process.terminate()

    def _start(self, name: str, client: str, group: str, module: str, argument: Callable[[Path], str]) -> ChildProcess:
        self._started += 1
        directory = self._directory / f"{self._started}-{name}"
        directory.mkdir()
        environment = os.environ | {
            "PYTHONWARNINGS": "ignore",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(directory),
        }
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"slackwater.cli.demo.{module}", argument(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=directory,
                start_new_session=True,  # Ctrl-C reaches the demo alone, which ends its children in order
                env=environment,
            )
        self._cleanup.add(process.pid)
        child = ChildProcess(name, client, group, process, directory)
        assert process.stdout is not None
        child.reader = threading.Thread(target=self._read_lines, args=(child, process.stdout), daemon=True)
        child.reader.start()
        return child

    def _read_lines(self, child: ChildProcess, lines: IO[str]) -> None:
        for line in lines:
            try:
                report = json.loads(line)
            except ValueError:  # the last line of a child that was killed
                continue
            with self._lock:
                if "message" in report:
                    child.messages.append(report)
                elif "acknowledged" in report:
                    self.produced[report["topic"]] += report["acknowledged"]
                else:
                    group = report.get("group", child.group)
                    self.counts[group].add(report["topic"], report["partition"], report["start"], report["end"])
                    self.reads[group, child.name] += report["end"] - report["start"]


def exit_with_parent() -> None:
    """End this process when the process that started it has gone."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while sys.stdin.buffer.read(1):
                pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def kill_sessions(leaders: Collection[int]) -> None:
    """Kill every process of these sessions; a killed process may have started another one, so look again."""
    for _ in range(KILL_ROUNDS):
        processes = [process for process in psutil.process_iter(["status"]) if _session_of(process) in leaders]
        running = [process for process in processes if process.info["status"] != psutil.STATUS_ZOMBIE]
        if not running:
            return
        for process in running:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(running, timeout=1.0)


def _session_of(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except OSError:  # it has ended, or belongs to another user
        return None


class CleanupProcess:
    """A process that outlives the demo by a moment, kills what is left of its sessions and removes its directory."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "slackwater.cli.demo.processes", str(directory)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # neither Ctrl-C nor a closed terminal ends it
        )

    def add(self, pid: int) -> None:
        """Add a session, by the id of its leader."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{pid}\n")
            self._process.stdin.flush()

    def finish(self) -> None:
        """Close its input, which starts the cleanup, and wait for its end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def _clean_up(directory: Path) -> None:
    """Wait for the end of the demo (end of input), then clean up."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leaders = {int(line) for line in sys.stdin}
    kill_sessions(leaders)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _clean_up(Path(sys.argv[1]))
