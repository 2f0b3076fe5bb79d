"""Start Apache Kafka on loopback, for tests and benchmarks.

Invariants:
- KRaft mode. A single node is broker and controller. With several brokers one more node is the controller, so that any
  broker can be killed.
- Replication factors are the number of brokers, at most two. All other settings are Kafka's defaults or the caller's.
- Each node has a temporary directory. At the end of the `with` block every node is killed and its directory removed.
- A node is up when it responds to ApiVersions. Nothing is imported from slackwater.
"""

import atexit
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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
KAFKA: Final = "4.3.1"
OLD_KAFKA: Final = "3.9.2"
# Fast start and a small heap: for tests, not for benchmarks.
LIGHT: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
CONTROLLER_ID: Final = 100
START_SECONDS: Final = 120
STOP_SECONDS: Final = 60
PORTS: Final = (12_000, 30_000)
LOCKS: Final = Path(tempfile.gettempdir()) / "slackwater-ports"
_held: Final = ExitStack()  # locks of ports, until the process ends
atexit.register(_held.close)
_POLL_S: Final = 0.05
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 0, -1)  # a request of version 0, without a client id


class KafkaFailed(Exception):
    """Kafka could not be started, or failed."""


def jars(version: str = KAFKA) -> Path:
    """The directory of its jars."""
    return ROOT / ".jars" / f"kafka-{version}"


def missing(version: str = KAFKA) -> str | None:
    """Why this version cannot be started here; None if it can."""
    if shutil.which("java") and (jars(version) / ".ready").exists():
        return None
    return f"Java, or the jars of Apache Kafka {version}, are missing; run: make jars"


class Node:
    """One node, which can be started several times."""

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
        """The command that starts the node."""
        return [*self._java, "kafka.Kafka", str(self._config)]

    def format(self, cluster_id: str) -> None:
        """Format its storage."""
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS)
        if done.returncode:
            raise KafkaFailed(f"Kafka's storage could not be formatted: {(done.stdout + done.stderr)[-2000:]}")

    def start(self) -> None:
        """Start the process, without waiting."""
        with (self.home / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output)

    def wait_until_up(self) -> None:
        """Wait until it responds."""
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while not self.responds():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise KafkaFailed(f"Kafka did not start within {START_SECONDS} s. The log ends:\n{self.log_tail()}")
            time.sleep(_POLL_S)

    def responds(self) -> bool:
        """Whether the node responds on its port."""
        assert self.port is not None
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(_API_VERSIONS)
            return len(connection.recv(4)) == 4
        return False

    def stop(self) -> None:
        """Stop the process with SIGTERM, and wait for its end."""
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise KafkaFailed(
                f"Kafka did not stop within {STOP_SECONDS} s. The log ends:\n{self.log_tail()}"
            ) from error

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def log_tail(self) -> str:
        """The end of its log."""
        return (self.home / "output.txt").read_text(errors="replace")[-2000:]


class Cluster:
    """Running nodes; `brokers` by node id."""

    def __init__(self, brokers: Mapping[int, Node]) -> None:
        self.brokers = brokers

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.brokers.values())


@contextmanager
def apache_kafka(
    version: str = KAFKA,
    *,
    brokers: int = 1,
    settings: Mapping[str, object] | None = None,
    listeners: Mapping[str, int] | None = None,
    jvm: Sequence[str] = LIGHT,
) -> Iterator[Cluster]:
    """A running cluster; `listeners` are the names and ports of more listeners of a single broker."""
    with formatted_nodes(version, brokers=brokers, settings=settings, listeners=listeners, jvm=jvm) as nodes:
        for node in nodes:
            node.start()
        serving = [node for node in nodes if node.port is not None]
        for node in serving:
            node.wait_until_up()
        yield Cluster({node.node_id: node for node in serving})


@contextmanager
def formatted_nodes(
    version: str = KAFKA,
    *,
    brokers: int = 1,
    settings: Mapping[str, object] | None = None,
    listeners: Mapping[str, int] | None = None,
    jvm: Sequence[str] = LIGHT,
) -> Iterator[list[Node]]:
    """The nodes of a cluster, formatted but not started, the controller first. They are killed at the end."""
    if reason := missing(version):
        raise KafkaFailed(f"{reason}.")
    home = Path(tempfile.mkdtemp(prefix="slackwater-kafka-"))
    nodes: list[Node] = []
    try:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        for node_id, port, config in _node_configs(brokers, home):
            directory = home / str(node_id)
            directory.mkdir()
            for name, listening in (listeners or {}).items():
                config["listeners"] = f"{config['listeners']},{name}://127.0.0.1:{listening}"
            node = Node(version, node_id, directory, {**config, **(settings or {})}, jvm)
            node.port = port
            node.format(cluster_id)
            nodes.append(node)
        yield nodes
    finally:
        for node in nodes:
            node.kill()
        shutil.rmtree(home, ignore_errors=True)


def _node_configs(brokers: int, home: Path) -> Iterator[tuple[int, int | None, dict[str, object]]]:
    """Each node's id, port for clients, and settings."""
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
    controller_listener = f"CONTROLLER://127.0.0.1:{controller_port}"
    if brokers > 1:
        yield (
            controller_id,
            None,
            common | {"process.roles": "controller", "listeners": controller_listener} | _storage(home, controller_id),
        )
    for node_id, port in enumerate(ports, 1):
        client_listener = f"PLAINTEXT://127.0.0.1:{port}"
        if brokers == 1:
            role = {"process.roles": "broker,controller", "listeners": f"{client_listener},{controller_listener}"}
        else:
            role = {"process.roles": "broker", "listeners": client_listener}
        yield node_id, port, common | role | _storage(home, node_id)


def _storage(home: Path, node_id: int) -> dict[str, object]:
    return {"node.id": node_id, "log.dirs": home / str(node_id) / "data"}


def free_ports(count: int) -> list[int]:
    """Free ports, reserved for this process until it ends.

    Kafka needs its ports before it binds them. The range lies below the kernel's ephemeral ports, so that no connection
    takes one by chance; a lock file per port excludes other processes that call this function.
    """
    ports: list[int] = []
    LOCKS.mkdir(exist_ok=True)
    while len(ports) < count:
        port = random.randrange(*PORTS)
        lock = (LOCKS / str(port)).open("w")
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", port)):
                ports.append(port)
                _held.enter_context(lock)
                continue
        lock.close()
    return ports
