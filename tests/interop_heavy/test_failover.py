"""Our clients on an Apache Kafka cluster of two brokers that are killed in turn, so that coordinator and leaders move.

A producer writes continuously, and two consumers of a group read and commit. The broker that coordinates the group is
killed with SIGKILL. When it returns, it becomes the preferred leader of its partitions again, which changes leaders
without a failure. Then the current coordinator is killed. No record may be lost or duplicated, no committed offset may
decrease, and no consumer may lose its membership.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from scripts.apache_kafka import KAFKA, OLD_KAFKA, Cluster, apache_kafka, missing

from slackwater import Admin, Consumer, Producer
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.network.cluster import TopicMetadata
from slackwater.group.errors import SlackwaterError
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from tests.waiting import wait_until

SECONDS: Final = 120.0
PARTITIONS: Final = 4
KILLS: Final = 2
NEW_RECORDS: Final = 200  # records that must be read after each change
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "min.insync.replicas": 1,
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 3_000,
    "leader.imbalance.check.interval.seconds": 2,
    "leader.imbalance.per.broker.percentage": 0,
    "replica.lag.time.max.ms": 5_000,
}


@pytest.fixture(scope="module", params=[KAFKA, OLD_KAFKA])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two brokers and a controller."""
    if reason := missing(request.param):
        pytest.skip(reason)
    with apache_kafka(request.param, brokers=2, settings=SETTINGS) as running:
        yield running


class Writer:
    """Writes increasing numbers, each of them once, until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.acknowledged = 0
        self.errors: list[BaseException] = []
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True})
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._done.wait(0.002):
            try:
                self._producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS).result(SECONDS)
            except SlackwaterError as error:
                self.errors.append(error)
                return
            number += 1
            self.acknowledged = number

    def stop(self) -> None:
        """Stop writing and fail if a write failed."""
        self._done.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        self._producer.close()
        assert not self.errors


class Reader:
    """A member that commits after every poll."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        self.records: list[ConsumerRecord] = []
        self.events: list[EventKind] = []
        self.errors: list[BaseException] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self.consumer.on_event(lambda event: self.events.append(event.kind))
        self.consumer.subscribe([topic])
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._done.is_set():
                records = self.consumer.poll(0.1)
                self.records += records
                if records:
                    self.consumer.commit(timeout=SECONDS)
        except BaseException as error:
            self.errors.append(error)

    def stop(self) -> None:
        """Leave the group."""
        self._done.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        self.consumer.close()

    @property
    def membership(self) -> tuple[int, str]:
        """Generation and member id."""
        metadata = self.consumer.group_metadata()
        return metadata.generation_id, metadata.member_id


class CommitWatch:
    """Reads the group's committed offsets; they may not decrease."""

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin = admin
        self._group = group
        self.committed: dict[TopicPartition, int] = {}

    def check(self) -> None:
        """Read the offsets once."""
        for partition, commit in self._admin.committed(self._group).items():
            assert commit.offset >= self.committed.get(partition, 0), f"the offset of {partition} went back"
            self.committed[partition] = commit.offset


class FailoverScenario:
    """The cluster, its topic and group, and their clients."""

    def __init__(self, cluster: Cluster, stack: ExitStack, topic: str, group: str) -> None:
        servers = cluster.bootstrap_servers
        self.cluster, self.topic, self.group = cluster, topic, group
        self.admin = stack.enter_context(Admin({"bootstrap.servers": servers}))
        self.admin.create_topic(topic, PARTITIONS, replication_factor=2)
        self.wait_for("both brokers lead", lambda: len(self.leaders()) == PARTITIONS and set(self.leaders()) == {1, 2})
        self.readers = [Reader(servers, group, topic) for _ in range(2)]
        for reader in self.readers:
            stack.callback(reader.stop)
        self.wait_for(
            "two partitions for each reader",
            lambda: [len(reader.consumer.assignment) for reader in self.readers] == [2, 2],
        )
        self.writer = Writer(servers, topic)
        stack.callback(self.writer.stop)
        self.watch = CommitWatch(self.admin, group)

    def wait_for(self, what: str, condition: Callable[[], object]) -> None:
        """Wait for the condition; fail if a reader or the writer has failed."""

        def holds() -> object:
            clients = (*self.__dict__.get("readers", ()), *self._writers())
            errors = [error for client in clients for error in client.errors]
            assert not errors, errors
            try:
                return condition()
            except SlackwaterError:
                return False  # the cluster is between two states

        wait_until(holds, lambda: f"{what}; leaders {self.leaders()}", SECONDS)

    def _writers(self) -> list[Writer]:
        return [self.writer] if "writer" in self.__dict__ else []

    def describe_topic(self) -> TopicMetadata:
        """Describe the topic."""
        (description,) = self.admin.describe_topics([self.topic])
        return description

    def leaders(self) -> list[int]:
        """The leader of each partition."""
        return [partition.leader for partition in self.describe_topic().partitions]

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        (description,) = self.admin.describe_groups([self.group])
        assert description.coordinator is not None
        return description.coordinator.node_id

    def wait_for_progress(self) -> None:
        """Wait until records that are written from now on are read and committed."""
        start = self.writer.acknowledged

        def all_read() -> bool:
            self.watch.check()
            read = {int(record.value or b"-1") for reader in self.readers for record in reader.records}
            return self.writer.acknowledged >= start + NEW_RECORDS and read >= set(range(start + NEW_RECORDS))

        self.wait_for("records after the change", all_read)
        committed = sum(self.watch.committed.values())

        def committed_more() -> bool:
            self.watch.check()
            return sum(self.watch.committed.values()) > committed

        self.wait_for("commits after the change", committed_more)

    def in_sync(self) -> bool:
        """Whether every partition has both replicas."""
        (offsets_topic,) = self.admin.describe_topics(["__consumer_offsets"])
        partitions = (*self.describe_topic().partitions, *offsets_topic.partitions)
        return all(len(partition.isr) == 2 for partition in partitions)


def test_group_survives_coordinator_and_leader_failover(cluster: Cluster) -> None:
    with ExitStack() as stack:
        scenario = FailoverScenario(cluster, stack, "failover", "failover-group")
        scenario.wait_for_progress()
        memberships = [reader.membership for reader in scenario.readers]
        for _ in range(KILLS):
            scenario.wait_for("replicas in sync", scenario.in_sync)
            killed = scenario.coordinator()
            cluster.brokers[killed].kill()
            scenario.wait_for("the other leads", lambda: killed not in scenario.leaders())  # noqa: B023
            scenario.wait_for("the other coordinates", lambda: scenario.coordinator() != killed)  # noqa: B023
            scenario.wait_for_progress()
            cluster.brokers[killed].start()
            cluster.brokers[killed].wait_until_up()
            # The preferred leader is elected again once it has caught up, while the current leader is running.
            scenario.wait_for("both lead again", lambda: set(scenario.leaders()) == {1, 2})
            scenario.wait_for_progress()
        assert [reader.membership for reader in scenario.readers] == memberships
        scenario.writer.stop()
        count = scenario.writer.acknowledged
        scenario.wait_for("all records read", lambda: sum(len(reader.records) for reader in scenario.readers) >= count)
        scenario.wait_for("all records committed", lambda: _committed_count(scenario) == count)
    values = Counter(int(record.value or b"-1") for reader in scenario.readers for record in reader.records)
    assert values == Counter(range(count))
    for reader in scenario.readers:
        assert EventKind.PARTITIONS_LOST not in reader.events
        assert EventKind.COORDINATOR_LOST in reader.events


def _committed_count(scenario: FailoverScenario) -> int:
    scenario.watch.check()
    return sum(scenario.watch.committed.values())
