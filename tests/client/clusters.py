"""The clusters of the client tests: the embedded broker, and Apache Kafka in two versions.

Invariants:
- A test with the fixture `cluster` runs on the embedded broker and on Apache Kafka 4.3.1. With the marker `old_kafka`
  it also runs on 3.9.2 (`make interop`), with `apache` only on Apache Kafka. A test that injects faults uses the
  fixture `kafka`.
- All tests on a cluster share it, so every topic and group has a unique name.
- The workers of pytest-xdist share one process of each Apache Kafka. The first worker that needs it starts a keeper
  process, and every worker holds a shared lock on a file while it runs. The keeper waits for the exclusive lock of that
  file. It gets the lock when the last worker has ended in any way, and then stops Kafka.
- If Kafka is not installed its tests are skipped; under CI=true they fail.
"""

import fcntl
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from scripts.apache_kafka import ROOT, START_SECONDS, KafkaFailed, apache_kafka, missing

from slackwater import Admin, Consumer
from slackwater.group.errors import BrokerError, Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.waiting import wait_until

EMBEDDED: Final = "embedded"
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "log.retention.ms": -1,  # tests write records with old timestamps
}
SWEEP_MS: Final = 500  # how often the coordinator looks for transactions that have timed out
_TRANSACTIONS: Final = {
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": SWEEP_MS,
}
KAFKA_SETTINGS: Final = SETTINGS | _TRANSACTIONS | {"offsets.topic.num.partitions": 2}
TRIES: Final = 3
SECONDS: Final = 60.0


class ClusterUnderTest:
    """A cluster for tests."""

    def __init__(self, bootstrap_servers: str, broker: Kafka | None = None, version: str = "") -> None:
        self.bootstrap_servers = bootstrap_servers
        self.version = version  # as in the test's id
        self.broker = broker  # only of an embedded broker
        self.admin = Admin({"bootstrap.servers": bootstrap_servers})

    def name(self, prefix: str) -> str:
        """Return a name that no other test uses."""
        return f"{prefix}-{uuid.uuid4().hex[:8]}"

    def topic(self, partitions: int = 1, prefix: str = "t", **settings: object) -> str:
        """Create a topic and return its name; underscores in setting names stand for dots."""
        name = self.name(prefix)
        self.create_topic(name, partitions, **settings)
        return name

    def create_topic(self, name: str, partitions: int, **settings: object) -> None:
        """Create a topic and wait until every partition has a leader."""
        self.admin.create_topic(
            name, partitions, configs={key.replace("_", "."): str(value) for key, value in settings.items()}
        )
        wait_until(lambda: self._has_leaders(name, partitions), lambda: f"topic {name} is not ready", SECONDS)

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        if topic not in {listed.name for listed in self.admin.list_topics()}:
            return False
        (description,) = self.admin.describe_topics([topic])
        return len(description.partitions) == partitions and all(
            partition.leader >= 0 for partition in description.partitions
        )

    def group_state(self, group: str) -> str:
        """The state of a group; Dead if it does not exist."""
        try:
            (description,) = self.admin.describe_groups([group])
        except BrokerError as error:
            if error.error is Error.GROUP_ID_NOT_FOUND:
                return "Dead"
            raise
        return description.state

    def evict(self, group: str, client: Consumer) -> None:
        """Remove a member; its next heartbeat fails with UNKNOWN_MEMBER_ID."""
        (removed,) = self.admin.remove_members(group, members=[client.group_metadata().member_id])
        assert removed.error is Error.NONE

    def partitions(self, topic: str, *numbers: int) -> list[TopicPartition]:
        """Return partitions of a topic."""
        return [TopicPartition(topic, number) for number in numbers]


@contextmanager
def started_cluster(version: str, shared: Path) -> Iterator[ClusterUnderTest]:
    """A running cluster for the tests of this process."""
    if version == EMBEDDED:
        with Kafka(settings=SETTINGS | _TRANSACTIONS) as broker:
            yield from _with_admin(ClusterUnderTest(broker.bootstrap_servers, broker, version))
        return
    if reason := missing(version):
        pytest.skip(reason)
    with shared_kafka(version, shared) as bootstrap_servers:
        yield from _with_admin(ClusterUnderTest(bootstrap_servers, version=version))


def _with_admin(cluster: ClusterUnderTest) -> Iterator[ClusterUnderTest]:
    try:
        yield cluster
    finally:
        cluster.admin.close()


# --- one process for all workers --------------------------------------------------------------------------------------


def shared_directory(config: pytest.Config, factory: pytest.TempPathFactory) -> Path:
    """Return the temporary directory that the workers of a run share."""
    own = factory.getbasetemp()
    return own.parent if hasattr(config, "workerinput") else own


@contextmanager
def shared_kafka(version: str, shared: Path) -> Iterator[str]:
    """Start or share the Kafka of this version; it stops after its last user."""
    address = shared / f"kafka-{version}.address"
    used_path, starting_path = shared / f"kafka-{version}.used", shared / f"kafka-{version}.starting"
    with used_path.open("w") as used, starting_path.open("w") as starting:
        fcntl.flock(used, fcntl.LOCK_SH)  # waits for a keeper that is stopping an unused Kafka
        fcntl.flock(starting, fcntl.LOCK_EX)
        if not address.exists():
            _start_keeper(version, shared)
        fcntl.flock(starting, fcntl.LOCK_UN)
        yield address.read_text()


def _start_keeper(version: str, shared: Path) -> None:
    """Start the keeper and wait until its Kafka is up."""
    address, log = shared / f"kafka-{version}.address", shared / f"kafka-{version}.log"
    command = [sys.executable, "-m", "tests.client.clusters", version, str(shared)]
    with log.open("ab") as output:
        # This process does not wait for the keeper's end: other workers may need it longer.
        keeper = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    wait_until(
        lambda: address.exists() or keeper.poll() is not None,
        lambda: f"Kafka {version} is not up; see {log}",
        TRIES * START_SECONDS,
    )
    assert address.exists(), log.read_text(errors="replace")[-3000:]
    keeper.returncode = 0  # the keeper continues and is not reaped by this process


def keep(version: str, shared: Path) -> None:
    """Run Kafka until its last user has ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    address = shared / f"kafka-{version}.address"
    with _started(version) as bootstrap_servers, (shared / f"kafka-{version}.used").open("w") as used:
        complete = address.with_suffix(".new")
        complete.write_text(bootstrap_servers)
        complete.rename(address)
        fcntl.flock(used, fcntl.LOCK_EX)
        address.unlink()


@contextmanager
def _started(version: str) -> Iterator[str]:
    """Start Kafka; retry if its port was taken meanwhile."""
    for retries_left in reversed(range(TRIES)):
        with ExitStack() as stack:
            try:
                cluster = stack.enter_context(apache_kafka(version, settings=KAFKA_SETTINGS))
            except KafkaFailed:
                if not retries_left:
                    raise
                continue
            yield cluster.bootstrap_servers
            return


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]))
