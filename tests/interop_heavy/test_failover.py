"""Our clients on an Apache Kafka of two brokers, of which one or the other dies: coordinator and leaders move.

A producer writes all the time, and two consumers of a group read and commit. The broker that coordinates the group, and
leads partitions of the topic, is killed with SIGKILL. It comes back and leads its partitions again: that is a change of
leader in which nobody died. Then whoever coordinates is killed once more. All the time no record may be lost or come
twice, no committed offset may go back, and nobody may lose its place in the group.
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
DEATHS: Final = 2
MORE: Final = 200  # records that must come through after each change
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
    with apache_kafka(request.param, brokers=2, settings=SETTINGS) as found:
        yield found


class Writer:
    """Writes numbers, each of them once, until it is stopped."""

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
        """Write no more; every record that was acknowledged counts."""
        self._done.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        self._producer.close()
        assert not self.errors


class Reader:
    """A member that commits what it has read, after every poll."""

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
                found = self.consumer.poll(0.1)
                self.records += found
                if found:
                    self.consumer.commit(timeout=SECONDS)
        except BaseException as error:
            self.errors.append(error)

    def stop(self) -> None:
        """Leave."""
        self._done.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        self.consumer.close()

    @property
    def place(self) -> tuple[int, str]:
        """Generation and member id."""
        metadata = self.consumer.group_metadata()
        return metadata.generation_id, metadata.member_id


class Watch:
    """Looks at the group's committed offsets; they may not go back."""

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin = admin
        self._group = group
        self.committed: dict[TopicPartition, int] = {}

    def look(self) -> None:
        """Look once."""
        for partition, at in self._admin.committed(self._group).items():
            assert at.offset >= self.committed.get(partition, 0), f"the offset of {partition} went back"
            self.committed[partition] = at.offset


class Story:
    """Everybody who takes part."""

    def __init__(self, cluster: Cluster, stack: ExitStack, topic: str, group: str) -> None:
        servers = cluster.bootstrap_servers
        self.cluster, self.topic, self.group = cluster, topic, group
        self.admin = stack.enter_context(Admin({"bootstrap.servers": servers}))
        self.admin.create_topic(topic, PARTITIONS, replication_factor=2)
        self.until("both brokers lead", lambda: len(self.leaders()) == PARTITIONS and set(self.leaders()) == {1, 2})
        self.readers = [Reader(servers, group, topic) for _ in range(2)]
        for reader in self.readers:
            stack.callback(reader.stop)
        self.until("everybody has two", lambda: [len(one.consumer.assignment) for one in self.readers] == [2, 2])
        self.writer = Writer(servers, topic)
        stack.callback(self.writer.stop)
        self.watch = Watch(self.admin, group)

    def until(self, what: str, condition: Callable[[], object]) -> None:
        """Wait; a reader or writer that has failed ends it."""

        def holds() -> object:
            errors = [error for one in (*self.__dict__.get("readers", ()), *self._writers()) for error in one.errors]
            assert not errors, errors
            try:
                return condition()
            except SlackwaterError:
                return False  # the cluster is between two states

        wait_until(holds, lambda: f"{what}; leaders {self.leaders()}", SECONDS)

    def _writers(self) -> list[Writer]:
        return [self.writer] if "writer" in self.__dict__ else []

    def described(self) -> TopicMetadata:
        """The topic."""
        (found,) = self.admin.describe_topics([self.topic])
        return found

    def leaders(self) -> list[int]:
        """The leader of each partition."""
        return [one.leader for one in self.described().partitions]

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        (found,) = self.admin.describe_groups([self.group])
        assert found.coordinator is not None
        return found.coordinator.node_id

    def goes_on(self) -> None:
        """Records come through, and commits land, that were made from now on."""
        start = self.writer.acknowledged

        def through() -> bool:
            self.watch.look()
            read = {int(record.value or b"-1") for one in self.readers for record in one.records}
            return self.writer.acknowledged >= start + MORE and read >= set(range(start + MORE))

        self.until("records after the change", through)
        committed = sum(self.watch.committed.values())

        def committed_more() -> bool:
            self.watch.look()
            return sum(self.watch.committed.values()) > committed

        self.until("commits after the change", committed_more)

    def in_sync(self) -> bool:
        """Whether every partition has both replicas."""
        return all(len(one.isr) == 2 for one in self.described().partitions) and all(
            len(one.isr) == 2 for one in self.admin.describe_topics(["__consumer_offsets"])[0].partitions
        )


def test_group_survives_coordinator_and_leader_failover(cluster: Cluster) -> None:
    with ExitStack() as stack:
        story = Story(cluster, stack, "failover", "failover-group")
        story.goes_on()
        places = [reader.place for reader in story.readers]
        for _ in range(DEATHS):
            story.until("replicas in sync", story.in_sync)
            dying = story.coordinator()
            cluster.brokers[dying].kill()
            story.until("the other leads", lambda: dying not in story.leaders())  # noqa: B023
            story.until("the other coordinates", lambda: story.coordinator() != dying)  # noqa: B023
            story.goes_on()
            cluster.brokers[dying].start()
            cluster.brokers[dying].wait_until_up()
            # The preferred leader is elected again as soon as it has caught up, and the old one lives.
            story.until("both lead again", lambda: set(story.leaders()) == {1, 2})
            story.goes_on()
        assert [reader.place for reader in story.readers] == places
        story.writer.stop()
        wanted = story.writer.acknowledged
        story.until("all_partitions is read", lambda: sum(len(one.records) for one in story.readers) >= wanted)
        story.until("all_partitions is committed", lambda: _ends(story) == wanted)
    values = Counter(int(record.value or b"-1") for one in story.readers for record in one.records)
    assert values == Counter(range(wanted))
    for reader in story.readers:
        assert EventKind.PARTITIONS_LOST not in reader.events
        assert EventKind.COORDINATOR_LOST in reader.events


def _ends(story: Story) -> int:
    story.watch.look()
    return sum(story.watch.committed.values())
