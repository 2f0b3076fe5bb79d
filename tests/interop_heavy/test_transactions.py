"""Transactions on Apache Kafka 4.3.1, while copiers and the broker are killed, and the transaction version changes."""

import random
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from scripts.apache_kafka import apache_kafka, jars

from slackwater import Producer
from tests.client.clusters import KAFKA_SETTINGS, ClusterUnderTest
from tests.client.helpers import fill, numbers, wait_for
from tests.client.producer.copier import CopierProcess, committed_count, committed_values
from tests.interop_heavy.restartable_brokers import APACHE, started_broker
from tests.java import SMALL_JVM, require_jars
from tests.waiting import wait_until

PARTITIONS: Final = 6
PER_PARTITION: Final = 1_000
COPIERS: Final = 3
KILLS: Final = 8
SECONDS: Final = 240.0

pytestmark = pytest.mark.java


def run_tool(tool: str, *arguments: str) -> str:
    """Run a tool of Apache Kafka and return its output."""
    require_jars()
    command = ["java", *SMALL_JVM, "-cp", f"{jars()}/*", f"org.apache.kafka.tools.{tool}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout


def test_copy_is_exactly_once_under_kills_and_restarts(tmp_path: Path) -> None:
    choose = random.Random(11)
    total = PARTITIONS * PER_PARTITION
    with started_broker(APACHE, tmp_path) as broker, ExitStack() as stack:
        cluster = ClusterUnderTest(broker.bootstrap)
        stack.enter_context(cluster.admin)
        source, target, group = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS), "copiers"
        for number in range(PARTITIONS):
            fill(cluster, source, numbers(PER_PARTITION), partition=number)
        arguments = (broker.bootstrap, group, source, target)
        copiers = [CopierProcess(stack, *arguments, f"copier-{number}") for number in range(COPIERS)]
        for kill in range(1, KILLS + 1):
            wait_until_copied(cluster, group, total * kill // (KILLS + 2))
            if kill % 4 == 0:
                broker.restart(clean=kill % 8 == 0)
                continue
            number = choose.randrange(COPIERS)
            copiers[number].kill()
            copiers[number] = CopierProcess(stack, *arguments, f"copier-{number}")
        wait_until_copied(cluster, group, total)
        wait_for(lambda: committed_count(cluster, target, PARTITIONS) >= total, "the end of the last transactions")
        expected_values = {number: numbers(PER_PARTITION) for number in range(PARTITIONS)}
        assert committed_values(cluster, target, PARTITIONS) == expected_values


def wait_until_copied(cluster: ClusterUnderTest, group: str, count: int) -> None:
    """Wait until the group has committed the offsets of this many records."""
    wait_until(
        lambda: sum(position.offset for position in cluster.admin.committed(group).values()) >= count,
        lambda: f"{count} copied records",
        SECONDS,
    )


def test_transaction_version_is_upgraded_while_producing() -> None:
    with apache_kafka(settings=KAFKA_SETTINGS) as running:
        servers = running.bootstrap_servers
        feature = ("FeatureCommand", "--bootstrap-server", servers)
        run_tool(*feature, "downgrade", "--feature", "transaction.version=1")
        cluster = ClusterUnderTest(servers)
        settings = {"bootstrap.servers": servers, "transactional.id": "x", "connections.max.idle.ms": 200}
        with cluster.admin, Producer(settings) as producer:
            topic = cluster.topic()
            producer.init_transactions()
            values = iter(numbers(10_000))
            written: list[bytes] = []

            def run_transactions(count: int) -> None:
                for _ in range(count):
                    with producer.transaction():
                        written.append(value := next(values))
                        producer.send(topic, value)

            run_transactions(5)
            run_tool(*feature, "upgrade", "--feature", "transaction.version=2")
            run_transactions(5)  # idle connections were closed meanwhile: the new ones know of the upgrade
            run_tool(*feature, "downgrade", "--feature", "transaction.version=1")
            run_transactions(5)
            wait_for(lambda: committed_values(cluster, topic) == {0: written})


def test_java_console_consumer_reads_committed() -> None:
    with apache_kafka(settings=KAFKA_SETTINGS) as running:
        cluster = ClusterUnderTest(running.bootstrap_servers)
        with (
            cluster.admin,
            Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "x"}) as producer,
        ):
            topic = cluster.topic()
            producer.init_transactions()
            for value in numbers(6):
                producer.begin_transaction()
                producer.send(topic, value)
                if int(value) % 2:
                    producer.commit_transaction()
                else:
                    producer.flush()
                    producer.abort_transaction()
            output = run_tool(
                "consumer.ConsoleConsumer",
                *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--from-beginning"),
                *("--isolation-level", "read_committed", "--timeout-ms", "10000"),
            )
    assert [line for line in output.splitlines() if line.isdigit()] == ["1", "3", "5"]
