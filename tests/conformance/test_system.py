"""Section 13 of the catalogue with stock clients and a broker process, and CO-06 with broker restarts.

SY-05 has a second half, about members of the new consumer protocol; groups of that protocol are section 11.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError

from slackwater.broker.server import Server
from slackwater.clock import ManualClock
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tests.broker.broker_process import BrokerProcess
from tests.broker.raw_client import RawClient, closing
from tests.broker.server_client import with_server
from tests.interop.clients import (
    AIOKAFKA,
    CONFLUENT,
    KAFKA_PYTHON,
    Client,
    Driver,
    Member,
    MemberSnapshot,
    Record,
    partitions,
    require,
    wait_for_assignment,
    wait_for_records,
    wait_until,
)

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "5",
}
ALL = (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)
TOPIC, GROUP = "t", "g"


class House:
    """A broker that can be restarted at its address, and client processes."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.broker = BrokerProcess(data, SETTINGS)
        self._drivers: list[Driver] = []

    def driver(self, client: Client = CONFLUENT) -> Driver:
        require(client)
        driver = Driver(client, self.broker.address)
        self._drivers.append(driver)
        return driver

    def restart(self, how: str) -> None:
        """Stop the broker cleanly or kill it, and start it again."""
        self.broker.stop() if how == "rolled" else self.broker.kill()
        self.broker = BrokerProcess(self._data, SETTINGS, port=self.broker.port)

    def describe(self, group: str = GROUP) -> DescribedGroup:
        """Return the broker's description of a group."""
        found: list[DescribedGroup] = []

        @closing
        async def ask() -> None:
            client = await self.broker.connect()
            found.extend((await client.ask(DescribeGroupsRequest([group]), DescribeGroupsResponse)).groups)

        asyncio.run(ask())
        return found[0]

    def committed(self, count: int) -> list[int]:
        """Return the committed offsets of the group."""
        found: list[int] = []

        @closing
        async def ask() -> None:
            found.extend(await (await self.broker.connect()).committed(GROUP, TOPIC, range(count)))

        asyncio.run(ask())
        return found

    def member_ids(self) -> dict[str | None, str]:
        """Return member ids by instance id."""
        return {member.group_instance_id: member.member_id for member in self.describe().members}

    def close(self) -> None:
        for driver in self._drivers:
            driver.stop()
        self.broker.kill()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path)
    try:
        yield one
        assert "Traceback" not in one.broker.log, one.broker.log[-4000:]
    finally:
        one.close()


@dataclass
class Ledger:
    """The produced records, to compare with the processed ones."""

    house: House
    driver: Driver
    count: int
    each: int = 0

    def produce(self, each: int) -> None:
        """Produce more records to every partition."""
        records = [{"partition": number, "value": "x"} for number in range(self.count) for _ in range(each)]
        self.driver.produce(TOPIC, records)
        self.each += each

    def check_consumed_once(self, members: Sequence[Member], before: Sequence[Record] = ()) -> None:
        """Wait until every record was processed, each once."""
        records = [*before, *wait_for_records(members, self.count * self.each - len(before))]
        found = sorted((record["partition"], record["offset"]) for record in records)
        assert found == [(partition, offset) for partition in range(self.count) for offset in range(self.each)]

    def check_committed(self) -> None:
        """Check that the committed offsets are the end offsets."""
        assert self.house.committed(self.count) == [self.each] * self.count


def _ledger(house: House, driver: Driver, count: int) -> Ledger:
    driver.create_topic(TOPIC, count)
    return Ledger(house, driver, count)


def _unmoved(before: Sequence[MemberSnapshot], after: Sequence[MemberSnapshot]) -> None:
    """Check that there was no rebalance: same generation, same partitions, no callback."""
    assert [snapshot.generation for snapshot in after] == [snapshot.generation for snapshot in before]
    assert [snapshot.assignment for snapshot in after] == [snapshot.assignment for snapshot in before]
    assert [snapshot.events for snapshot in after] == [snapshot.events for snapshot in before]


# --- the broker goes and comes back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ALL, ids=str)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param("rolled", marks=pytest.mark.proves("SY-01", "CO-06")),
        pytest.param("killed", marks=pytest.mark.proves("SY-02", "CO-06")),
    ],
)
def test_broker_restart_causes_no_rebalance(house: House, client: Client, how: str) -> None:
    driver = house.driver(client)
    ledger = _ledger(house, driver, 4)
    members = [driver.join(name, GROUP, [TOPIC], session_ms=30_000) for name in ("a", "b")]
    before = wait_for_assignment(members, partitions(TOPIC, 4))
    ids = house.member_ids()
    ledger.produce(10)
    ledger.check_consumed_once(members)
    members[0].commit()

    house.restart(how)

    ledger.produce(10)
    ledger.check_consumed_once(members)
    for member in members:
        member.commit()  # with the generation it has
    _unmoved(before, wait_for_assignment(members, partitions(TOPIC, 4)))
    assert house.member_ids() == ids
    assert house.describe().group_state == "Stable"
    ledger.check_committed()


@pytest.mark.proves("CO-06")
def test_restart_restores_stable_and_empty_groups(tmp_path: Path) -> None:
    """Members have a complete session after a restart, however long the broker was down."""
    clock = ManualClock()

    @closing
    async def before(server: Server) -> None:
        client = await RawClient.connect(server)
        assert await client.create_topic(TOPIC) is Error.NONE
        member = await client.join_alone("stable", session_timeout_ms=10_000)
        assert await client.commit("stable", {(TOPIC, 0): 5}, member.member_id, member.generation) is Error.NONE
        for offset in (1, 2, 3):
            assert await client.commit("empty", {(TOPIC, 0): offset}) is Error.NONE
        clock.advance_ms(9_000)

    @closing
    async def after(server: Server) -> None:
        client = await RawClient.connect(server)

        async def state(group: str) -> tuple[str, int]:
            response = await client.ask(DescribeGroupsRequest([group]), DescribeGroupsResponse)
            return response.groups[0].group_state, len(response.groups[0].members)

        assert await state("stable") == ("Stable", 1)
        assert await state("empty") == ("Empty", 0)
        assert await client.committed("stable", TOPIC, [0]) == [5]
        assert await client.committed("empty", TOPIC, [0]) == [3]
        server.pass_group_time(9_999)
        assert await state("stable") == ("Stable", 1)
        server.pass_group_time(1)
        assert await state("stable") == ("Empty", 0)

    with_server(tmp_path, before, group_clock=clock)
    clock.advance_ms(60_000)
    with_server(tmp_path, after, group_clock=clock)


# --- static members ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("SY-03")
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
def test_static_restarts_do_not_affect_other_members(house: House, is_static: bool) -> None:
    driver = house.driver()
    ledger = _ledger(house, driver, 6)

    def join(driver: Driver, name: str, instance: str) -> Member:
        return driver.join(name, GROUP, [TOPIC], instance=instance if is_static else None, session_ms=60_000)

    live = join(driver, "live", "live")
    members = [live, join(driver, "one", "one"), join(driver, "two", "two")]
    before = wait_for_assignment(members, partitions(TOPIC, 6))
    for bounce in range(2):
        for at, instance in ((1, "one"), (2, "two")):
            members[at].close()
            members[at] = join(driver, f"{instance}-{bounce}", instance)
            wait_for_assignment(members, partitions(TOPIC, 6))
    after = wait_for_assignment(members, partitions(TOPIC, 6))
    revoked = [event for event in live.snapshot().events if event[0] == "revoked"][len(_revoked(before[0])) :]

    if is_static:
        assert revoked == []
        assert live.snapshot().events == before[0].events
        assert {snapshot.generation for snapshot in after} == {before[0].generation}
        assert [snapshot.assignment for snapshot in after] == [snapshot.assignment for snapshot in before]
    else:
        assert revoked
        assert after[0].generation > before[0].generation
    ledger.produce(3)
    ledger.check_consumed_once(members)


def _revoked(snapshot: MemberSnapshot) -> list[tuple[str, frozenset[str]]]:
    return [event for event in snapshot.events if event[0] == "revoked"]


@pytest.mark.proves("SY-04")
@pytest.mark.parametrize("how", ["rolled", "killed"])
def test_static_member_id_survives_broker_restart(house: House, how: str) -> None:
    driver, victim = house.driver(), house.driver()
    ledger = _ledger(house, driver, 4)
    one = driver.join("one", GROUP, [TOPIC], instance="one", session_ms=60_000)
    two = victim.join("two", GROUP, [TOPIC], instance="two", session_ms=60_000)
    before = wait_for_assignment([one, two], partitions(TOPIC, 4))
    old_ids = house.member_ids()
    victim.kill()
    two = driver.join("two", GROUP, [TOPIC], instance="two", session_ms=60_000)
    wait_for_assignment([one, two], partitions(TOPIC, 4))
    new_ids = house.member_ids()
    assert new_ids["two"] != old_ids["two"]
    assert new_ids["one"] == old_ids["one"]

    house.restart(how)

    ledger.produce(5)
    ledger.check_consumed_once([one, two])
    for member in (one, two):
        member.commit()  # nobody is fenced
    after = wait_for_assignment([one, two], partitions(TOPIC, 4))
    assert house.member_ids() == new_ids
    assert [snapshot.generation for snapshot in after] == [snapshot.generation for snapshot in before]
    assert after[0].events == before[0].events
    ledger.check_committed()


@contextmanager
def _static_consumer(house: House, client_id: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": house.broker.address,
            "group.id": GROUP,
            "client.id": client_id,
            "group.instance.id": "the-same",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.mark.proves("SY-05")
def test_newer_static_member_fences_older_one(house: House) -> None:
    _ledger(house, house.driver(), 2)

    def owns_all(consumer: Consumer) -> Callable[[], bool]:
        def polled() -> bool:
            assert not [message.error() for message in consumer.consume(10, 0.05) if message.error()]
            return len(consumer.assignment()) == 2

        return polled

    with _static_consumer(house, "old") as old:
        wait_until(owns_all(old), house.describe)
        (old_id,) = house.member_ids().values()
        with _static_consumer(house, "new") as new:
            wait_until(owns_all(new), house.describe)
            deaths: list[KafkaError] = []

            def old_is_dead() -> bool:
                deaths.extend(error for message in old.consume(10, 0.05) if (error := message.error()) is not None)
                return bool(deaths)

            wait_until(old_is_dead, house.describe)
            assert deaths[0].code() == KafkaError._FATAL
            assert "Static consumer fenced by other consumer with same group.instance.id" in deaths[0].str()
            (new_id,) = house.member_ids().values()
            assert new_id != old_id
            assert owns_all(new)()
    house.broker.stop()  # after which all of its log has been read
    assert house.broker.log.count(f"Stabilized group {GROUP} ") == 1


# --- other assignors, other owners ------------------------------------------------------------------------------------


@pytest.mark.proves("SY-06")
def test_assignor_changes_with_last_rolling_restart(house: House) -> None:
    driver = house.driver()
    _ledger(house, driver, 4)

    def start(name: str, assignor: str) -> Member:
        return driver.join(name, GROUP, [TOPIC], assignor=assignor)

    def shares(*members: Member) -> tuple[str, set[frozenset[str]]]:
        snapshots = wait_for_assignment(members, partitions(TOPIC, 4))
        return house.describe().protocol_data, {snapshot.assignment for snapshot in snapshots}

    by_range = {partitions_of(0, 1), partitions_of(2, 3)}
    by_turns = {partitions_of(0, 2), partitions_of(1, 3)}
    one, two = start("one", "range"), start("two", "range")
    assert shares(one, two) == ("range", by_range)
    one.close()
    one = start("one", "roundrobin,range")
    assert shares(one, two) == ("range", by_range)
    two.close()
    two = start("two", "roundrobin,range")
    assert shares(one, two) == ("roundrobin", by_turns)


def partitions_of(*numbers: int) -> frozenset[str]:
    return frozenset(f"{TOPIC}-{number}" for number in numbers)


@pytest.mark.proves("SY-07")
def test_partitions_of_killed_member_move_in_time(house: House) -> None:
    session_ms = 2_000
    driver, victim = house.driver(), house.driver()
    ledger = _ledger(house, driver, 2)
    survivor = driver.join("one", GROUP, [TOPIC], session_ms=session_ms)
    two = victim.join("two", GROUP, [TOPIC], session_ms=session_ms)
    wait_for_assignment([survivor, two], partitions(TOPIC, 2))
    ledger.produce(5)
    wait_for_records([survivor, two], 10)

    killed = time.monotonic()
    victim.kill()
    wait_for_assignment([survivor], partitions(TOPIC, 2))
    assert time.monotonic() - killed < 2 * session_ms / 1000 + 5
    # Nothing was committed: the new owner reads the partition from its beginning.
    expected = {(partition, offset) for partition in range(2) for offset in range(5)}

    def has_read_all() -> bool:
        return {(record["partition"], record["offset"]) for record in survivor.snapshot().records} == expected

    wait_until(has_read_all, survivor.snapshot)


@pytest.mark.proves("SY-07")
def test_clean_stop_commits_position_without_duplicates(house: House) -> None:
    driver = house.driver()
    ledger = _ledger(house, driver, 2)
    one = driver.join("one", GROUP, [TOPIC])
    two = driver.join("two", GROUP, [TOPIC])
    wait_for_assignment([one, two], partitions(TOPIC, 2))
    ledger.produce(5)
    ledger.check_consumed_once([one, two])
    one.commit()
    two.commit()
    ledger.check_committed()
    before = two.snapshot().records
    two.close()
    wait_for_assignment([one], partitions(TOPIC, 2))
    ledger.produce(5)
    ledger.check_consumed_once([one], before)
    one.commit()
    ledger.check_committed()
