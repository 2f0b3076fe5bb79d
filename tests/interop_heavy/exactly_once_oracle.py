"""Spark applications of one group that write exactly once, while a random one of them is killed or restarted.

Each application writes the name of every record that it reads to one topic. The seed chooses the order of the faults,
their applications and their moments. Each kind of fault happens equally often.

Invariants that it checks:
- A read_committed consumer finds the name of every record exactly once.
- A query ends by itself only with an error that its documentation names: its batch was not committed.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from slackwater import Admin, Consumer, Producer
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from tests.spark.applications import TIMEOUT_S, Application, kill
from tests.spark.sink.topics import Topics
from tests.waiting import wait_until

PARTITIONS: Final = 6
MOMENT_S: Final = 8.0  # a fault happens within this time after more records were written
CATCH_UP_S: Final = 600.0
EXPECTED_FAILURES: Final = (
    "was not committed",  # the member lost a partition while its batch ran
    "does not answer",
    "Python worker",  # killed, or started too slowly
    "SparkException",
)


LOCAL: Final = partial(Application, master="local[2,4]")
Fault = Callable[[str], object]


@dataclass
class Summary:
    """What happened."""

    records: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        done = ", ".join(f"{count} × {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.records} records, each once; {done}; {self.restarts} restarts, {len(self.failures)} failed queries"
        )


class ExactlyOnceRun:
    """The applications of one run."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        *,
        seed: int,
        applications: int,
        log: Callable[[str], object],
        launch: Callable[..., Application] = LOCAL,
        options: Mapping[str, str] | None = None,
        executor_faults: Mapping[str, Fault] | None = None,
    ) -> None:
        self.summary = Summary()
        self._launch = launch
        self._options = {"kafka.bootstrap.servers": bootstrap} | dict(options or {})
        self._faults: dict[str, Fault] = {
            "kill all": self._kill_all,
            "kill driver": self._kill_driver,
            "kill jvm": self._kill_jvm,
            "stop": self._stop,
        } | dict(executor_faults or {"kill worker": self._kill_worker})
        self._directory = directory
        self._random = random.Random(seed)
        self._log = log
        self._topics = Topics(bootstrap)
        self._source, self._target = self._topics.create("in", PARTITIONS), self._topics.create("out", PARTITIONS)
        self._names = [f"{letter}{self._topics.suffix}" for letter in "abcdef"[:applications]]
        self._running: dict[str, Application] = {}
        self._stack = ExitStack()
        self._admin = self._stack.enter_context(Admin({"bootstrap.servers": bootstrap}))

    def run(self, records: int, faults: int) -> Summary:
        """Write records, inject the faults, and check the output."""
        with self._stack:
            self._revive()
            for number, fault in enumerate(islice(self._random_faults(), faults), start=1):
                self._write(-(-records // faults))
                threading.Event().wait(self._random.uniform(0, MOMENT_S))
                name = self._random.choice(self._names)
                self._log(f"{number}: {fault} {name}")
                self.summary.faults[fault] += 1
                self._faults[fault](name)
                self._revive()
            self._catch_up()
            self._check()
        return self.summary

    def _random_faults(self) -> Iterator[str]:
        while True:
            yield from self._random.sample(sorted(self._faults), len(self._faults))

    # --- applications -------------------------------------------------------------------------------------------------

    def _revive(self) -> None:
        """Start every application that does not run."""
        new = []
        for name in self._names:
            application = self._running.get(name)
            if application is not None and application.process.poll() is None:
                continue
            if application is not None:
                self._note_failure(application)
                application.kill()
                self.summary.restarts += 1
            self._running[name] = self._prepare(name)
            new.append(self._running[name])
        for application in new:
            application.wait_for_status("ready")
            application.start()

    def _prepare(self, name: str) -> Application:
        options = self._options | {
            "subscribe": self._source,
            "startingOffsets": "earliest",
            "kafka.group.id": self._source,
            "kafka.session.timeout.ms": "10000",
            "kafka.heartbeat.interval.ms": "500",
            "kafka.client.id": name,
            "maxOffsetsPerTrigger": "1000",
        }
        write = self._options | {
            "topic": self._target,
            "delivery": "exactly_once",
            "transactionalIdPrefix": name,
        }
        application = self._launch(name, self._directory, options, write=write)
        self._stack.callback(application.kill)
        return application

    def _note_failure(self, application: Application) -> None:
        """Check how a query has ended by itself."""
        for status in application.received():
            if status["status"] == "failed":
                text = str(status["details"])
                self._log(f"{application.name} failed: {text[:400]}")
                self.summary.failures.append(text)
                assert any(expected in text for expected in EXPECTED_FAILURES), text
                assert "has lost output" not in text, text

    # --- faults -------------------------------------------------------------------------------------------------------

    def _kill_all(self, name: str) -> None:
        self._running[name].kill()

    def _kill_driver(self, name: str) -> None:
        self._running[name].kill_driver()
        self._running[name].kill()

    def _kill_jvm(self, name: str) -> None:
        application = self._running[name]
        with suppress(AssertionError):  # it has just failed by itself
            application.kill_jvm()
        application.kill()

    def _kill_worker(self, name: str) -> None:
        """Kill a Python worker: its task is repeated."""
        workers = [
            process
            for process in self._running[name].processes()
            if b"pyspark.daemon" in _command(process) and b"pyspark.daemon" in _command(_parent(process))
        ]
        if workers:
            kill(self._random.choice(workers))

    def _stop(self, name: str) -> None:
        application = self._running[name]
        if application.process.poll() is None:
            with suppress(AssertionError, OSError):
                application.stop()
        application.kill()

    # --- records ------------------------------------------------------------------------------------------------------

    def _write(self, count: int) -> None:
        with Producer({"bootstrap.servers": self._topics.servers}) as producer:
            for number in range(count):
                producer.send(self._source, b"x", partition=number % PARTITIONS)
        self.summary.records += count

    def _ends(self) -> dict[TopicPartition, int]:
        latest = {TopicPartition(self._source, number): -1 for number in range(PARTITIONS)}
        return {at: end.offset for at, end in self._admin.list_offsets(latest).items() if end is not None}

    def _target_ends(self, isolation: str) -> dict[TopicPartition, int]:
        with Consumer(self._topics.config | {"isolation.level": isolation}) as consumer:
            return consumer.end_offsets(consumer.partitions_for(self._target))

    def _catch_up(self) -> None:
        ends = {at: end for at, end in self._ends().items() if end}
        deadline = time.monotonic() + CATCH_UP_S
        while True:
            self._revive()
            with suppress(SlackwaterError):
                committed = self._admin.committed(self._source)
                is_read = all(at in committed and committed[at].offset >= end for at, end in ends.items())
                # An application that was killed in a batch ends its open transactions when it runs again.
                if is_read and self._target_ends("read_committed") == self._target_ends("read_uncommitted"):
                    break
            assert time.monotonic() < deadline, "\n".join(each.tail() for each in self._running.values())
            threading.Event().wait(0.5)
        for name in self._names:
            self._stop(name)

    def _check(self) -> None:
        expected = {f"{at}-{offset}" for at, end in self._ends().items() for offset in range(end)}
        assert len(expected) == self.summary.records

        def found() -> Counter[str]:
            return Counter((row[3] or b"").decode() for row in self._topics.read(self._target))

        counts = wait_until(
            lambda: (seen := found()).total() >= len(expected) and seen, lambda: found().total(), TIMEOUT_S
        )
        assert isinstance(counts, Counter)
        missing, more = expected - counts.keys(), {name: count for name, count in counts.items() if count > 1}
        assert not missing, f"{len(missing)} records are missing: {sorted(missing)[:10]}"
        assert not more, f"{len(more)} records were written again: {sorted(more)[:10]}"
        assert counts.keys() == expected


def _command(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _parent(process: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
