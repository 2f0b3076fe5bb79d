"""Apache Kafka as a process on loopback: whoever compares with the real one starts it here.

Rules kept here
- KRaft. A single node is broker and controller; of several, each is a broker, and one more node is the controller, so
  that any broker can be killed and the metadata stays.
- What needs replicas is set to as many as there are brokers, two at most. All else is Kafka's own, or the caller's.
- A node lives in a directory of its own that is removed. It has ended when the `with` block has, whatever happens.
- A node is up when it answers ApiVersions. Nothing is imported from slackwater.
"""

import base64
import fcntl
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).resolve().parents[1]
KAFKA: Final = "4.3.1"
OLD_KAFKA: Final = "3.9.2"
# Quick to start, and with a small heap: for tests, not for measuring.
LIGHT: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
CONTROLLER_ID: Final = 100
START_SECONDS: Final = 120
PORTS: Final = (12_000, 30_000)
LOCKS: Final = Path(tempfile.gettempdir()) / "slackwater-ports"
_held: list[IO[str]] = []
_LOOK_AGAIN_S: Final = 0.05
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 0, -1)  # a request of version 0, without a client id


class KafkaFailed(Exception):
    """Kafka could not be started, or did not do what is needed of it."""


def jars(version: str = KAFKA) -> Path:
    """Where its jars are, or would be."""
    return ROOT / ".jars" / f"kafka-{version}"


def missing(version: str = KAFKA) -> str | None:
    """Why this version cannot be started here, in a sentence; None if it can."""
    if shutil.which("java") and (jars(version) / ".ready").exists():
        return None
    return f"Java, or the jars of Apache Kafka {version}, are missing; run `make jars`"


class Node:
    """One node: formatted, and started as often as asked."""

    def __init__(
        self, version: str, node_id: int, home: Path, config: Mapping[str, object], jvm: Sequence[str]
    ) -> None:
        self.node_id = node_id
        self.home = home
        self.port: int | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._config = home / "server.properties"
        self._config.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        self._java = ("java", *jvm, "-cp", f"{jars(version)}/*")

    @property
    def command(self) -> list[str]:
        """What starts it."""
        return [*self._java, "kafka.Kafka", str(self._config)]

    def format(self, cluster_id: str) -> None:
        """Make its storage ready."""
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS)
        if done.returncode:
            raise KafkaFailed(f"Kafka's storage could not be formatted: {(done.stdout + done.stderr)[-2000:]}")

    def start(self) -> None:
        """Start the process; it is not up yet."""
        with (self.home / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output)

    def wait_until_up(self) -> None:
        """Until it answers."""
        assert self.process is not None
        give_up = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise KafkaFailed(f"Kafka did not start within {START_SECONDS} s. It said:\n{self.last_words()}")
            time.sleep(_LOOK_AGAIN_S)

    def answers(self) -> bool:
        """Whether somebody answers at its port."""
        assert self.port is not None
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(_API_VERSIONS)
            return len(connection.recv(4)) == 4
        return False

    def kill(self) -> None:
        """SIGKILL: nothing is flushed and nobody is told."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def last_words(self) -> str:
        """The end of its log."""
        return (self.home / "output.txt").read_text(errors="replace")[-2000:]


class Cluster:
    """Nodes that are up; `brokers` by their node id."""

    def __init__(self, brokers: Mapping[int, Node]) -> None:
        self.brokers = brokers

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.brokers.values())


@contextmanager
def apache_kafka(
    version: str = KAFKA,
    *,
    brokers: int = 1,
    settings: Mapping[str, object] | None = None,
    jvm: Sequence[str] = LIGHT,
) -> Iterator[Cluster]:
    """A cluster that is up."""
    with formatted(version, brokers=brokers, settings=settings, jvm=jvm) as nodes:
        for node in nodes:
            node.start()
        serving = [node for node in nodes if node.port is not None]
        for node in serving:
            node.wait_until_up()
        yield Cluster({node.node_id: node for node in serving})


@contextmanager
def formatted(
    version: str = KAFKA,
    *,
    brokers: int = 1,
    settings: Mapping[str, object] | None = None,
    jvm: Sequence[str] = LIGHT,
) -> Iterator[list[Node]]:
    """The nodes of a cluster, ready to be started; the controller first. They are killed at the end."""
    if reason := missing(version):
        raise KafkaFailed(f"{reason}.")
    home = Path(tempfile.mkdtemp(prefix="slackwater-kafka-"))
    nodes: list[Node] = []
    try:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        for node_id, port, config in _plan(brokers, home):
            own = home / str(node_id)
            own.mkdir()
            node = Node(version, node_id, own, {**config, **(settings or {})}, jvm)
            node.port = port
            node.format(cluster_id)
            nodes.append(node)
        yield nodes
    finally:
        for node in nodes:
            node.kill()
        shutil.rmtree(home, ignore_errors=True)


def _plan(brokers: int, home: Path) -> Iterator[tuple[int, int | None, dict[str, object]]]:
    """The nodes: id, the port for clients, settings."""
    controller_port, *ports = free_ports(brokers + 1)
    controller_id = 1 if brokers == 1 else CONTROLLER_ID
    replicas = min(brokers, 2)
    common: dict[str, object] = {
        "controller.quorum.voters": f"{controller_id}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": 1,
    }
    controls = f"CONTROLLER://127.0.0.1:{controller_port}"
    if brokers > 1:
        yield (
            controller_id,
            None,
            common | {"process.roles": "controller", "listeners": controls} | _own(home, controller_id),
        )
    for node_id, port in enumerate(ports, 1):
        serves = f"PLAINTEXT://127.0.0.1:{port}"
        if brokers == 1:
            role = {"process.roles": "broker,controller", "listeners": f"{serves},{controls}"}
        else:
            role = {"process.roles": "broker", "listeners": serves}
        yield node_id, port, common | role | _own(home, node_id)


def _own(home: Path, node_id: int) -> dict[str, object]:
    return {"node.id": node_id, "log.dirs": home / str(node_id) / "data"}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, and that are this process's until it ends.

    Kafka has to be told its ports before it binds them. Below the range from which the kernel takes ports for
    connections nobody comes upon them by chance; a lock keeps out whoever else chooses here.
    """
    found: list[int] = []
    LOCKS.mkdir(exist_ok=True)
    while len(found) < count:
        port = random.randrange(*PORTS)
        lock = (LOCKS / str(port)).open("w")
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", port)):
                found.append(port)
                _held.append(lock)
                continue
        lock.close()
    return found
