"""Stock clients, each in its own process, controlled by JSON lines.

Invariants:
- Every client's program takes the same commands (`drivers/line.py` describes them), so that one scenario runs with each
  of them. `cannot` lists the calls that a client lacks.
- A program hosts any number of members of a group. A member that a test kills has its own program.
- A program that does not respond in time fails the test and shows the end of its standard error.
- The tests of a client that is not installed are skipped with the command that installs it.
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
from tests.java import NO_JARS, SMALL_JVM, have_jars, java

ROOT: Final = Path(__file__).resolve().parents[2]
RESPONSE_TIMEOUT_S: Final = 60.0
WAIT_TIMEOUT_S: Final = 60.0
LONG_SESSION_MS: Final = 30_000
Record = dict[str, Any]


@dataclass(frozen=True)
class Client:
    """A client library: the command of its program, and the calls that it lacks."""

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
    return f"{GO_PROGRAM.relative_to(ROOT)} is not built; install Go 1.21 or newer and run: make gobin"


@functools.cache
def _java() -> Sequence[str]:
    return java("ClientDriver", *SMALL_JVM, "-Dlog4j2.level=OFF")


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
FRANZ_GO: Final = Client(
    "franz-go", lambda: [str(GO_PROGRAM)], missing=_no_go, cannot=frozenset({"transactional_offsets"})
)
CLIENTS: Final = (KAFKA_PYTHON, CONFLUENT, AIOKAFKA, JAVA, FRANZ_GO)


def require(client: Client) -> None:
    """Skip the test if the client is not installed."""
    missing = client.missing()
    if missing is not None:
        pytest.skip(missing)


class ClientError(Exception):
    """The client raised an error; `code` is Kafka's error code, or -1."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (code {code})")
        self.code = code


class Driver:
    """A running program. Each command is a method, or `call`."""

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

    def can(self, call: str) -> bool:
        """Whether the client has this call."""
        return call not in self.client.cannot

    def call(self, do: str, **fields: object) -> Any:
        """Send one command and return its result."""
        self._stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        self._stdin.flush()
        response = json.loads(self._line(do))
        if "error" in response:
            raise ClientError(response["code"], f"{self.client} {do}: {response['error']}")
        return response["result"]

    def _line(self, do: str) -> bytes:
        deadline = time.monotonic() + RESPONSE_TIMEOUT_S
        while b"\n" not in self._received:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"{self.client} did not respond to {do} in time\n{self._stderr_tail()}")
            received = os.read(self._stdout.fileno(), 1 << 16)
            if not received:
                exit_code = self._process.wait(RESPONSE_TIMEOUT_S)
                raise AssertionError(f"{self.client} exit_code with code {exit_code} on {do}\n{self._stderr_tail()}")
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _stderr_tail(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()[-4000:].decode(errors="replace")

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Kill the process and close its pipes."""
        self.kill()
        self._selector.close()
        self._stdout.close()
        with contextlib.suppress(BrokenPipeError):  # it was killed during a command
            self._stdin.close()
        self._stderr.close()

    # --- commands -----------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int, **configs: str) -> str:
        """Create a topic and return its name. Underscores in setting names stand for dots."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.call("create_topic", topic=topic, partitions=partitions, configs=named)
        return topic

    def produce(self, topic: str, records: Sequence[Mapping[str, Any]], codec: str = "none") -> list[tuple[int, int]]:
        """Write records; return partition and offset of each."""
        default: Record = {"partition": None, "key": None, "value": None, "headers": [], "timestamp": None}
        positions = self.call(
            "produce", topic=topic, records=[{**default, **record} for record in records], codec=codec
        )
        return [(partition, offset) for partition, offset in positions]

    def read(self, topic: str, start: Mapping[int, int], count: int) -> list[Record]:
        """Read this many records without a group, from an offset in each partition."""
        records: list[Record] = self.call(
            "read", topic=topic, start={str(partition): offset for partition, offset in start.items()}, count=count
        )
        return records

    def offsets(self, topic: str, *partitions: int) -> dict[int, tuple[int, int]]:
        """First and end offset of partitions."""
        offsets = self.call("offsets", topic=topic, partitions=partitions)
        return {int(partition): (first, end) for partition, (first, end) in offsets.items()}

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
        """Start a new member of a group."""
        self.call(
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
class MemberSnapshot:
    """A member's assignment and generation, its callbacks and its records so far."""

    assignment: frozenset[str]
    generation: int
    events: Sequence[tuple[str, frozenset[str]]]
    moments: Sequence[int]  # times of the events, in nanoseconds of a clock that all programs share
    records: Sequence[Record] = field(repr=False)


class Member:
    """A member of a group in some client's program."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver, self.name = driver, name

    def snapshot(self) -> MemberSnapshot:
        """The member's state now."""
        return _snapshot(self.driver.call("snapshot", member=self.name))

    def commit(self, offsets: Mapping[str, tuple[int, str]] | None = None) -> None:
        """Commit these offsets with metadata, or the positions."""
        self.driver.call("commit", member=self.name, offsets=offsets)

    def committed(self, partition: str) -> tuple[int, str] | None:
        """Committed offset and metadata."""
        committed = self.driver.call("committed", member=self.name, partition=partition)
        return committed and (committed[0], committed[1])

    def seek(self, partition: str, offset: int) -> None:
        """Set the position."""
        self.driver.call("seek", member=self.name, partition=partition, offset=offset)

    def metrics(self) -> dict[str, float]:
        """The metrics of the group `consumer-coordinator-metrics` (Java and our consumer)."""
        return dict(self.driver.call("metrics", member=self.name))

    def close(self) -> MemberSnapshot | None:
        """Close the member and return its last state, if the client reports one."""
        state = self.driver.call("close", member=self.name)
        return state and _snapshot(state)


def _snapshot(state: Mapping[str, Any]) -> MemberSnapshot:
    return MemberSnapshot(
        frozenset(state["assignment"]),
        state["generation"],
        [(kind, frozenset(partitions)) for kind, partitions in state["events"]],
        state.get("moments", ()),
        state["records"],
    )


def wait_until(condition: Callable[[], Any], about: Callable[[], object]) -> Any:
    """Wait for the condition's first true value; after WAIT_TIMEOUT_S fail with `about`."""
    return waiting.wait_until(condition, about, WAIT_TIMEOUT_S)


def partitions(topic: str, count: int) -> frozenset[str]:
    """All partitions of a topic."""
    return frozenset(f"{topic}-{number}" for number in range(count))


def wait_for_assignment(members: Sequence[Member], all_partitions: Collection[str]) -> list[MemberSnapshot]:
    """Wait until members of one generation share these partitions, each partition once, each member at least one."""

    def shared() -> list[MemberSnapshot] | None:
        snapshots = [member.snapshot() for member in members]
        assignments = [snapshot.assignment for snapshot in snapshots]
        is_one_generation = len({snapshot.generation for snapshot in snapshots}) == 1
        owned = sorted(partition for assignment in assignments for partition in assignment)
        is_complete = owned == sorted(all_partitions) and all(assignments)
        return snapshots if is_one_generation and is_complete else None

    snapshots: list[MemberSnapshot] = wait_until(shared, lambda: [member.snapshot() for member in members])
    return snapshots


def wait_for_records(members: Sequence[Member], count: int) -> list[Record]:
    """Wait until the members together have received this many records; return all of them."""

    def received() -> list[Record] | None:
        records = [record for member in members for record in member.snapshot().records]
        return records if len(records) >= count else None

    records: list[Record] = wait_until(
        received, lambda: [(member.name, len(member.snapshot().records)) for member in members]
    )
    return records
