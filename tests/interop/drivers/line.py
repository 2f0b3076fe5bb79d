"""Shared by the Python drivers: commands as JSON lines on standard input, results as lines on standard output.

    {"do": "join", "member": "a", "group": "g", …}   ->   {"result": …}   or   {"error": "…", "code": 36}

Invariants:
- A command is the driver's method of that name; the line's other fields are its arguments. Each line has one result, in
  order. `code` is Kafka's error code, or -1.
- A partition is written as `topic-0`. A record is an object with topic, partition, offset, key, value, headers and
  timestamp; keys, values and headers are text or null.
- Each member polls on its own thread, and only that thread uses its consumer. Commands are queued for the thread, and
  `snapshot` returns the state that the thread saw last.
- Callbacks without partitions are left out, because not all clients make them. Each callback has a time in nanoseconds
  of the machine's monotonic clock, which all programs share.
- `assignor` is a name, or several separated by commas in order of preference.
- `loop` runs a program as users write it, on the thread of the command: `style` is `single` (one record at a time) or
  `batch` (a poll of many records). In its fourth record it leaves the loop and closes the consumer (`end` = break),
  raises an exception and closes the consumer (raise), commits (commit), or works for HOLD_S (hold). After commit and
  hold the consumer stays open, as in a process that crashes. Only commit is without auto-commit.
"""

import json
import queue
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

POLL_S: Final = 0.05
COMMAND_S: Final = 40.0
HEARTBEAT_MS: Final = 200
METADATA_MS: Final = 500
LAST_RECORD: Final = 4
HOLD_S: Final = 2.0
AUTO_COMMIT_MS: Final = 200
Record = dict[str, Any]


def text(data: bytes | None) -> str | None:
    """Bytes as text for a result."""
    return None if data is None else bytes(data).decode()


def data(text: str | None) -> bytes | None:
    """Text of a command as bytes."""
    return None if text is None else text.encode()


def split(partition: str) -> tuple[str, int]:
    """`topic-0` as topic and number."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def record(
    topic: str,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] | None,
    timestamp: int,
) -> Record:
    """A record for a result."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "key": text(key),
        "value": text(value),
        "headers": [[name, text(content)] for name, content in headers or ()],
        "timestamp": timestamp,
    }


class Failed(Exception):
    """The body of a `loop` failed."""


def process(number: int, end: str, commit: Callable[[], object]) -> bool:
    """The body of a `loop` for its record of this number; return whether the loop is left."""
    if number < LAST_RECORD:
        return False
    match end:
        case "raise":
            raise Failed
        case "commit":
            commit()
        case "hold":
            time.sleep(HOLD_S)
    return True


class MemberHistory:
    """A member's callbacks and records, and its last state."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[tuple[str, list[str]]] = []
        self._moments: list[int] = []
        self._records: list[Record] = []
        self._assignment: list[str] = []
        self._generation = -1
        self.failure: Exception | None = None

    def event(self, kind: str, partitions: Iterable[str]) -> None:
        """Add a callback."""
        changed = sorted(partitions)
        if changed:
            with self._lock:
                self._events.append((kind, changed))
                self._moments.append(time.monotonic_ns())

    def records(self, received: Iterable[Record]) -> None:
        """Add received records."""
        with self._lock:
            self._records.extend(received)

    def update(self, assignment: Iterable[str], generation: int) -> None:
        """Set the current state."""
        with self._lock:
            self._assignment, self._generation = sorted(assignment), generation

    def snapshot(self) -> dict[str, Any]:
        """Everything so far; raises the error that ended polling."""
        if self.failure is not None:
            raise self.failure
        with self._lock:
            return {
                "assignment": list(self._assignment),
                "generation": self._generation,
                "events": list(self._events),
                "moments": list(self._moments),
                "records": list(self._records),
            }


class Member(ABC):
    """A consumer that is polled on its own thread until it is closed."""

    def __init__(self) -> None:
        self.history = MemberHistory()
        self._inbox: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @abstractmethod
    def open(self) -> None:
        """Create the consumer and subscribe."""

    @abstractmethod
    def poll(self) -> list[Record]:
        """Poll once, for at most POLL_S."""

    @abstractmethod
    def assignment(self) -> Iterable[str]:
        """The assigned partitions."""

    @abstractmethod
    def generation(self) -> int:
        """The generation that the client reports."""

    @abstractmethod
    def close_consumer(self) -> None:
        """Close the consumer; only a dynamic member leaves the group."""

    @abstractmethod
    def commit(self, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        """Commit these offsets, or the positions; return when it is done."""

    @abstractmethod
    def committed(self, partition: str) -> tuple[int, str] | None:
        """The committed offset and metadata."""

    @abstractmethod
    def seek(self, partition: str, offset: int) -> None:
        """Set the position."""

    def call(self, work: Callable[[], Any]) -> Any:
        """Run something between two polls."""
        done: Future[Any] = Future()
        self._inbox.put((work, done))
        return done.result(COMMAND_S)

    def close(self) -> None:
        """Close the member and wait for its thread."""
        self.call(self._close)
        self._thread.join(COMMAND_S)

    def _close(self) -> None:
        self._closed = True
        self.close_consumer()

    def _run(self) -> None:
        try:
            self._poll_until_closed()
        except Exception as error:
            self.history.failure = error

    def _poll_until_closed(self) -> None:
        self.open()
        while not self._closed:
            self.history.records(self.poll())
            self.history.update(self.assignment(), self.generation())
            while not self._closed and not self._inbox.empty():
                self._execute(*self._inbox.get())

    def _execute(self, work: Callable[[], Any], done: "Future[Any]") -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)


class Driver(ABC):
    """The commands for members; each client's driver adds the others."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.members: dict[str, Member] = {}
        self.left_open: list[object] = []  # consumers of `loop`

    @abstractmethod
    def join(
        self,
        member: str,
        group: str,
        topics: Sequence[str] | None,
        pattern: str | None,
        assignor: str,
        instance: str | None,
        session_ms: int,
    ) -> None:
        """Start a member."""

    @abstractmethod
    def code(self, error: Exception) -> int:
        """Kafka's error code, or -1."""

    def snapshot(self, member: str) -> dict[str, Any]:
        """A member's state, callbacks and records."""
        return self.members[member].history.snapshot()

    def commit(self, member: str, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        """Commit these offsets, or the positions."""
        consumer = self.members[member]
        consumer.call(lambda: consumer.commit(offsets))

    def committed(self, member: str, partition: str) -> Any:
        """The committed offset and its metadata."""
        consumer = self.members[member]
        return consumer.call(lambda: consumer.committed(partition))

    def seek(self, member: str, partition: str, offset: int) -> None:
        """Set a member's position."""
        consumer = self.members[member]
        consumer.call(lambda: consumer.seek(partition, offset))

    def close(self, member: str) -> dict[str, Any]:
        """Close a member and return its last snapshot."""
        consumer = self.members.pop(member)
        consumer.close()
        return consumer.history.snapshot()


class Commands(Protocol):
    """The interface that `serve` needs in addition to the commands."""

    def code(self, error: Exception) -> int:
        """Kafka's error code, or -1."""


def serve(make: Callable[[str], Commands]) -> None:
    """Execute commands until standard input ends; the first argument is the broker's address."""
    driver = make(sys.argv[1])
    for line in sys.stdin:
        fields = json.loads(line)
        command = fields.pop("do")
        result: dict[str, Any]
        try:
            result = {"result": getattr(driver, command)(**fields)}
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}", "code": driver.code(error)}
        print(json.dumps(result), flush=True)
