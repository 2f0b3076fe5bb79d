"""Spark applications in one group, for minutes: on our broker in a process of its own, and on Apache Kafka.

Three applications live through all_partitions that a deployment has in store, in an order that a seed chooses, while
records come in all the time. Three static ones are deployed one after another. Two share a group with a Java consumer,
and with librdkafka's. All the time the oracle (`spark_oracle.py`) looks: nothing below the group's offset may be
missing, and twice is only what docs/spark.md says may be.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop.clients import CONFLUENT, JAVA, Client, Driver, Member, require
from tests.interop_heavy.application_group import GROUP, TOPIC, ApplicationGroup, Writer
from tests.interop_heavy.sink_checker import Account, Record
from tests.interop_heavy.spark_brokers import APACHE, EMBEDDED, BrokerUnderTest, place
from tests.spark.applications import Application

PARTITIONS: Final = 6
MORE: Final = 3
EACH: Final = 50
LONG_BATCH_S: Final = 60.0
SEEDS: Final = {EMBEDDED: 6, APACHE: 431}
DYNAMIC: Final = ("ada", "bea")
STATIC: Final = {"cyd": "cyd-id"}
Tell = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Print, whatever pytest captures."""

    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    return say


@pytest.fixture(params=[EMBEDDED, APACHE])
def kind(request: pytest.FixtureRequest) -> str:
    """What the group lives on."""
    return str(request.param)


@pytest.fixture
def broker(kind: str, tmp_path: Path) -> Iterator[BrokerUnderTest]:
    """A broker for one test."""
    with place(kind, tmp_path) as found:
        yield found


# --- three applications with random faults


class Sequence:
    """What happens to three applications; after each event all three are there again, and get on."""

    def __init__(self, crew: ApplicationGroup, writer: Writer, seed: int, tell: Tell) -> None:
        self.crew, self.writer = crew, writer
        self._choice = random.Random(seed)
        self._tell = tell
        self.events: list[Callable[[], str]] = [
            self.clean_stop,
            self.death_of_the_driver,
            self.death_of_the_jvm,
            self.death_of_a_static_one,
            self.long_batch,
            self.broker_restart,
            self.more_partitions,
        ]
        self._choice.shuffle(self.events)

    def begin(self) -> None:
        """One after another joins."""
        for number, application in enumerate([self.crew.prepare(name) for name in (*DYNAMIC, *STATIC)], 1):
            self.crew.begin(application)
            self.crew.shares(*[self.crew.partitions // number] * number)
            self.crew.goes_on()

    def run(self) -> None:
        """Everything, in the seed's order."""
        for event in self.events:
            begun = time.monotonic()
            what = event()
            self.crew.shares(*self._even())
            self.crew.goes_on()
            self._tell(f"  {event.__name__} ({what}): {time.monotonic() - begun:.0f} s")

    def end(self) -> Account:
        """No more records: all that there are get done, all leave, and the account is closed."""
        self.writer.stop()
        ends = self.crew.ends()
        assert sum(ends.values()) >= self.writer.acknowledged
        self.crew.until("all is done", lambda: self.crew.committed() == ends)
        for name in list(self.crew.running):
            self.crew.end(name)
        return self.crew.oracle.close(ends)

    def _even(self) -> list[int]:
        return [self.crew.partitions // 3] * 3

    def _some(self) -> str:
        return self._choice.choice(DYNAMIC)

    def _again(self, name: str, end: Callable[[Application], object]) -> None:
        """End an application in some way, and start it again from its checkpoint."""
        successor = self.crew.prepare(name)
        self.crew.make_ready(successor)
        application = self.crew.running.pop(name)
        end(application)
        self.crew.until(f"nothing of {name} is left", lambda: not application.processes())
        self.crew.begin(successor)

    # --- events -------------------------------------------------------------------------------------------------------

    def clean_stop(self) -> str:
        """It leaves, and the others have all_partitions; then it is back."""
        name = self._some()
        successor = self.crew.prepare(name)
        self.crew.end(name)
        half = self.crew.partitions // 2
        self.crew.shares(half, self.crew.partitions - half)
        self.crew.goes_on()
        self.crew.begin(successor)
        return name

    def death_of_the_driver(self) -> str:
        """SIGKILL to the user's process: the JVM and the member must not outlive it for long."""
        name = self._some()
        self._again(name, Application.kill_driver)
        return name

    def death_of_the_jvm(self) -> str:
        """SIGKILL to the JVM: the member and the user's process must not outlive it for long."""
        name = self._some()
        self._again(name, Application.kill_jvm)
        return name

    def death_of_a_static_one(self) -> str:
        """SIGKILL to all_partitions, and back within the session: nobody else notices."""
        (name,) = STATIC
        before = self.crew.generation()
        self._again(name, Application.kill)
        self.crew.goes_on()
        assert self.crew.generation() == before, "a static member came back in time, and there was a rebalance"
        return name

    def long_batch(self) -> str:
        """While the batch of one runs, another leaves and comes back, and the third goes on."""
        long = self._some()
        (other,) = (name for name in DYNAMIC if name != long)
        begun = time.monotonic()
        hold = self.crew.hold(long)
        successor = self.crew.prepare(other)
        self.crew.end(other)
        self.crew.until("the others have its partitions", lambda: len(self.crew.described().members) == 2)
        self.crew.begin(successor)
        self.crew.until("it is back", lambda: len(self.crew.described().members) == 3)
        before = self.crew.committed()
        self.crew.until("the rest goes on", lambda: sum(self.crew.committed().values()) > sum(before.values()))
        self.crew.until("the batch is long", lambda: time.monotonic() - begun > LONG_BATCH_S)
        hold.unlink()
        return long

    def broker_restart(self) -> str:
        """SIGKILL to the broker."""
        self.crew.place.restart()
        return self.crew.place.bootstrap

    def more_partitions(self) -> str:
        """The topic grows."""
        total = self.crew.partitions + MORE
        self.crew.admin.add_partitions(TOPIC, total)
        self.crew.until(
            "the topic has grown", lambda: len(self.crew.admin.describe_topics([TOPIC])[0].partitions) == total
        )
        self.crew.partitions = self.writer.partitions = total
        return f"{total}"


def test_three_applications_with_random_faults(broker: BrokerUnderTest, kind: str, tmp_path: Path, tell: Tell) -> None:
    seed = SEEDS[kind]
    with ApplicationGroup(broker, tmp_path, PARTITIONS, STATIC) as crew:
        sequence = Sequence(crew, crew.write(), seed, tell)
        tell(f"\n{kind}, seed {seed}: {', '.join(event.__name__ for event in sequence.events)}")
        sequence.begin()
        sequence.run()
        account = sequence.end()
        tell(f"  {account}; looked {crew.oracle.looks} times")
    broker.check()


# --- a rolling deploy -----------------------------------------------------------------------------------------------


def test_static_rolling_deploy_has_no_rebalance(broker: BrokerUnderTest, kind: str, tmp_path: Path, tell: Tell) -> None:
    names = ("ada", "bea", "cyd")
    with ApplicationGroup(broker, tmp_path, PARTITIONS, {name: f"{name}-id" for name in names}) as crew:
        writer = crew.write(0.01)
        for application in [crew.prepare(name) for name in names]:
            crew.begin(application)
        crew.shares(2, 2, 2)
        crew.goes_on()
        before = crew.generation()
        members = {one.group_instance_id: one.partitions for one in crew.described().members}
        for name in names:
            begun = time.monotonic()
            successor = crew.prepare(name)
            crew.make_ready(successor)  # how long a JVM takes on a busy machine is not what is proven here
            crew.end(name)
            crew.begin(successor)
            crew.goes_on()
            tell(f"  {kind}: {name} was deployed in {time.monotonic() - begun:.0f} s")
        assert crew.generation() == before, "there was a rebalance"
        assert {one.group_instance_id: one.partitions for one in crew.described().members} == members
        writer.stop()
        ends = crew.ends()
        crew.until("all is done", lambda: crew.committed() == ends)
        for name in names:
            crew.end(name)
        account = crew.oracle.close(ends)
        tell(f"  {kind}, a rolling deploy: {account}; generation {before} from first to last")
        assert not account.twice, "each record is in one batch of one application"
    broker.check()


# --- queries that keep state ----------------------------------------------------------------------------------------


def test_stateful_query_drops_only_late_takeovers(
    broker: BrokerUnderTest, kind: str, tmp_path: Path, tell: Tell
) -> None:
    slow, other = DYNAMIC
    with ApplicationGroup(broker, tmp_path, PARTITIONS, {}, watermark="10 seconds") as crew:
        writer = crew.write(pace_ms=100)
        for application in [crew.prepare(name) for name in DYNAMIC]:
            crew.begin(application)
        crew.shares(3, 3)
        crew.goes_on()
        theirs = next(one.partitions or () for one in crew.described().members if one.client_id == slow)
        hold = crew.hold(slow)
        writer.pace_ms = 1000  # event time runs ten times faster than the clock, and one of the two stands still

        def backlog() -> dict[int, int]:
            ends, committed = crew.ends(), crew.committed()
            return {at.partition: ends[at] - committed[at] for at in theirs}

        crew.until("a backlog of two minutes", lambda: min(backlog().values()) >= 120)
        crew.goes_on(except_for=theirs)
        writer.stop()
        ends, moved = crew.ends(), backlog()
        crew.running.pop(slow).kill()
        hold.unlink()
        crew.shares(PARTITIONS)
        crew.until("all is done", lambda: crew.committed() == ends)
        crew.end(other)
        dropped = crew.counts.dropped(ends)
        tell(
            f"  {kind}: {sum(moved.values())} of {sum(ends.values())} records went to a query two minutes ahead; "
            f"{sum(dropped.values())} were too late for its watermark"
        )
        assert dropped.keys() <= moved.keys(), f"only what has moved can be too late: {dropped}, {moved}"
        assert 0 < sum(dropped.values()) <= sum(moved.values())
    broker.check()


# --- with other clients ---------------------------------------------------------------------------------------------


class Guests:
    """A client's members, one at a time, and all that they have read."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._member: Member | None = None
        self._read: list[Record] = []
        self._count = 0

    @property
    def member(self) -> Member:
        """The one that is there."""
        assert self._member is not None
        return self._member

    def join(self) -> None:
        """A new member."""
        self._count += 1
        self._member = self._driver.join(f"process-{self._count}", GROUP, [TOPIC], assignor="cooperative-sticky")

    def records(self) -> list[Record]:
        """Everything so far."""
        now = self._member.snapshot().records if self._member is not None else ()
        return [*self._read, *((one["topic"], one["partition"], one["offset"]) for one in now)]

    def leave(self) -> None:
        """Commit, and go."""
        self.member.commit()
        self._read = self.records()
        self.member.close()
        self._member = None


@pytest.fixture
def clients(client: Client, broker: BrokerUnderTest) -> Iterator[Guests]:
    """Of a client."""
    require(client)
    driver = Driver(client, broker.bootstrap)
    yield Guests(driver)
    driver.stop()


def all_is_read(crew: ApplicationGroup, clients: Guests) -> None:
    """Wait until all_partitions is read: by the process what it owns, by the applications the rest."""
    ends = crew.ends()

    def read() -> bool:
        theirs = clients.member.snapshot().assignment
        came, committed = set(clients.records()), crew.committed()
        return all(
            (not end or (*at, end - 1) in came) if str(at) in theirs else committed.get(at, 0) == end
            for at, end in ends.items()
        )

    crew.until("all is read", read)


def filled(crew: ApplicationGroup, clients: Guests) -> None:
    """Some records for everybody, and time to read them."""
    writer = crew.write()
    crew.until("some records", lambda: writer.acknowledged >= EACH * crew.partitions)
    writer.stop()
    all_is_read(crew, clients)


def one_owner_each(crew: ApplicationGroup, clients: Guests) -> None:
    """What the coordinator says that the process has is what the process says."""

    def agree() -> bool:
        said = {one.client_id: one.partitions for one in crew.described().members}
        (theirs,) = (partitions for name, partitions in said.items() if name.startswith("process"))
        return set(map(str, theirs or ())) == clients.member.snapshot().assignment

    crew.shares(2, 2, 2)
    crew.until("they agree", agree)


@pytest.mark.parametrize("client", [JAVA, CONFLUENT], ids=str)
def test_spark_and_other_client_share_a_group(
    client: Client, clients: Guests, broker: BrokerUnderTest, kind: str, tmp_path: Path, tell: Tell
) -> None:
    with ApplicationGroup(broker, tmp_path, PARTITIONS, {}, clients.records) as crew:
        applications = [crew.prepare(name) for name in DYNAMIC]
        clients.join()
        crew.shares(PARTITIONS)
        filled(crew, clients)
        clients.member.commit()
        for application in applications:
            crew.begin(application)
        one_owner_each(crew, clients)
        filled(crew, clients)
        clients.leave()
        crew.shares(3, 3)
        writer = crew.write()
        crew.goes_on()
        clients.join()  # while the applications are at work
        one_owner_each(crew, clients)
        crew.until("the process reads", lambda: clients.member.snapshot().records)
        writer.stop()
        all_is_read(crew, clients)
        ends = crew.ends()
        clients.leave()
        for name in DYNAMIC:
            crew.end(name)
        theirs = clients.records()
        account = crew.oracle.close(ends, theirs)
        tell(f"  {kind} with {client}: {account}; {len(theirs)} of them read by {client}")
        assert not account.twice
    broker.check()
