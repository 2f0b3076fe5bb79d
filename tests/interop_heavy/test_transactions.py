"""Transactions while copiers and brokers are killed, and while the transaction version changes.

Kafka's own test of transactions in group mode runs with our copiers and with Java's on our broker, and with ours on
Apache Kafka.
"""

import os
import random
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from scripts.apache_kafka import apache_kafka, jars

from slackwater import Producer
from tests.client.clusters import KAFKA_SETTINGS, ClusterUnderTest
from tests.client.helpers import fill, numbers, wait_for
from tests.client.producer.copier import CopierProcess, committed_count, committed_values
from tests.interop_heavy.restartable_brokers import APACHE, SLACKWATER, started_broker
from tests.java import SMALL_JVM, require_jars
from tests.waiting import wait_until

PARTITIONS: Final = 9
PER_PARTITION: Final = -(-int(os.environ.get("SLACKWATER_COPIED_RECORDS", "100000")) // PARTITIONS)
RECORDS_PER_TRANSACTION: Final = 200
COPIERS: Final = 3
KILLS: Final = 8
SECONDS: Final = 600.0
COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"

pytestmark = pytest.mark.java


def run_tool(tool: str, *arguments: str) -> str:
    """Run a tool of Apache Kafka and return its output."""
    require_jars()
    command = ["java", *SMALL_JVM, "-cp", f"{jars()}/*", f"org.apache.kafka.tools.{tool}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout


class JavaCopier:
    """Kafka's TransactionalMessageCopier in group mode; some of its transactions are aborted on purpose."""

    def __init__(self, bootstrap: str, group: str, source: str, target: str, transactional_id: str) -> None:
        require_jars()
        self._command = [
            *("java", *SMALL_JVM, "-cp", f"{jars()}/*", COPIER, "--broker-list", bootstrap, "--group-mode"),
            *("--use-group-metadata", "--enable-random-aborts", "--input-partition", "-1", "--input-topic", source),
            *("--output-topic", target, "--consumer-group", group, "--transactional-id", transactional_id),
            *("--transaction-size", str(RECORDS_PER_TRANSACTION)),
        ]
        self.start()

    def start(self) -> None:
        """Start a process; it ends when it has copied everything that there was when it started."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self, *, clean: bool) -> None:
        """Stop the process with SIGTERM or SIGKILL."""
        if clean:
            self._process.terminate()
        else:
            self._process.kill()
        self._process.wait()

    def restart_if_ended(self) -> None:
        """Start it again if it has ended: another copier may have left something."""
        if self._process.poll() is not None:
            self.start()


@pytest.mark.parametrize("kind", [SLACKWATER, APACHE])
def test_copy_is_exactly_once_under_kills_and_restarts(tmp_path: Path, kind: str) -> None:
    choose = random.Random(11)
    total = PARTITIONS * PER_PARTITION
    with started_broker(kind, tmp_path) as broker, ExitStack() as stack:
        cluster = ClusterUnderTest(broker.bootstrap)
        stack.enter_context(cluster.admin)
        source, target, group = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS), "copiers"
        for number in range(PARTITIONS):
            fill(cluster, source, numbers(PER_PARTITION), partition=number)
        arguments = (broker.bootstrap, group, source, target)
        limits = ("0", str(RECORDS_PER_TRANSACTION))
        copiers = [CopierProcess(stack, *arguments, f"copier-{number}", *limits) for number in range(COPIERS)]
        for kill in range(1, KILLS + 1):
            wait_until_copied(cluster, group, total * kill // (KILLS + 2))
            if kill % 4 == 0:
                broker.restart(clean=kill % 8 == 0)
                continue
            number = choose.randrange(COPIERS)
            if kill % 2:
                copiers[number].kill()
            else:
                copiers[number].stop()
            copiers[number] = CopierProcess(stack, *arguments, f"copier-{number}", *limits)
        wait_until_copied(cluster, group, total)
        wait_for(lambda: committed_count(cluster, target, PARTITIONS) >= total, "the end of the last transactions")
        expected_values = {number: numbers(PER_PARTITION) for number in range(PARTITIONS)}
        assert committed_values(cluster, target, PARTITIONS) == expected_values
        broker.check()


def test_java_copies_exactly_once_in_group_mode(tmp_path: Path) -> None:
    choose = random.Random(12)
    total = PARTITIONS * PER_PARTITION
    with started_broker(SLACKWATER, tmp_path) as broker, ExitStack() as stack:
        cluster = ClusterUnderTest(broker.bootstrap)
        stack.enter_context(cluster.admin)
        source, target, group = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS), "java-copiers"
        for number in range(PARTITIONS):
            fill(cluster, source, numbers(PER_PARTITION), partition=number)
        copiers = [
            JavaCopier(broker.bootstrap, group, source, target, f"java-copier-{number}") for number in range(COPIERS)
        ]
        for copier in copiers:
            stack.callback(copier.stop, clean=False)

        def copied(count: int) -> bool:
            for copier in copiers:
                copier.restart_if_ended()
            return sum(position.offset for position in cluster.admin.committed(group).values()) >= count

        for bounce in range(1, KILLS + 1):
            wait_until(partial(copied, total * bounce // (KILLS + 2)), lambda: "copied records", SECONDS)
            if bounce % 4 == 0:
                broker.restart(clean=bounce % 8 == 0)
                continue
            copier = choose.choice(copiers)
            copier.stop(clean=bounce % 2 == 0)
            copier.start()
        wait_until(partial(copied, total), lambda: "copied records", SECONDS)
        wait_for(lambda: committed_count(cluster, target, PARTITIONS) >= total, "the end of the last transactions")
        expected_values = {number: numbers(PER_PARTITION) for number in range(PARTITIONS)}
        assert committed_values(cluster, target, PARTITIONS) == expected_values
        broker.check()


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
