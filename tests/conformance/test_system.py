"""Section 13 of the catalogue with stock clients and a broker process, and CO-06 with broker restarts.

The part of SY-05 about members of the new consumer protocol (section 11) is not tested here.
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


class Cluster:
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

    def restart(self, mode: str) -> None:
        """Stop the broker cleanly or kill it, and start it again."""
        self.broker.stop() if mode == "stopped" else self.broker.kill()
        self.broker = BrokerProcess(self._data, SETTINGS, port=self.broker.port)

    def describe(self, group: str = GROUP) -> DescribedGroup:
        """Return the broker's description of a group."""
        groups: list[DescribedGroup] = []

        @closing
        async def fetch() -> None:
            client = await self.broker.connect()
            groups.extend((await client.request(DescribeGroupsRequest([group]), DescribeGroupsResponse)).groups)

        asyncio.run(fetch())
        return groups[0]

    def committed(self, count: int) -> list[int]:
        """Return the committed offsets of the group."""
        offsets: list[int] = []

        @closing
        async def fetch() -> None:
            offsets.extend(await (await self.broker.connect()).committed(GROUP, TOPIC, range(count)))

        asyncio.run(fetch())
        return offsets

    def member_ids(self) -> dict[str | None, str]:
        """Return member ids by instance id."""
        return {member.group_instance_id: member.member_id for member in self.describe().members}

    def close(self) -> None:
        for driver in self._drivers:
            driver.stop()
        self.broker.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    try:
        yield running
        assert "Traceback" not in running.broker.log, running.broker.log[-4000:]
    finally:
        running.close()


@dataclass
class RecordCheck:
    """The produced records, to compare with the processed ones."""

    cluster: Cluster
    driver: Driver
    partition_count: int
    records_per_partition: int = 0

    def produce(self, records_per_partition: int) -> None:
        """Produce more records to every partition."""
        records = [
            {"partition": number, "value": "x"}
            for number in range(self.partition_count)
            for _ in range(records_per_partition)
        ]
        self.driver.produce(TOPIC, records)
        self.records_per_partition += records_per_partition

    def check_consumed_once(self, members: Sequence[Member], before: Sequence[Record] = ()) -> None:
        """Wait until every record is processed; check that each is processed once."""
        records = [*before, *wait_for_records(members, self.partition_count * self.records_per_partition - len(before))]
        consumed = sorted((record["partition"], record["offset"]) for record in records)
        assert consumed == [
            (partition, offset)
            for partition in range(self.partition_count)
            for offset in range(self.records_per_partition)
        ]

    def check_committed(self) -> None:
        """Check that the committed offsets are the end offsets."""
        assert self.cluster.committed(self.partition_count) == [self.records_per_partition] * self.partition_count


def _record_check(cluster: Cluster, driver: Driver, count: int) -> RecordCheck:
    driver.create_topic(TOPIC, count)
    return RecordCheck(cluster, driver, count)


def _check_no_rebalance(before: Sequence[MemberSnapshot], after: Sequence[MemberSnapshot]) -> None:
    """Check that there was no rebalance: same generation, same partitions, no callback."""
    assert [snapshot.generation for snapshot in after] == [snapshot.generation for snapshot in before]
    assert [snapshot.assignment for snapshot in after] == [snapshot.assignment for snapshot in before]
    assert [snapshot.events for snapshot in after] == [snapshot.events for snapshot in before]


# --- broker restarts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ALL, ids=str)
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("stopped", marks=pytest.mark.proves("SY-01", "CO-06")),
        pytest.param("killed", marks=pytest.mark.proves("SY-02", "CO-06")),
    ],
)
def test_broker_restart_causes_no_rebalance(cluster: Cluster, client: Client, mode: str) -> None:
    driver = cluster.driver(client)
    record_check = _record_check(cluster, driver, 4)
    members = [driver.join(name, GROUP, [TOPIC], session_ms=30_000) for name in ("a", "b")]
    before = wait_for_assignment(members, partitions(TOPIC, 4))
    ids = cluster.member_ids()
    record_check.produce(10)
    record_check.check_consumed_once(members)
    members[0].commit()

    cluster.restart(mode)

    record_check.produce(10)
    record_check.check_consumed_once(members)
    for member in members:
        member.commit()  # with the generation that it had before the restart
    _check_no_rebalance(before, wait_for_assignment(members, partitions(TOPIC, 4)))
    assert cluster.member_ids() == ids
    assert cluster.describe().group_state == "Stable"
    record_check.check_committed()


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
            response = await client.request(DescribeGroupsRequest([group]), DescribeGroupsResponse)
            return response.groups[0].group_state, len(response.groups[0].members)

        assert await state("stable") == ("Stable", 1)
        assert await state("empty") == ("Empty", 0)
        assert await client.committed("stable", TOPIC, [0]) == [5]
        assert await client.committed("empty", TOPIC, [0]) == [3]
        server.advance_group_clock(9_999)
        assert await state("stable") == ("Stable", 1)
        server.advance_group_clock(1)
        assert await state("stable") == ("Empty", 0)

    with_server(tmp_path, before, group_clock=clock)
    clock.advance_ms(60_000)
    with_server(tmp_path, after, group_clock=clock)


# --- static members ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("SY-03")
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
def test_static_restarts_do_not_affect_other_members(cluster: Cluster, is_static: bool) -> None:
    driver = cluster.driver()
    record_check = _record_check(cluster, driver, 6)

    def join(driver: Driver, name: str, instance: str) -> Member:
        return driver.join(name, GROUP, [TOPIC], instance=instance if is_static else None, session_ms=60_000)

    live = join(driver, "live", "live")
    members = [live, join(driver, "one", "one"), join(driver, "two", "two")]
    before = wait_for_assignment(members, partitions(TOPIC, 6))
    for restart in range(2):
        for index, instance in ((1, "one"), (2, "two")):
            members[index].close()
            members[index] = join(driver, f"{instance}-{restart}", instance)
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
    record_check.produce(3)
    record_check.check_consumed_once(members)


def _revoked(snapshot: MemberSnapshot) -> list[tuple[str, frozenset[str]]]:
    return [event for event in snapshot.events if event[0] == "revoked"]


@pytest.mark.proves("SY-04")
@pytest.mark.parametrize("mode", ["stopped", "killed"])
def test_static_member_id_survives_broker_restart(cluster: Cluster, mode: str) -> None:
    driver, killed_driver = cluster.driver(), cluster.driver()
    record_check = _record_check(cluster, driver, 4)
    first = driver.join("one", GROUP, [TOPIC], instance="one", session_ms=60_000)
    second = killed_driver.join("two", GROUP, [TOPIC], instance="two", session_ms=60_000)
    before = wait_for_assignment([first, second], partitions(TOPIC, 4))
    old_ids = cluster.member_ids()
    killed_driver.kill()
    second = driver.join("two", GROUP, [TOPIC], instance="two", session_ms=60_000)
    wait_for_assignment([first, second], partitions(TOPIC, 4))
    new_ids = cluster.member_ids()
    assert new_ids["two"] != old_ids["two"]
    assert new_ids["one"] == old_ids["one"]

    cluster.restart(mode)

    record_check.produce(5)
    record_check.check_consumed_once([first, second])
    for member in (first, second):
        member.commit()  # no member is fenced
    after = wait_for_assignment([first, second], partitions(TOPIC, 4))
    assert cluster.member_ids() == new_ids
    assert [snapshot.generation for snapshot in after] == [snapshot.generation for snapshot in before]
    assert after[0].events == before[0].events
    record_check.check_committed()


@contextmanager
def _static_consumer(cluster: Cluster, client_id: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.broker.address,
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
def test_newer_static_member_fences_older_one(cluster: Cluster) -> None:
    _record_check(cluster, cluster.driver(), 2)

    def owns_all(consumer: Consumer) -> Callable[[], bool]:
        def polled() -> bool:
            assert not [message.error() for message in consumer.consume(10, 0.05) if message.error()]
            return len(consumer.assignment()) == 2

        return polled

    with _static_consumer(cluster, "old") as old:
        wait_until(owns_all(old), cluster.describe)
        (old_id,) = cluster.member_ids().values()
        with _static_consumer(cluster, "new") as new:
            wait_until(owns_all(new), cluster.describe)
            errors: list[KafkaError] = []

            def old_is_fenced() -> bool:
                errors.extend(error for message in old.consume(10, 0.05) if (error := message.error()) is not None)
                return bool(errors)

            wait_until(old_is_fenced, cluster.describe)
            assert errors[0].code() == KafkaError._FATAL
            assert "Static consumer fenced by other consumer with same group.instance.id" in errors[0].str()
            (new_id,) = cluster.member_ids().values()
            assert new_id != old_id
            assert owns_all(new)()
    cluster.broker.stop()  # the log is complete after the stop
    assert cluster.broker.log.count(f"Stabilized group {GROUP} ") == 1


# --- assignor changes and failed members ------------------------------------------------------------------------------


@pytest.mark.proves("SY-06")
def test_assignor_changes_with_last_rolling_restart(cluster: Cluster) -> None:
    driver = cluster.driver()
    _record_check(cluster, driver, 4)

    def start(name: str, assignor: str) -> Member:
        return driver.join(name, GROUP, [TOPIC], assignor=assignor)

    def shares(*members: Member) -> tuple[str, set[frozenset[str]]]:
        snapshots = wait_for_assignment(members, partitions(TOPIC, 4))
        return cluster.describe().protocol_data, {snapshot.assignment for snapshot in snapshots}

    by_range = {partitions_of(0, 1), partitions_of(2, 3)}
    by_round_robin = {partitions_of(0, 2), partitions_of(1, 3)}
    first, second = start("one", "range"), start("two", "range")
    assert shares(first, second) == ("range", by_range)
    first.close()
    first = start("one", "roundrobin,range")
    assert shares(first, second) == ("range", by_range)
    second.close()
    second = start("two", "roundrobin,range")
    assert shares(first, second) == ("roundrobin", by_round_robin)


def partitions_of(*numbers: int) -> frozenset[str]:
    return frozenset(f"{TOPIC}-{number}" for number in numbers)


@pytest.mark.proves("SY-07")
def test_partitions_of_killed_member_move_in_time(cluster: Cluster) -> None:
    session_ms = 2_000
    driver, killed_driver = cluster.driver(), cluster.driver()
    record_check = _record_check(cluster, driver, 2)
    survivor = driver.join("one", GROUP, [TOPIC], session_ms=session_ms)
    killed_member = killed_driver.join("two", GROUP, [TOPIC], session_ms=session_ms)
    wait_for_assignment([survivor, killed_member], partitions(TOPIC, 2))
    record_check.produce(5)
    wait_for_records([survivor, killed_member], 10)

    killed = time.monotonic()
    killed_driver.kill()
    wait_for_assignment([survivor], partitions(TOPIC, 2))
    assert time.monotonic() - killed < 2 * session_ms / 1000 + 5
    # No offset was committed: the new owner reads the partition from the beginning.
    expected = {(partition, offset) for partition in range(2) for offset in range(5)}

    def has_read_all() -> bool:
        return {(record["partition"], record["offset"]) for record in survivor.snapshot().records} == expected

    wait_until(has_read_all, survivor.snapshot)


@pytest.mark.proves("SY-07")
def test_clean_stop_commits_position_without_duplicates(cluster: Cluster) -> None:
    driver = cluster.driver()
    record_check = _record_check(cluster, driver, 2)
    first = driver.join("one", GROUP, [TOPIC])
    second = driver.join("two", GROUP, [TOPIC])
    wait_for_assignment([first, second], partitions(TOPIC, 2))
    record_check.produce(5)
    record_check.check_consumed_once([first, second])
    first.commit()
    second.commit()
    record_check.check_committed()
    before = second.snapshot().records
    second.close()
    wait_for_assignment([first], partitions(TOPIC, 2))
    record_check.produce(5)
    record_check.check_consumed_once([first], before)
    first.commit()
    record_check.check_committed()
