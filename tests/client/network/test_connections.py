"""Reconnecting to brokers, idle connections, and cleanup."""

import contextlib
import gc
import os
import socket
import threading
import time
import tracemalloc
import weakref

import pytest

from slackwater import Admin, Broker, Consumer, Producer
from slackwater.client.network.cluster import COORDINATOR, DATA
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import QUICK, TIMEOUT_S, consumer, fill, numbers, poll_until, read, wait_for


def unused_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def sockets() -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return count


@pytest.mark.old_kafka
def test_dead_bootstrap_server_does_not_block_others(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    fill(cluster, topic, numbers(3))
    servers = f"{unused_address()},{cluster.bootstrap_servers},{unused_address()}"
    with consumer(cluster, group, bootstrap_servers=servers) as client:
        client.subscribe([topic])
        assert len(read(client, 3)) == 3
    with Producer({"bootstrap.servers": servers}) as producer:
        producer.send(topic, b"v").result(TIMEOUT_S)


@pytest.mark.old_kafka
def test_coordinator_has_its_own_connection(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    fill(cluster, topic, numbers(1))
    with consumer(cluster, group) as client:
        client.subscribe([topic])
        read(client, 1)
        connections = {purpose: connection for (_, _, purpose), connection in client.engine.cluster.connections.items()}
        assert connections.keys() == {DATA, COORDINATOR}
        # Other requests never share the coordinator connection, where a JoinGroup may block them.
        assert client.engine.network.run(client.engine.cluster.any_connection()) is connections[DATA]
        client.engine.network.call_soon(connections[DATA].close)
        wait_for(lambda: not connections[DATA].is_open)
        assert client.engine.network.run(client.engine.cluster.any_connection()) is not connections[COORDINATOR]


def test_restarted_broker_loses_and_duplicates_nothing(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(5))
    with consumer(kafka, "g") as client:
        client.subscribe(["t"])
        records = read(client, 5)
        generation = client.group_metadata().generation_id
        for turn in range(2):
            kafka.restart(clean=turn == 0)
            fill(kafka, "t", numbers(5, 5 + 5 * turn))
            records += read(client, 5)
        assert [record.value for record in records] == numbers(15)
        client.commit()
        assert client.group_metadata().generation_id == generation  # a restart is no rebalance


def test_broker_that_starts_late_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Consumer(
        QUICK | {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", "allow.auto.create.topics": False}
    ) as client:
        client.subscribe(["t"])
        assert client.poll(0.1) == []
        with Broker(port=port, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
            broker.create_topic("t", 1)
            fill(broker, "t", numbers(1))
            assert len(read(client, 1)) == 1
            client.close()


@pytest.mark.parametrize("api", ["Fetch", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "Metadata"])
def test_request_is_retried_after_disconnect(kafka: Kafka, api: str) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(3))
    kafka.drop(api, times=2)
    with consumer(kafka, "g") as client:
        client.subscribe(["t"])
        assert [record.value for record in read(client, 3)] == numbers(3)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        ("ListOffsets", "LEADER_NOT_AVAILABLE"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("Heartbeat", "NOT_COORDINATOR"),
    ],
)
def test_retriable_fetch_errors_are_survived(kafka: Kafka, api: str, error: str) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(3))
    kafka.fail(api, error, times=2)
    with consumer(kafka, "g") as client:
        client.subscribe(["t"])
        assert [record.value for record in read(client, 3)] == numbers(3)


def test_request_timeout_closes_connection(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(2))
    with consumer(kafka, request_timeout_ms=300) as client:
        client.assign([TopicPartition("t", 0)])
        read(client, 2)
        before = set(map(id, client.engine.cluster.connections.values()))
        fault = kafka.delay("Fetch", 30.0)
        poll_until(client, lambda: not before & set(map(id, client.engine.cluster.connections.values())))
        assert fault
        fill(kafka, "t", numbers(1, 2))
        assert [record.value for record in read(client, 1)] == [b"2"]


@pytest.mark.old_kafka
def test_recreated_topic_is_read_from_its_start(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(5))
    with (
        consumer(cluster, allow_auto_create_topics=False) as client,
        Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin,
    ):
        client.assign([TopicPartition(topic, 0)])
        read(client, 5)
        admin.delete_topic(topic)
        assert client.poll(0.1) == []
        wait_for(lambda: topic not in {listed.name for listed in admin.list_topics()})
        cluster.create_topic(topic, 1)
        fill(cluster, topic, numbers(2, 100))
        assert [record.value for record in read(client, 2)] == numbers(2, 100)


@pytest.mark.old_kafka
def test_pattern_finds_topics_created_later(cluster: ClusterUnderTest) -> None:
    orders = cluster.name("orders")
    cluster.create_topic(f"{orders}-1", 1)
    with consumer(cluster, cluster.name("g"), metadata_max_age_ms=50) as client:
        client.subscribe(pattern=f"{orders}-.*")
        poll_until(client, lambda: client.assignment)
        cluster.create_topic(f"{orders}-2", 2)
        cluster.topic(1, "bills")
        poll_until(client, lambda: len(client.assignment) == 3)
        assert client.subscription == {f"{orders}-1", f"{orders}-2"}


@pytest.mark.old_kafka
def test_new_partitions_of_a_topic_are_found_and_read(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group, metadata_max_age_ms=50) as client:
        events: list[EventKind] = []
        client.on_event(lambda event: events.append(event.kind))
        client.subscribe([topic])
        poll_until(client, lambda: len(client.assignment) == 1)
        with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            admin.add_partitions(topic, 2)
        poll_until(client, lambda: len(client.assignment) == 2)


def test_idle_connections_are_closed_and_reopened(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(1))
    with consumer(cluster, connections_max_idle_ms=200) as client:
        client.assign([TopicPartition(topic, 0)])
        read(client, 1)
        client.pause(client.assignment)
        wait_for(lambda: not client.engine.cluster.connections)
        client.resume(client.assignment)
        fill(cluster, topic, numbers(1, 1))
        assert [record.value for record in read(client, 1)] == [b"1"]


def test_wakeup_ends_poll(cluster: ClusterUnderTest) -> None:
    from slackwater.group.member import Wakeup

    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        timer = threading.Timer(0.05, client.wakeup)
        timer.start()
        started = time.monotonic()
        with pytest.raises(Wakeup):
            client.poll(60.0)
        assert time.monotonic() - started < 50
        timer.join()


def test_closed_consumer_leaves_nothing_behind(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    fill(cluster, topic, numbers(10))

    def use_and_close() -> "weakref.ref[Consumer]":
        with consumer(cluster, group) as client:
            client.subscribe([topic])
            read(client, 10)
            client.seek_to_beginning()
            client.commit({TopicPartition(topic, 0): 0})
            client.unsubscribe()
        return weakref.ref(client)

    use_and_close()
    threads, open_sockets = set(threading.enumerate()), sockets()
    references = [use_and_close() for _ in range(3)]
    wait_for(lambda: sockets() <= open_sockets, "closing the sockets")
    assert set(threading.enumerate()) <= threads
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


MAX_GROWTH_BYTES = 40 * 200  # less than an object per rebalance


def test_rebalances_leak_no_memory(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(2), cluster.name("g")
    with consumer(cluster, group) as client:
        client.subscribe([topic])

        def rebalance(times: int) -> None:
            for _ in range(times):
                before = client.group_metadata().generation_id
                client.enforce_rebalance()
                poll_until(client, lambda: generation() > before and client.assignment)  # noqa: B023

        def generation() -> int:
            return client.group_metadata().generation_id

        def growth() -> int:
            before = snapshot()
            rebalance(40)
            return sum(line.size_diff for line in snapshot().compare_to(before, "filename"))

        def snapshot() -> tracemalloc.Snapshot:
            gc.collect()
            filters = [tracemalloc.Filter(True, "*/slackwater/client/*"), tracemalloc.Filter(True, "*/group/member/*")]
            return tracemalloc.take_snapshot().filter_traces(filters)

        poll_until(client, lambda: client.assignment)
        tracemalloc.start()
        try:
            rebalance(20)
            # Memory that is kept per rebalance grows in every round; temporary memory does not.
            rounds: list[int] = []
            while len(rounds) < 8 and min(rounds, default=MAX_GROWTH_BYTES) >= MAX_GROWTH_BYTES:
                rounds.append(growth())
        finally:
            tracemalloc.stop()
        assert min(rounds) < MAX_GROWTH_BYTES, rounds
