"""Where a group of Spark applications lives: our broker in a process of its own, or Apache Kafka; both get killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest
from scripts.apache_kafka import Cluster, apache_kafka, missing

from tests.interop_heavy.broker_process import BrokerProcess

EMBEDDED: Final = "embedded"
APACHE: Final = "Apache Kafka"
KAFKA_SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}


class BrokerUnderTest(Protocol):
    """A broker."""

    @property
    def bootstrap(self) -> str:
        """Where it listens, before and after a restart."""

    def restart(self) -> None:
        """Kill it with SIGKILL and start it anew, with what it had on disk."""

    def check(self) -> None:
        """See whether it had a fault of its own."""


class Ours:
    """`slackwater broker`."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._host = BrokerProcess(data, "127.0.0.1:0")
        self.bootstrap = self._host.wait_until_ready()

    def restart(self) -> None:
        """Kill it and start it anew."""
        self.check()
        self._host.close()
        self._host = BrokerProcess(self._data, self.bootstrap)
        self._host.wait_until_ready()

    def check(self) -> None:
        """Look into its log."""
        self._host.check_log()

    def close(self) -> None:
        """End it."""
        self._host.close()


class Theirs:
    """Apache Kafka, one node."""

    def __init__(self, cluster: Cluster) -> None:
        (self._node,) = cluster.brokers.values()
        self.bootstrap = cluster.bootstrap_servers

    def restart(self) -> None:
        """Kill it and start it anew."""
        self._node.kill()
        self._node.start()
        self._node.wait_until_up()

    def check(self) -> None:
        """Its faults are not ours to find."""


@contextmanager
def place(kind: str, directory: Path) -> Iterator[BrokerUnderTest]:
    """A broker of a kind, until the end of the block."""
    if kind == EMBEDDED:
        ours = Ours(directory / "broker")
        try:
            yield ours
        finally:
            ours.close()
        return
    if reason := missing():
        pytest.skip(reason)
    with apache_kafka(settings=KAFKA_SETTINGS) as cluster:
        yield Theirs(cluster)
