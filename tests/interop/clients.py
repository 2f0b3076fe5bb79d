"""The stock clients, each in a process of its own that is told what to do by lines of JSON.

Rules kept here
- Every client's program takes the same commands (`drivers/line.py` says which form they have), so that a scenario is
  written once and played with each of them. `cannot` says what a client has no call for.
- A program hosts any number of members of a group. A member that is to be killed gets a program of its own.
- A program that does not answer in time is a failure that shows the end of its standard error, never a hang.
- A client whose program cannot be had here is skipped with a sentence that says what to install; under CI=true its
  tests fail.
"""

import contextlib
import functools
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests import waiting
from tests.java import NO_JARS, have_jars, java

ROOT: Final = Path(__file__).resolve().parents[2]
ANSWER_S: Final = 60.0
SETTLE_S: Final = 60.0
LONG_SESSION_MS: Final = 30_000
Record = dict[str, Any]


# --- which clients there are ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Client:
    """A client library: how to start its program, and what it cannot do."""

    name: str
    command: Callable[[], Sequence[str]]
    missing: Callable[[], str | None] = lambda: None
    cannot: frozenset[str] = frozenset()
    codecs: tuple[str, ...] = ("none", "gzip", "snappy", "lz4", "zstd")

    def __str__(self) -> str:
        return self.name


def _python(module: str) -> Callable[[], Sequence[str]]:
    return lambda: [sys.executable, "-m", f"tests.interop.drivers.{module}"]


def _no_java() -> str | None:
    return None if have_jars() else NO_JARS


def _no_go() -> str | None:
    if GO_PROGRAM.exists():
        return None
    return f"{GO_PROGRAM.relative_to(ROOT)} is not here; install Go 1.21 or newer and build it: make gobin"


@functools.cache
def _java() -> Sequence[str]:
    flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Dlog4j2.level=OFF"]
    return java("ClientDriver", *flags)


GO_PROGRAM: Final = ROOT / ".cache" / "go" / "clientdriver"

KAFKA_PYTHON: Final = Client("kafka-python", _python("kafka_python"), codecs=("none", "gzip"))
CONFLUENT: Final = Client("confluent-kafka", _python("confluent"), cannot=frozenset({"delete_group_offsets"}))
AIOKAFKA: Final = Client(
    "aiokafka",
    _python("aio"),
    cannot=frozenset({"cooperative-sticky", "set_group_offsets", "delete_group_offsets", "delete_group"}),
)
JAVA: Final = Client("java", _java, missing=_no_java)
OURS: Final = Client("slackwater", _python("ours"))
FRANZ_GO: Final = Client("franz-go", lambda: [str(GO_PROGRAM)], missing=_no_go)
CLIENTS: Final = (KAFKA_PYTHON, CONFLUENT, AIOKAFKA, JAVA, FRANZ_GO)


def require(client: Client) -> None:
    """Skip the test if the client is not installed."""
    missing = client.missing()
    if missing is not None:
        pytest.skip(missing)


# --- talking to their programs --------------------------------------------------------------------------------------


class Refused(Exception):
    """The client raised an error; `code` is Kafka's, -1 if it is the client's own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (code {code})")
        self.code = code


class Driver:
    """A running program. Each command is a method, or `ask`."""

    def __init__(self, client: Client, bootstrap: str) -> None:
        self.client = client
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._process = subprocess.Popen(
            [*client.command(), bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._received = b""

    def can(self, what: str) -> bool:
        """Whether the client has a call for this."""
        return what not in self.client.cannot

    def ask(self, do: str, **fields: object) -> Any:
        """One command, and its answer."""
        self._stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        self._stdin.flush()
        answer = json.loads(self._line(do))
        if "error" in answer:
            raise Refused(answer["code"], f"{self.client} {do}: {answer['error']}")
        return answer["answer"]

    def _line(self, do: str) -> bytes:
        deadline = time.monotonic() + ANSWER_S
        while b"\n" not in self._received:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"{self.client} did not answer {do} within {ANSWER_S} s\n{self._complaints()}")
            came = os.read(self._stdout.fileno(), 1 << 16)
            if not came:
                ended = self._process.wait(ANSWER_S)
                raise AssertionError(f"{self.client} ended with code {ended} on {do}\n{self._complaints()}")
            self._received += came
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _complaints(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()[-4000:].decode(errors="replace")

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it, whatever it is doing."""
        self.kill()
        self._selector.close()
        self._stdout.close()
        with contextlib.suppress(BrokenPipeError):  # a command was under way when it was killed
            self._stdin.close()
        self._stderr.close()

    # --- commands -----------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int, **configs: str) -> str:
        """A new topic; its name. Dots in a setting's name are written as underscores."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.ask("create_topic", topic=topic, partitions=partitions, configs=named)
        return topic

    def produce(self, topic: str, records: Sequence[Mapping[str, Any]], codec: str = "none") -> list[tuple[int, int]]:
        """Write records; partition and offset of each."""
        default: Record = {"partition": None, "key": None, "value": None, "headers": [], "timestamp": None}
        told = self.ask("produce", topic=topic, records=[{**default, **one} for one in records], codec=codec)
        return [(partition, offset) for partition, offset in told]

    def read(self, topic: str, start: Mapping[int, int], count: int) -> list[Record]:
        """Read this many records without a group, from an offset in each partition."""
        records: list[Record] = self.ask(
            "read", topic=topic, start={str(one): offset for one, offset in start.items()}, count=count
        )
        return records

    def offsets(self, topic: str, *partitions: int) -> dict[int, tuple[int, int]]:
        """First and end offset of partitions."""
        found = self.ask("offsets", topic=topic, partitions=partitions)
        return {int(one): (first, end) for one, (first, end) in found.items()}

    def join(
        self,
        name: str,
        group: str,
        topics: Sequence[str] | None = None,
        *,
        pattern: str | None = None,
        assignor: str = "range",
        instance: str | None = None,
        session_ms: int = LONG_SESSION_MS,
    ) -> "Member":
        """A new member of a group."""
        self.ask(
            "join",
            member=name,
            group=group,
            topics=topics,
            pattern=pattern,
            assignor=assignor,
            instance=instance,
            session_ms=session_ms,
        )
        return Member(self, name)


@dataclass(frozen=True)
class Look:
    """How a member stands, and everything it has lived through."""

    assignment: frozenset[str]
    generation: int
    events: Sequence[tuple[str, frozenset[str]]]
    moments: Sequence[int]  # of the events, in nanoseconds that all programs count from one beginning
    records: Sequence[Record] = field(repr=False)


class Member:
    """A member of a group in some client's program."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver, self.name = driver, name

    def look(self) -> Look:
        """How it stands now."""
        return _look(self.driver.ask("look", member=self.name))

    def commit(self, offsets: Mapping[str, tuple[int, str]] | None = None) -> None:
        """Commit these offsets with metadata, or the positions."""
        self.driver.ask("commit", member=self.name, offsets=offsets)

    def committed(self, partition: str) -> tuple[int, str] | None:
        """Committed offset and metadata."""
        found = self.driver.ask("committed", member=self.name, partition=partition)
        return found and (found[0], found[1])

    def seek(self, partition: str, offset: int) -> None:
        """Go on from there."""
        self.driver.ask("seek", member=self.name, partition=partition, offset=offset)

    def close(self) -> Look | None:
        """Close it: a dynamic member leaves the group, a static one only falls silent. What it saw, if it tells."""
        seen = self.driver.ask("close", member=self.name)
        return seen and _look(seen)


def _look(seen: Mapping[str, Any]) -> Look:
    events = [(kind, frozenset(partitions)) for kind, partitions in seen["events"]]
    return Look(frozenset(seen["assignment"]), seen["generation"], events, seen.get("moments", ()), seen["records"])


# --- waiting --------------------------------------------------------------------------------------------------------


def wait_until(condition: Callable[[], Any], about: Callable[[], object]) -> Any:
    """The condition's first true value; a failure that tells `about` after SETTLE_S."""
    return waiting.wait_until(condition, about, SETTLE_S)


def partitions(topic: str, count: int) -> frozenset[str]:
    """All partitions of a topic."""
    return frozenset(f"{topic}-{number}" for number in range(count))


def settled(members: Sequence[Member], everything: Collection[str]) -> list[Look]:
    """Wait until members of one generation share these partitions: none left out, none twice, nobody without."""

    def shared() -> list[Look] | None:
        looks = [member.look() for member in members]
        parts = [look.assignment for look in looks]
        one_generation = len({look.generation for look in looks}) == 1
        whole = sorted(part for one in parts for part in one) == sorted(everything)
        return looks if one_generation and whole and all(parts) else None

    looks: list[Look] = wait_until(shared, lambda: [member.look() for member in members])
    return looks


def consumed(members: Sequence[Member], count: int) -> list[Record]:
    """Wait until members have been handed this many records together; all of them."""

    def came() -> list[Record] | None:
        records = [record for member in members for record in member.look().records]
        return records if len(records) >= count else None

    records: list[Record] = wait_until(came, lambda: [(member.name, len(member.look().records)) for member in members])
    return records
