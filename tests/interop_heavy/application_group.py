"""Spark applications of one group, and a writer that produces records continuously.

Invariants:
- `prepare` starts an application's process and its JVM; `start` starts its query.
- Every wait also runs the sink checker. An application that ends unexpectedly fails the test.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from slackwater import Admin, Producer
from slackwater.client.admin.descriptions import STABLE, GroupDescription
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from tests.interop_heavy.restartable_brokers import BrokerUnderTest
from tests.interop_heavy.sink_checker import CountsChecker, Record, SinkChecker
from tests.spark.applications import Application

TOPIC: Final = "orders"
GROUP: Final = "pipeline"
TIMEOUT_S: Final = 240.0
POLL_INTERVAL_S: Final = 0.5
TRIGGER: Final = {"processingTime": "1 second"}
DYNAMIC_SESSION_MS: Final = "10000"
STATIC_SESSION_MS: Final = "600000"  # on a busy machine a query takes minutes to start
LOCAL: Final = partial(Application, master="local[1]")
T = TypeVar("T")


class Writer:
    """Writes to every partition in turn until it is stopped; the end offsets of the log are the reference."""

    def __init__(self, bootstrap: str, partitions: int, pause_s: float, pace_ms: int | None) -> None:
        self.partitions = partitions
        self.acknowledged = 0
        self._bootstrap = bootstrap
        self._pause_s = pause_s
        self.pace_ms = pace_ms
        self._time_ms = int(time.time() * 1000)
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                config = {"bootstrap.servers": self._bootstrap, "acks": "all", "enable.idempotence": True}
                with Producer(config) as producer:
                    self._write(producer, self.partitions)
        except BaseException as error:
            self._error = error

    def _write(self, producer: Producer, partitions: int) -> None:
        """Write until stopped or until the topic grows: a producer keeps the partition count of its first write."""
        while partitions == self.partitions and not self._stopped.wait(self._pause_s):
            value, timestamp_ms = b"%d" % self.acknowledged, None
            if self.pace_ms is not None:
                self._time_ms += self.pace_ms
                timestamp_ms = self._time_ms
            futures = [
                producer.send(TOPIC, value, partition=partition, timestamp_ms=timestamp_ms)
                for partition in range(partitions)
            ]
            for future in futures:
                future.result(TIMEOUT_S)
            self.acknowledged += partitions

    def stop(self) -> None:
        """Stop writing and raise the writer's error, if any."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._thread.join(TIMEOUT_S)
        assert self._error is None, self._error


class ApplicationGroup:
    """The applications by name, and their group as its coordinator describes it."""

    def __init__(
        self,
        broker: BrokerUnderTest,
        directory: Path,
        partitions: int,
        static: Mapping[str, str],
        records_of_others: Callable[[], list[Record]] = list,
        *,
        watermark: str | None = None,
        launch: Callable[..., Application] = LOCAL,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.broker = broker
        self.directory = directory
        self.partitions = partitions
        self.running: dict[str, Application] = {}
        self.checker = SinkChecker(directory)
        self.counts = CountsChecker(directory)
        self._watermark = watermark
        self._launch = launch
        self._more_options = options or {}
        self._static = static
        self._records_of_others = records_of_others
        self._runs: dict[str, int] = {}
        self._ready: list[Application] = []
        self._stack = ExitStack()
        self.admin = Admin({"bootstrap.servers": broker.bootstrap})
        self._stack.callback(self.admin.close)
        self.admin.create_topic(TOPIC, partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- applications -------------------------------------------------------------------------------------------------

    def write(self, pause_s: float = 0.1, pace_ms: int | None = None) -> Writer:
        """Start a writer; with a pace, event time advances by that much per record, independent of the clock."""
        writer = Writer(self.broker.bootstrap, self.partitions, pause_s, pace_ms)
        self._stack.callback(writer.stop)
        return writer

    def prepare(self, name: str) -> Application:
        """Start the process of an application's next run; its query waits for `start`."""
        run = self._runs[name] = self._runs.get(name, 0) + 1
        settings = {} if self._watermark is None else {"watermark": self._watermark}
        options = self._options(name)
        application = self._launch(name, self.directory, options, run=run, trigger=TRIGGER, **settings)
        self._stack.callback(application.kill)
        return application

    def wait_until_ready(self, application: Application) -> None:
        """Wait until the application can start its query."""
        if application not in self._ready:
            application.wait_for_status("ready")
            self._ready.append(application)

    def start(self, application: Application) -> None:
        """Start the application's query."""
        self.wait_until_ready(application)
        application.start()
        self.running[application.name] = application

    def stop(self, name: str) -> None:
        """Stop an application cleanly."""
        self.running.pop(name).stop()

    def _options(self, name: str) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap,
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
        return {**options, **self._more_options}

    def hold_batch(self, name: str) -> Path:
        """Block the application's next batch, wait until it is blocked, and return the file that blocks it."""
        hold = self.directory / f"{name}.hold"
        held = hold.with_suffix(".held")
        held.unlink(missing_ok=True)
        hold.touch()
        self.wait_for(f"a blocked batch of {name}", held.exists)
        return hold

    # --- the group ----------------------------------------------------------------------------------------------------

    def describe(self) -> GroupDescription:
        """Describe the group."""
        (description,) = self.admin.describe_groups([GROUP])
        return description

    def wait_for_shares(self, *sizes: int) -> None:
        """Wait until the group is stable and its members own this many partitions each, every partition once."""
        self.wait_for(f"shares {sizes}", lambda: self._shares() == sorted(sizes))

    def _shares(self) -> list[int]:
        group = self.describe()
        owned = [partition for member in group.members for partition in member.partitions or ()]
        expected = [TopicPartition(TOPIC, number) for number in range(self.partitions)]
        if group.state != STABLE or sorted(owned) != expected:
            return []
        return sorted(len(member.partitions or ()) for member in group.members)

    def generation(self) -> int:
        """Wait until the group is stable and return its generation."""

        def stable_generation() -> int | None:
            group = self.describe()
            return group.generation if group.state == STABLE else None

        return self.wait_for("a generation", stable_generation) or 0

    def ends(self) -> dict[TopicPartition, int]:
        """The end offset of each partition."""
        latest = {TopicPartition(TOPIC, number): -1 for number in range(self.partitions)}
        offsets = self.admin.list_offsets(latest)
        return {partition: position.offset for partition, position in offsets.items() if position is not None}

    def committed(self) -> dict[TopicPartition, int]:
        """The group's committed offsets."""
        return {partition: commit.offset for partition, commit in self.admin.committed(GROUP).items()}

    def wait_for_progress(self, *, except_for: Collection[TopicPartition] = ()) -> None:
        """Wait until the group has committed every record that is in the log now."""
        ends = {
            partition: end
            for partition, end in self.wait_for("the end offsets", self.ends).items()
            if partition not in except_for
        }
        self.wait_for("progress of the group", lambda: _reached(self.committed(), ends))

    def wait_for(self, what: str, condition: Callable[[], T]) -> T:
        """Wait for the condition's first true value and run the checker meanwhile; retry errors of the cluster."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            self._check_applications(what)
            with suppress(SlackwaterError):
                committed = self.committed()
                if self._watermark is None:
                    self.checker.check(committed, self._records_of_others())
                if value := condition():
                    return value
            assert time.monotonic() < deadline, f"waited {TIMEOUT_S:g} s for {what}: {self._report()}"
            time.sleep(POLL_INTERVAL_S)

    def _check_applications(self, what: str) -> None:
        for application in self.running.values():
            ended = application.process.poll() is not None
            assert not ended, f"{application.name} ended while waiting for {what}: {application.tail()}"

    def _report(self) -> str:
        group = self.describe()
        members = [f"{member.client_id}: {member.partitions}" for member in group.members]
        logs = [f"--- {application.name}\n{application.tail()}" for application in self.running.values()]
        return "\n".join([group.state, *members, f"committed {self.committed()}", *logs])


def _reached(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
    return all(committed.get(partition, 0) >= end for partition, end in ends.items())
