"""The clusters on which the client's tests run: the embedded broker, and Apache Kafka in two versions.

Rules kept here
- A test that takes the fixture `side` runs on the embedded broker and on Apache Kafka 4.3.1; one that is marked
  `old_kafka` runs on 3.9.2 too, one that is marked `apache` on Apache Kafka alone. What needs a fault takes the fixture
  `kafka` instead.
- All tests of a side share its cluster, so every topic and group gets a name of its own.
- There is one process of each Apache Kafka, shared by the workers of pytest-xdist. Whoever needs it first starts a
  keeper for it, and every worker holds a shared lock on a file as long as it runs. The keeper waits for that file's
  exclusive lock: it gets it when the last worker has ended, however that ended, and takes Kafka down.
- Where Kafka cannot be had its tests are skipped; under CI=true they fail.
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
    "log.retention.ms": -1,  # tests write records of times long past
}
FEW: Final = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 1}
TRIES: Final = 3
SECONDS: Final = 60.0


class Side:
    """A cluster that a test runs on."""

    def __init__(self, bootstrap_servers: str, broker: Kafka | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.broker = broker  # the embedded one, if this is it
        self.admin = Admin({"bootstrap.servers": bootstrap_servers})

    def name(self, what: str) -> str:
        """A name that no other test uses."""
        return f"{what}-{uuid.uuid4().hex[:8]}"

    def topic(self, partitions: int = 1, what: str = "t", **settings: object) -> str:
        """A new topic that is ready to be used; in settings' names an underscore stands for a dot."""
        name = self.name(what)
        self.create_topic(name, partitions, **settings)
        return name

    def create_topic(self, name: str, partitions: int, **settings: object) -> None:
        """A topic of this name, once every partition of it has a leader."""
        self.admin.create_topic(
            name, partitions, configs={key.replace("_", "."): str(value) for key, value in settings.items()}
        )
        wait_until(lambda: self._leads(name, partitions), lambda: f"topic {name} is not ready", SECONDS)

    def _leads(self, topic: str, partitions: int) -> bool:
        if topic not in {client.name for client in self.admin.list_topics()}:
            return False
        (results,) = self.admin.describe_topics([topic])
        return len(results.partitions) == partitions and all(client.leader >= 0 for client in results.partitions)

    def group_state(self, group: str) -> str:
        """The state of a group; Dead if it is not there."""
        try:
            (results,) = self.admin.describe_groups([group])
        except BrokerError as error:
            if error.error is Error.GROUP_ID_NOT_FOUND:
                return "Dead"
            raise
        return results.state

    def evict(self, group: str, client: Consumer) -> None:
        """Remove a member; its next heartbeat fails with UNKNOWN_MEMBER_ID."""
        (gone,) = self.admin.remove_members(group, members=[client.group_metadata().member_id])
        assert gone.error is Error.NONE

    def parts(self, topic: str, *numbers: int) -> list[TopicPartition]:
        """Partitions of a topic."""
        return [TopicPartition(topic, number) for number in numbers]


@contextmanager
def side_of(version: str, shared: Path) -> Iterator[Side]:
    """A side, for as long as the tests of this process need it."""
    if version == EMBEDDED:
        with Kafka(settings=SETTINGS) as broker:
            yield from _with_admin(Side(broker.bootstrap_servers, broker))
        return
    if reason := missing(version):
        pytest.skip(reason)
    with shared_kafka(version, shared) as bootstrap_servers:
        yield from _with_admin(Side(bootstrap_servers))


def _with_admin(side: Side) -> Iterator[Side]:
    try:
        yield side
    finally:
        side.admin.close()


# --- one process for all workers --------------------------------------------------------------------------------------


@contextmanager
def shared_kafka(version: str, shared: Path) -> Iterator[str]:
    """Start or share the Kafka of this version; it stops after its last user."""
    address = shared / f"kafka-{version}.address"
    with (shared / f"kafka-{version}.used").open("w") as used, (shared / f"kafka-{version}.starting").open("w") as door:
        fcntl.flock(used, fcntl.LOCK_SH)  # waits for a keeper that is taking an unused one down
        fcntl.flock(door, fcntl.LOCK_EX)
        if not address.exists():
            _start_keeper(version, shared)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield address.read_text()


def _start_keeper(version: str, shared: Path) -> None:
    """Start the keeper, and wait until its Kafka is up."""
    address, log = shared / f"kafka-{version}.address", shared / f"kafka-{version}.log"
    command = [sys.executable, "-m", "tests.client.clusters", version, str(shared)]
    with log.open("ab") as output:
        # Nobody waits for its end: it may be the last of all.
        keeper = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    wait_until(
        lambda: address.exists() or keeper.poll() is not None,
        lambda: f"Kafka {version} is not up; see {log}",
        TRIES * START_SECONDS,
    )
    assert address.exists(), log.read_text(errors="replace")[-3000:]
    keeper.returncode = 0  # it runs on, and is no child that this process must reap


def keep(version: str, shared: Path) -> None:
    """Run Kafka until its last user has ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    address = shared / f"kafka-{version}.address"
    with _started(version) as bootstrap_servers, (shared / f"kafka-{version}.used").open("w") as used:
        whole = address.with_suffix(".new")
        whole.write_text(bootstrap_servers)
        whole.rename(address)
        fcntl.flock(used, fcntl.LOCK_EX)
        address.unlink()


@contextmanager
def _started(version: str) -> Iterator[str]:
    """Start Kafka; retry if its port was taken meanwhile."""
    for left in reversed(range(TRIES)):
        with ExitStack() as stack:
            try:
                cluster = stack.enter_context(apache_kafka(version, settings=SETTINGS | FEW))
            except KafkaFailed:
                if not left:
                    raise
                continue
            yield cluster.bootstrap_servers
            return


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]))
