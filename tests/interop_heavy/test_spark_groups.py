"""Spark applications in one group for several minutes, on our broker in its own process and on Apache Kafka.

Three applications run through stops, kills, a long batch, a broker restart and new partitions, in an order that a seed
chooses, while records arrive continuously. Three static applications are deployed one after another. Two applications
share a group with a Java consumer and with librdkafka's. All the time the sink checker (`sink_checker.py`) runs: no
record below the committed offset may be missing, and only the duplicates that docs/spark.md allows may occur.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop.clients import CONFLUENT, JAVA, Client, Driver, Member, require
from tests.interop_heavy.application_group import GROUP, TOPIC, ApplicationGroup, Writer
from tests.interop_heavy.restartable_brokers import APACHE, SLACKWATER, BrokerUnderTest, started_broker
from tests.interop_heavy.sink_checker import Record, SinkSummary
from tests.spark.applications import Application

PARTITIONS: Final = 6
NEW_PARTITIONS: Final = 3
RECORDS_PER_PARTITION: Final = 50
LONG_BATCH_S: Final = 60.0
SEEDS: Final = {SLACKWATER: 6, APACHE: 431}
DYNAMIC: Final = ("ada", "bea")
STATIC: Final = {"cyd": "cyd-id"}
Print = Callable[[str], None]


@pytest.fixture
def print_line(capsys: pytest.CaptureFixture[str]) -> Print:
    """Prints a line although pytest captures the output."""

    def print_uncaptured(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    return print_uncaptured


@pytest.fixture(params=[SLACKWATER, APACHE])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of broker."""
    return str(request.param)


@pytest.fixture
def broker(kind: str, tmp_path: Path) -> Iterator[BrokerUnderTest]:
    """A broker for one test."""
    with started_broker(kind, tmp_path) as broker:
        yield broker


# --- three applications with random faults


class FaultSequence:
    """The faults that three applications run through; after each one all three are in the group and make progress."""

    def __init__(self, app_group: ApplicationGroup, writer: Writer, seed: int, print_line: Print) -> None:
        self.app_group, self.writer = app_group, writer
        self._random = random.Random(seed)
        self._print_line = print_line
        self.events: list[Callable[[], str]] = [
            self.clean_stop,
            self.kill_a_driver,
            self.kill_a_jvm,
            self.kill_a_static_application,
            self.long_batch,
            self.broker_restart,
            self.more_partitions,
        ]
        self._random.shuffle(self.events)

    def start(self) -> None:
        """Start the applications one after another."""
        for number, application in enumerate([self.app_group.prepare(name) for name in (*DYNAMIC, *STATIC)], 1):
            self.app_group.start(application)
            self.app_group.wait_for_shares(*[self.app_group.partitions // number] * number)
            self.app_group.wait_for_progress()

    def run(self) -> None:
        """Run all events in the order of the seed."""
        for event in self.events:
            started = time.monotonic()
            detail = event()
            self.app_group.wait_for_shares(*self._even_shares())
            self.app_group.wait_for_progress()
            self._print_line(f"  {event.__name__} ({detail}): {time.monotonic() - started:.0f} s")

    def finish(self) -> SinkSummary:
        """Stop writing, wait until all records are processed, stop all applications and check the sinks."""
        self.writer.stop()
        ends = self.app_group.ends()
        assert sum(ends.values()) >= self.writer.acknowledged
        self.app_group.wait_for("all records committed", lambda: self.app_group.committed() == ends)
        for name in list(self.app_group.running):
            self.app_group.stop(name)
        return self.app_group.checker.finish(ends)

    def _even_shares(self) -> list[int]:
        return [self.app_group.partitions // 3] * 3

    def _random_application(self) -> str:
        return self._random.choice(DYNAMIC)

    def _restart(self, name: str, terminate: Callable[[Application], object]) -> None:
        """Terminate an application and start it again from its checkpoint."""
        successor = self.app_group.prepare(name)
        self.app_group.wait_until_ready(successor)
        application = self.app_group.running.pop(name)
        terminate(application)
        self.app_group.wait_for(f"the end of {name}'s processes", lambda: not application.processes())
        self.app_group.start(successor)

    # --- events -------------------------------------------------------------------------------------------------------

    def clean_stop(self) -> str:
        """An application leaves, the others own all partitions, and it comes back."""
        name = self._random_application()
        successor = self.app_group.prepare(name)
        self.app_group.stop(name)
        half = self.app_group.partitions // 2
        self.app_group.wait_for_shares(half, self.app_group.partitions - half)
        self.app_group.wait_for_progress()
        self.app_group.start(successor)
        return name

    def kill_a_driver(self) -> str:
        """Send SIGKILL to the user's process; the JVM and the member must end soon after it."""
        name = self._random_application()
        self._restart(name, Application.kill_driver)
        return name

    def kill_a_jvm(self) -> str:
        """Send SIGKILL to the JVM; the member and the user's process must end soon after it."""
        name = self._random_application()
        self._restart(name, Application.kill_jvm)
        return name

    def kill_a_static_application(self) -> str:
        """Send SIGKILL to all processes of a static application and restart it within its session: no rebalance."""
        (name,) = STATIC
        before = self.app_group.generation()
        self._restart(name, Application.kill)
        self.app_group.wait_for_progress()
        assert self.app_group.generation() == before, "the static member's return caused a rebalance"
        return name

    def long_batch(self) -> str:
        """While one application runs a long batch, another leaves and comes back, and the third makes progress."""
        slow = self._random_application()
        (other,) = (name for name in DYNAMIC if name != slow)
        started = time.monotonic()
        hold = self.app_group.hold_batch(slow)
        successor = self.app_group.prepare(other)
        self.app_group.stop(other)
        self.app_group.wait_for("a group of two", lambda: len(self.app_group.describe().members) == 2)
        self.app_group.start(successor)
        self.app_group.wait_for("a group of three", lambda: len(self.app_group.describe().members) == 3)
        before = self.app_group.committed()
        self.app_group.wait_for(
            "progress of the others", lambda: sum(self.app_group.committed().values()) > sum(before.values())
        )
        self.app_group.wait_for("the end of the long batch", lambda: time.monotonic() - started > LONG_BATCH_S)
        hold.unlink()
        return slow

    def broker_restart(self) -> str:
        """Send SIGKILL to the broker and start it again."""
        self.app_group.broker.restart()
        return self.app_group.broker.bootstrap

    def more_partitions(self) -> str:
        """Add partitions to the topic."""
        total = self.app_group.partitions + NEW_PARTITIONS
        self.app_group.admin.add_partitions(TOPIC, total)
        self.app_group.wait_for(
            "the topic has grown", lambda: len(self.app_group.admin.describe_topics([TOPIC])[0].partitions) == total
        )
        self.app_group.partitions = self.writer.partitions = total
        return f"{total}"


def test_three_applications_with_random_faults(
    broker: BrokerUnderTest, kind: str, tmp_path: Path, print_line: Print
) -> None:
    seed = SEEDS[kind]
    with ApplicationGroup(broker, tmp_path, PARTITIONS, STATIC) as app_group:
        sequence = FaultSequence(app_group, app_group.write(), seed, print_line)
        print_line(f"\n{kind}, seed {seed}: {', '.join(event.__name__ for event in sequence.events)}")
        sequence.start()
        sequence.run()
        summary = sequence.finish()
        print_line(f"  {summary}; {app_group.checker.checks} checks")
    broker.check()


# --- a rolling deploy -----------------------------------------------------------------------------------------------


def test_static_rolling_deploy_has_no_rebalance(
    broker: BrokerUnderTest, kind: str, tmp_path: Path, print_line: Print
) -> None:
    names = ("ada", "bea", "cyd")
    with ApplicationGroup(broker, tmp_path, PARTITIONS, {name: f"{name}-id" for name in names}) as app_group:
        writer = app_group.write(0.01)
        for application in [app_group.prepare(name) for name in names]:
            app_group.start(application)
        app_group.wait_for_shares(2, 2, 2)
        app_group.wait_for_progress()
        before = app_group.generation()
        members = {member.group_instance_id: member.partitions for member in app_group.describe().members}
        for name in names:
            started = time.monotonic()
            successor = app_group.prepare(name)
            app_group.wait_until_ready(successor)  # the JVM's start time is not part of this test
            app_group.stop(name)
            app_group.start(successor)
            app_group.wait_for_progress()
            print_line(f"  {kind}: {name} was deployed in {time.monotonic() - started:.0f} s")
        assert app_group.generation() == before, "there was a rebalance"
        assert {member.group_instance_id: member.partitions for member in app_group.describe().members} == members
        writer.stop()
        ends = app_group.ends()
        app_group.wait_for("all records committed", lambda: app_group.committed() == ends)
        for name in names:
            app_group.stop(name)
        summary = app_group.checker.finish(ends)
        print_line(f"  {kind}, a rolling deploy: {summary}; generation {before} from first to last")
        assert not summary.duplicates, "a record is in more than one batch"
    broker.check()


# --- stateful queries -----------------------------------------------------------------------------------------------


def test_stateful_query_drops_only_late_takeovers(
    broker: BrokerUnderTest, kind: str, tmp_path: Path, print_line: Print
) -> None:
    slow, other = DYNAMIC
    with ApplicationGroup(broker, tmp_path, PARTITIONS, {}, watermark="10 seconds") as app_group:
        writer = app_group.write(pace_ms=100)
        for application in [app_group.prepare(name) for name in DYNAMIC]:
            app_group.start(application)
        app_group.wait_for_shares(3, 3)
        app_group.wait_for_progress()
        owned = next(member.partitions or () for member in app_group.describe().members if member.client_id == slow)
        hold = app_group.hold_batch(slow)
        writer.pace_ms = 1000  # event time is ten times faster than the clock while one application is blocked

        def backlog() -> dict[int, int]:
            ends, committed = app_group.ends(), app_group.committed()
            return {partition.partition: ends[partition] - committed[partition] for partition in owned}

        app_group.wait_for("a backlog of two minutes", lambda: min(backlog().values()) >= 120)
        app_group.wait_for_progress(except_for=owned)
        writer.stop()
        ends, moved = app_group.ends(), backlog()
        app_group.running.pop(slow).kill()
        hold.unlink()
        app_group.wait_for_shares(PARTITIONS)
        app_group.wait_for("all records committed", lambda: app_group.committed() == ends)
        app_group.stop(other)
        dropped = app_group.counts.dropped(ends)
        print_line(
            f"  {kind}: {sum(moved.values())} of {sum(ends.values())} records moved to a query two minutes ahead; "
            f"{sum(dropped.values())} were too late for its watermark"
        )
        assert dropped.keys() <= moved.keys(), f"records of partitions that did not move were late: {dropped}, {moved}"
        assert 0 < sum(dropped.values()) <= sum(moved.values())
    broker.check()


# --- with other clients ---------------------------------------------------------------------------------------------


class OtherMembers:
    """The members of another client, one at a time, and all records that they have read."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._member: Member | None = None
        self._read: list[Record] = []
        self._count = 0

    @property
    def member(self) -> Member:
        """The current member."""
        assert self._member is not None
        return self._member

    def join(self) -> None:
        """Start a new member."""
        self._count += 1
        self._member = self._driver.join(f"process-{self._count}", GROUP, [TOPIC], assignor="cooperative-sticky")

    def records(self) -> list[Record]:
        """All records read so far."""
        current = self._member.snapshot().records if self._member is not None else ()
        return [*self._read, *((record["topic"], record["partition"], record["offset"]) for record in current)]

    def leave(self) -> None:
        """Commit and leave the group."""
        self.member.commit()
        self._read = self.records()
        self.member.close()
        self._member = None


@pytest.fixture
def others(client: Client, broker: BrokerUnderTest) -> Iterator[OtherMembers]:
    """The members of the other client."""
    require(client)
    driver = Driver(client, broker.bootstrap)
    yield OtherMembers(driver)
    driver.stop()


def wait_until_all_read(app_group: ApplicationGroup, others: OtherMembers) -> None:
    """Wait until all records are read: by the other client in its partitions, by the applications in the rest."""
    ends = app_group.ends()

    def read() -> bool:
        owned = others.member.snapshot().assignment
        received, committed = set(others.records()), app_group.committed()
        return all(
            (not end or (*partition, end - 1) in received)
            if str(partition) in owned
            else committed.get(partition, 0) == end
            for partition, end in ends.items()
        )

    app_group.wait_for("all records read", read)


def write_and_wait(app_group: ApplicationGroup, others: OtherMembers) -> None:
    """Write records to all partitions and wait until they are read."""
    writer = app_group.write()
    app_group.wait_for("new records", lambda: writer.acknowledged >= RECORDS_PER_PARTITION * app_group.partitions)
    writer.stop()
    wait_until_all_read(app_group, others)


def wait_for_agreement(app_group: ApplicationGroup, others: OtherMembers) -> None:
    """Wait until the coordinator and the other client agree on the other client's partitions."""

    def agree() -> bool:
        described = {member.client_id: member.partitions for member in app_group.describe().members}
        (owned,) = (partitions for name, partitions in described.items() if name.startswith("process"))
        return set(map(str, owned or ())) == others.member.snapshot().assignment

    app_group.wait_for_shares(2, 2, 2)
    app_group.wait_for("equal assignments", agree)


@pytest.mark.parametrize("client", [JAVA, CONFLUENT], ids=str)
def test_spark_and_other_client_share_a_group(
    client: Client, others: OtherMembers, broker: BrokerUnderTest, kind: str, tmp_path: Path, print_line: Print
) -> None:
    with ApplicationGroup(broker, tmp_path, PARTITIONS, {}, others.records) as app_group:
        applications = [app_group.prepare(name) for name in DYNAMIC]
        others.join()
        app_group.wait_for_shares(PARTITIONS)
        write_and_wait(app_group, others)
        others.member.commit()
        for application in applications:
            app_group.start(application)
        wait_for_agreement(app_group, others)
        write_and_wait(app_group, others)
        others.leave()
        app_group.wait_for_shares(3, 3)
        writer = app_group.write()
        app_group.wait_for_progress()
        others.join()  # while the applications process records
        wait_for_agreement(app_group, others)
        app_group.wait_for("records of the other client", lambda: others.member.snapshot().records)
        writer.stop()
        wait_until_all_read(app_group, others)
        ends = app_group.ends()
        others.leave()
        for name in DYNAMIC:
            app_group.stop(name)
        read_by_others = others.records()
        summary = app_group.checker.finish(ends, read_by_others)
        print_line(f"  {kind} with {client}: {summary}; {len(read_by_others)} of them read by {client}")
        assert not summary.duplicates
    broker.check()
