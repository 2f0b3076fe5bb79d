"""What the Python drivers share: commands as lines of JSON on standard input, answers as lines on standard output.

    {"do": "join", "member": "a", "group": "g", …}   ->   {"answer": …}   or   {"error": "…", "code": 36}

Rules kept here
- A command is the driver's method of that name; the line's other fields are its arguments. One answer for each line, in
  order. `code` is Kafka's error code, -1 if the client gives none.
- A partition is written as Kafka writes it: `topic-0`. A record is an object with topic, partition, offset, key, value,
  headers and timestamp; keys, values and headers are text, or null.
- A member polls on a thread of its own, which alone touches its consumer: commands are handed to that thread, and what
  `look` shows is what the thread last saw.
- Callbacks without any partition are left out: clients differ in whether they make them. Each has its moment, in
  nanoseconds of the machine's monotonic clock, which all programs share.
- `assignor` is a name, or several with commas between them, the favourite first.
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
Record = dict[str, Any]


def text(data: bytes | None) -> str | None:
    """Bytes as the answers show them."""
    return None if data is None else bytes(data).decode()


def data(text: str | None) -> bytes | None:
    """The bytes of a command's text."""
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
    """A record as the answers show it."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "key": text(key),
        "value": text(value),
        "headers": [[name, text(one)] for name, one in headers or ()],
        "timestamp": timestamp,
    }


class Diary:
    """What a member has lived through: its callbacks, its records, and how it stood last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[tuple[str, list[str]]] = []
        self._moments: list[int] = []
        self._records: list[Record] = []
        self._assignment: list[str] = []
        self._generation = -1
        self.failure: Exception | None = None

    def event(self, kind: str, partitions: Iterable[str]) -> None:
        """A callback was made."""
        changed = sorted(partitions)
        if changed:
            with self._lock:
                self._events.append((kind, changed))
                self._moments.append(time.monotonic_ns())

    def records(self, came: Iterable[Record]) -> None:
        """Records were handed out."""
        with self._lock:
            self._records.extend(came)

    def stand(self, assignment: Iterable[str], generation: int) -> None:
        """How the member stands now."""
        with self._lock:
            self._assignment, self._generation = sorted(assignment), generation

    def look(self) -> dict[str, Any]:
        """All of it; what ended the polling, if something did."""
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
        self.diary = Diary()
        self._inbox: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @abstractmethod
    def open(self) -> None:
        """Make the consumer and subscribe."""

    @abstractmethod
    def poll(self) -> list[Record]:
        """Poll once, for POLL_S at most."""

    @abstractmethod
    def assignment(self) -> Iterable[str]:
        """Whose records it gets."""

    @abstractmethod
    def generation(self) -> int:
        """Of the group, as the client knows it."""

    @abstractmethod
    def shut(self) -> None:
        """Close the consumer: a dynamic member leaves, a static one does not."""

    @abstractmethod
    def commit(self, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        """Commit these, or everything handed out; return when it is done."""

    @abstractmethod
    def committed(self, partition: str) -> tuple[int, str] | None:
        """What is committed."""

    @abstractmethod
    def seek(self, partition: str, offset: int) -> None:
        """Go on from there."""

    def ask(self, work: Callable[[], Any]) -> Any:
        """Have something done between two polls."""
        done: Future[Any] = Future()
        self._inbox.put((work, done))
        return done.result(COMMAND_S)

    def close(self) -> None:
        """Close, and wait for the end."""
        self.ask(self._shut)
        self._thread.join(COMMAND_S)

    def _shut(self) -> None:
        self._closed = True
        self.shut()

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:
            self.diary.failure = error

    def _live(self) -> None:
        self.open()
        while not self._closed:
            self.diary.records(self.poll())
            self.diary.stand(self.assignment(), self.generation())
            while not self._closed and not self._inbox.empty():
                self._serve(*self._inbox.get())

    def _serve(self, work: Callable[[], Any], done: "Future[Any]") -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)


class Driver(ABC):
    """The commands that concern members; a client's driver adds the others."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.members: dict[str, Member] = {}

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
        """Kafka's error code, -1 if it has none."""

    def look(self, member: str) -> dict[str, Any]:
        """How a member stands and what it has seen."""
        return self.members[member].diary.look()

    def commit(self, member: str, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        """Commit these offsets, or the positions."""
        one = self.members[member]
        one.ask(lambda: one.commit(offsets))

    def committed(self, member: str, partition: str) -> Any:
        """The committed offset and its metadata."""
        one = self.members[member]
        return one.ask(lambda: one.committed(partition))

    def seek(self, member: str, partition: str, offset: int) -> None:
        """Let a member go on from an offset."""
        one = self.members[member]
        one.ask(lambda: one.seek(partition, offset))

    def close(self, member: str) -> dict[str, Any]:
        """End a member; what it has seen until then."""
        one = self.members.pop(member)
        one.close()
        return one.diary.look()


class Commands(Protocol):
    """What `serve` needs of a driver besides its commands."""

    def code(self, error: Exception) -> int:
        """Kafka's error code, -1 if it has none."""


def serve(make: Callable[[str], Commands]) -> None:
    """Answer commands until standard input ends; the first argument is the broker's address."""
    driver = make(sys.argv[1])
    for line in sys.stdin:
        fields = json.loads(line)
        command = fields.pop("do")
        answer: dict[str, Any]
        try:
            answer = {"answer": getattr(driver, command)(**fields)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "code": driver.code(error)}
        print(json.dumps(answer), flush=True)
