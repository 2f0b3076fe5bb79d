"""Spark applications of one group, and somebody who writes all the time.

Rules kept here
- An application is started twice: the process with its JVM beforehand (`prepare`), its query when its turn comes.
- While anything is waited for, the oracle looks; an application that has ended on its own is a failure.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self, TypeVar

from slackwater import Admin, Producer
from slackwater.client.admin.descriptions import STABLE, GroupDescription
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from tests.interop_heavy.sink_checker import CountsChecker, Record, SinkChecker
from tests.interop_heavy.spark_brokers import BrokerUnderTest
from tests.spark.applications import Application

TOPIC: Final = "orders"
GROUP: Final = "pipeline"
TIMEOUT_S: Final = 240.0
LOOK_S: Final = 0.5
TRIGGER: Final = {"processingTime": "1 second"}
DYNAMIC_SESSION_MS: Final = "10000"
STATIC_SESSION_MS: Final = "600000"  # on a busy machine a query takes minutes to start
T = TypeVar("T")


class Writer:
    """Writes to every partition in turn, until it is stopped; what counts is what the log has."""

    def __init__(self, bootstrap: str, partitions: int, pause_s: float, pace_ms: int | None) -> None:
        self.partitions = partitions
        self.acknowledged = 0
        self._bootstrap = bootstrap
        self._pause_s = pause_s
        self.pace_ms = pace_ms
        self._time_ms = int(time.time() * 1000)
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                config = {"bootstrap.servers": self._bootstrap, "acks": "all", "enable.idempotence": True}
                with Producer(config) as producer:
                    self._write(producer, self.partitions)
        except BaseException as error:
            self._error = error

    def _write(self, producer: Producer, partitions: int) -> None:
        """Write until it is over, or the topic has grown: a producer knows it as it was when it first wrote."""
        while partitions == self.partitions and not self._over.wait(self._pause_s):
            value, at_ms = b"%d" % self.acknowledged, None
            if self.pace_ms is not None:
                self._time_ms += self.pace_ms
                at_ms = self._time_ms
            for one in [producer.send(TOPIC, value, partition=at, timestamp_ms=at_ms) for at in range(partitions)]:
                one.result(TIMEOUT_S)
            self.acknowledged += partitions

    def stop(self) -> None:
        """Write no more."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join(TIMEOUT_S)
        assert self._error is None, self._error


class ApplicationGroup:
    """The applications, by name, and the group as its coordinator sees it."""

    def __init__(
        self,
        place: BrokerUnderTest,
        directory: Path,
        partitions: int,
        static: Mapping[str, str],
        elsewhere: Callable[[], list[Record]] = list,
        *,
        watermark: str | None = None,
    ) -> None:
        self.place = place
        self.directory = directory
        self.partitions = partitions
        self.running: dict[str, Application] = {}
        self.oracle = SinkChecker(directory)
        self.counts = CountsChecker(directory)
        self._watermark = watermark
        self._static = static
        self._elsewhere = elsewhere
        self._runs: dict[str, int] = {}
        self._ready: list[Application] = []
        self._stack = ExitStack()
        self.admin = Admin({"bootstrap.servers": place.bootstrap})
        self._stack.callback(self.admin.close)
        self.admin.create_topic(TOPIC, partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- applications -------------------------------------------------------------------------------------------------

    def write(self, pause_s: float = 0.1, pace_ms: int | None = None) -> Writer:
        """Somebody who writes; with a pace, the event time of records goes on by so much, whatever the clock says."""
        writer = Writer(self.place.bootstrap, self.partitions, pause_s, pace_ms)
        self._stack.callback(writer.stop)
        return writer

    def prepare(self, name: str) -> Application:
        """The next run of an application: a process that waits to be told."""
        run = self._runs[name] = self._runs.get(name, 0) + 1
        more = {} if self._watermark is None else {"watermark": self._watermark}
        options = self._options(name)
        found = Application(name, self.directory, options, run=run, master="local[1]", trigger=TRIGGER, **more)
        self._stack.callback(found.kill)
        return found

    def make_ready(self, application: Application) -> None:
        """Wait until it waits."""
        if application not in self._ready:
            application.wait_for_status("ready")
            self._ready.append(application)

    def begin(self, application: Application) -> None:
        """Let it take part."""
        self.make_ready(application)
        application.start()
        self.running[application.name] = application

    def end(self, name: str) -> None:
        """A clean stop."""
        self.running.pop(name).stop()

    def _options(self, name: str) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.place.bootstrap,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "kafka.group.id": GROUP,
            "kafka.session.timeout.ms": DYNAMIC_SESSION_MS,
            "kafka.heartbeat.interval.ms": "500",
            "kafka.metadata.max.age.ms": "3000",
            "kafka.client.id": name,
            "maxOffsetsPerTrigger": "3000",
            "statefulHandover": "allow",
        }
        if name in self._static:
            options |= {"kafka.group.instance.id": self._static[name], "kafka.session.timeout.ms": STATIC_SESSION_MS}
        return options

    def hold(self, name: str) -> Path:
        """Make the next batch of an application last, and wait until it does; the file to remove then."""
        hold = self.directory / f"{name}.hold"
        held = hold.with_suffix(".held")
        held.unlink(missing_ok=True)
        hold.touch()
        self.until(f"a long batch of {name}", held.exists)
        return hold

    # --- the group ----------------------------------------------------------------------------------------------------

    def described(self) -> GroupDescription:
        """The group."""
        (found,) = self.admin.describe_groups([GROUP])
        return found

    def shares(self, *wanted: int) -> None:
        """Wait until the group rests and its members have so many partitions each, every one of them once."""
        self.until(f"shares {wanted}", lambda: self._shares() == sorted(wanted))

    def _shares(self) -> list[int]:
        found = self.described()
        owned = [partition for one in found.members for partition in one.partitions or ()]
        if found.state != STABLE or sorted(owned) != [TopicPartition(TOPIC, one) for one in range(self.partitions)]:
            return []
        return sorted(len(one.partitions or ()) for one in found.members)

    def generation(self) -> int:
        """The group's generation, when it rests."""

        def resting() -> int | None:
            found = self.described()
            return found.generation if found.state == STABLE else None

        return self.until("a generation", resting) or 0

    def ends(self) -> dict[TopicPartition, int]:
        """Where the log ends."""
        asked = {TopicPartition(TOPIC, one): -1 for one in range(self.partitions)}
        return {at: found.offset for at, found in self.admin.list_offsets(asked).items() if found is not None}

    def committed(self) -> dict[TopicPartition, int]:
        """The group's offsets."""
        return {at: one.offset for at, one in self.admin.committed(GROUP).items()}

    def goes_on(self, *, except_for: Collection[TopicPartition] = ()) -> None:
        """Wait until the group has done all_partitions that is in the log at this moment."""
        ends = {at: end for at, end in self.until("the log's ends", self.ends).items() if at not in except_for}
        self.until("the group goes on", lambda: _reached(self.committed(), ends))

    def until(self, what: str, condition: Callable[[], T]) -> T:
        """The condition's first true value, while the oracle looks; an error of the cluster is not the end."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            self._check(what)
            with suppress(SlackwaterError):
                committed = self.committed()
                if self._watermark is None:
                    self.oracle.look(committed, self._elsewhere())
                if value := condition():
                    return value
            assert time.monotonic() < deadline, f"waited {TIMEOUT_S:g} s for {what}: {self._story()}"
            time.sleep(LOOK_S)

    def _check(self, what: str) -> None:
        for one in self.running.values():
            assert one.process.poll() is None, f"{one.name} has ended, waiting for {what}: {one.tail()}"

    def _story(self) -> str:
        found = [f"{one.client_id}: {one.partitions}" for one in self.described().members]
        words = [f"--- {one.name}\n{one.tail()}" for one in self.running.values()]
        return "\n".join([self.described().state, *found, f"committed {self.committed()}", *words])


def _reached(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
    return all(committed.get(at, 0) >= end for at, end in ends.items())
