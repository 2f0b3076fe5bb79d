"""A broker that tests stop, kill and start again: our broker in its own process, or Apache Kafka."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest
from scripts.apache_kafka import Cluster, apache_kafka, missing

from tests.interop_heavy.broker_process import SETTINGS, BrokerProcess

SLACKWATER: Final = "slackwater"
APACHE: Final = "Apache Kafka"
KAFKA_SETTINGS: Final = {**SETTINGS, "offsets.topic.num.partitions": 1}


class BrokerUnderTest(Protocol):
    """A broker that a test can restart."""

    @property
    def bootstrap(self) -> str:
        """The address, the same after a restart."""

    def restart(self, *, clean: bool = False) -> None:
        """Stop it with SIGTERM or kill it with SIGKILL, and start it again on the same data."""

    def check(self) -> None:
        """Fail if the broker logged an error."""

    def log_tail(self) -> str:
        """The end of its log since the last start."""


class SlackwaterBroker:
    """`slackwater broker`."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._process = BrokerProcess(data, "127.0.0.1:0")
        self.bootstrap = self._process.wait_until_ready()

    def restart(self, *, clean: bool = False) -> None:
        """Stop or kill it, and start it again."""
        self.check()
        if clean:
            self._process.stop()
        self._process.close()
        self._process = BrokerProcess(self._data, self.bootstrap)
        self._process.wait_until_ready()

    def check(self) -> None:
        """Check its log."""
        self._process.check_log()

    def log_tail(self) -> str:
        """The end of its log."""
        return self._process.stderr_tail()

    def close(self) -> None:
        """Stop the process."""
        self._process.close()


class ApacheKafkaBroker:
    """Apache Kafka with one node."""

    def __init__(self, cluster: Cluster) -> None:
        (self._node,) = cluster.brokers.values()
        self.bootstrap = cluster.bootstrap_servers

    def restart(self, *, clean: bool = False) -> None:
        """Stop or kill it, and start it again."""
        if clean:
            self._node.stop()
        self._node.kill()
        self._node.start()
        self._node.wait_until_up()

    def check(self) -> None:
        """Nothing to check: errors in Kafka's own log are not tested here."""

    def log_tail(self) -> str:
        """The end of its log."""
        return self._node.log_tail()


@contextmanager
def started_broker(kind: str, directory: Path) -> Iterator[BrokerUnderTest]:
    """A broker of this kind, stopped at the end of the block."""
    if kind == SLACKWATER:
        broker = SlackwaterBroker(directory / "broker")
        try:
            yield broker
        finally:
            broker.close()
        return
    if reason := missing():
        pytest.skip(reason)
    with apache_kafka(settings=KAFKA_SETTINGS) as cluster:
        yield ApacheKafkaBroker(cluster)
