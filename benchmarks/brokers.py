"""Apache Kafka 4.3.1 and Slackwater as separate processes, measured in the same run.

Method:
- Kafka runs with the JVM options of its start script, a heap of one gigabyte, as one node in KRaft mode. Its storage is
  formatted in advance, and replication factors are one.
- Both log at INFO to one file.
- Both get the same broker settings (`SETTINGS`), a temporary directory and a port on loopback.
- A broker is up when it has responded to an ApiVersions request.
- A benchmark that ends, fails or is stopped terminates its brokers.
- The CPU that other processes used is printed at the end: on a busy machine the results are not reliable.
"""

import argparse
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

from benchmarks.results import add_result
from scripts.apache_kafka import KafkaFailed, formatted_nodes, free_ports, jars

from slackwater.group.errors import Error
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from slackwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

JARS: Final = jars()
JVM: Final = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
LOGGING: Final = """<Configuration>
  <Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
UP_SECONDS: Final = 60
STOP_SECONDS: Final = 20
POLL_SECONDS: Final = 0.002
CLIENT_ID: Final = "bench"
NONE: Final = 0
TICKS: Final = os.sysconf("SC_CLK_TCK")


class PeerFailed(Exception):
    """A broker did not start, or sent an unexpected response."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running broker."""

    name: str
    port: int
    pid: int
    start_seconds: float
    ports: Mapping[str, int] = field(default_factory=dict, hash=False)  # of other listeners, by name

    @property
    def bootstrap(self) -> str:
        """The bootstrap address."""
        return f"127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """CPU time of all its threads, in steps of a hundredth of a second."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_bytes(self) -> int:
        """Resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def connect(self) -> socket.socket:
        """Return a connection with TCP_NODELAY."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=UP_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def call(self, request: Request, version: int, response_type: type[R]) -> R:
        """Send one request on a new connection and return the response."""
        with self.connect() as connection:
            return call(connection, request, version, response_type)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic."""
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)])
        (result,) = self.call(request, 5, CreateTopicsResponse).topics
        if result.error_code != NONE:
            raise PeerFailed(f"{self.name} did not create topic {name}: {result.error_code}, {result.error_message}")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=30_000)
        (result,) = self.call(request, 6, DeleteTopicsResponse).responses
        if result.error_code != NONE:
            raise PeerFailed(f"{self.name} did not delete topic {name}: {result.error_code}")

    def wait_for_coordinator(self, group_ids: Sequence[str]) -> None:
        """Wait until these groups have a loaded coordinator. The first request makes Kafka create the offsets topic."""
        give_up = time.monotonic() + UP_SECONDS
        while not all(map(self._coordinates, group_ids)):
            if time.monotonic() > give_up:
                raise PeerFailed(f"{self.name} has no group coordinator after {UP_SECONDS} s.")
            time.sleep(0.05)

    def _coordinates(self, group_id: str) -> bool:
        """Whether the group's coordinator is found and loaded: then it returns UNKNOWN_MEMBER_ID."""
        find = FindCoordinatorRequest(coordinator_keys=[group_id])
        (coordinator,) = self.call(find, 4, FindCoordinatorResponse).coordinators
        heartbeat = HeartbeatRequest(group_id, 1, "unknown")
        return (
            coordinator.error_code == NONE
            and self.call(heartbeat, 4, HeartbeatResponse).error_code == Error.UNKNOWN_MEMBER_ID
        )


def call(connection: socket.socket, request: Request, version: int, response_type: type[R]) -> R:
    """Send a request on a connection without requests in flight, and return the response."""
    connection.sendall(encode_request(request, version, 0, CLIENT_ID))
    (size,) = struct.unpack(">i", receive_exactly(connection, 4))
    return decode_response(response_type, version, receive_exactly(connection, size))[1]


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Receive `size` bytes."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise PeerFailed(f"The broker closed the connection after {len(data)} of {size} bytes.")
        data += piece
    return bytes(data)


# --- starting -------------------------------------------------------------------------------------------------------


@contextmanager
def kafka(settings: Mapping[str, object] | None = None, listeners: Sequence[str] = ()) -> Iterator[Server]:
    """Start Apache Kafka with one node; `listeners` are the names of more listeners."""
    with _home("kafka") as home:
        logging = home / "log4j2.xml"
        logging.write_text(LOGGING)
        jvm = (*JVM, f"-Dlog4j2.configurationFile={logging}")
        ports = dict(zip(listeners, free_ports(len(listeners)), strict=True))
        with formatted_nodes(settings=SETTINGS | dict(settings or {}), listeners=ports, jvm=jvm) as (node,):
            assert node.port is not None
            with _running("Kafka", node.command, node.port, home) as server:
                yield replace(server, ports=ports)


@contextmanager
def slackwater(settings: Mapping[str, object] | None = None, listeners: Sequence[str] = ()) -> Iterator[Server]:
    """Start Slackwater's broker; `listeners` are the names of more listeners."""
    with _home("slackwater") as home:
        port, *others = free_ports(1 + len(listeners))
        ports = dict(zip(listeners, others, strict=True))
        addresses = [f"{name}://127.0.0.1:{number}" for name, number in {"PLAINTEXT": port, **ports}.items()]
        command = [sys.executable, "-m", "slackwater", "broker", "--data", str(home / "data")]
        for name, value in {"listeners": ",".join(addresses), **SETTINGS, **(settings or {})}.items():
            command += ["--set", f"{name}={value}"]
        with _running("Slackwater", command, port, home) as server:
            yield replace(server, ports=ports)


@contextmanager
def _home(name: str) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix=f"slackwater-bench-{name}-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _running(name: str, command: Sequence[str], port: int, home: Path) -> Iterator[Server]:
    """Start a broker, wait until it responds, and stop it at the end."""
    with (home / "output.txt").open("wb") as output:
        started = time.monotonic()
        # An installed program keeps its bytecode from one start to the next.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        if not _responds(port, process):
            output_text = (home / "output.txt").read_text(errors="replace")[-2000:]
            raise PeerFailed(f"{name} did not start within {UP_SECONDS} s. Its output:\n{output_text}")
        yield Server(name, port, process.pid, time.monotonic() - started)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _responds(port: int, process: "subprocess.Popen[bytes]") -> bool:
    """Wait for the first response; return whether there was one."""
    give_up = time.monotonic() + UP_SECONDS
    while process.poll() is None and time.monotonic() < give_up:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=UP_SECONDS) as connection:
                call(connection, ApiVersionsRequest("bench", "1"), 3, ApiVersionsResponse)
                return True
        except (OSError, PeerFailed):
            time.sleep(POLL_SECONDS)
    return False


# --- tables -----------------------------------------------------------------------------------------------------------

BROKERS: Final = {"kafka": kafka, "slackwater": slackwater}


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with the common options."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=BROKERS, help="measure one of the two")
    return parser


@contextmanager
def both(
    only: str | None, settings: Mapping[str, object] | None = None, listeners: Sequence[str] = ()
) -> Iterator[list[Server]]:
    """Start both brokers, Kafka first, or only one of them, with these settings and more listeners."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(start(settings, listeners)) for name, start in BROKERS.items() if only in (None, name)
        ]


def report(what: str, figures: Sequence[Sequence[float]], form: str, target: str = "") -> None:
    """Print a row: each broker's median over the rounds, and the median of the ratios of ours to Kafka's."""
    medians = [f"{median(rounds):{form}}" for rounds in figures]
    ratio = None
    if len(figures) == 2:
        ratio = median(ours / theirs for theirs, ours in zip(*figures, strict=True))
        add_result(what.strip(), peer=medians[0], ours=medians[1], ratio=ratio, target=target)
    columns = "".join(f"{text:>13}" for text in medians)
    print(f"  {what:<48}{columns}{'' if ratio is None else f'{ratio:>9.2f}'}  {target}", flush=True)


def heading(title: str, names: Sequence[str]) -> None:
    """Print the header of a table."""
    columns = "".join(f"{name:>13}" for name in names)
    print(f"{title:<50}{columns}{'ratio' if len(names) == 2 else '':>9}  target", flush=True)


def run(main: Callable[[], None]) -> None:
    """Run a benchmark as a script: print a failure as one line, and stop the brokers on SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began, busy, own = time.monotonic(), _machine_cpu_seconds(), tree_cpu_seconds(os.getpid())
    try:
        main()
    except (PeerFailed, KafkaFailed, subprocess.SubprocessError) as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
    others = _machine_cpu_seconds() - busy - (tree_cpu_seconds(os.getpid()) - own)
    print(f"  (meanwhile other processes used {max(0.0, others) / (time.monotonic() - began):.0%} of a core)\n")


def _machine_cpu_seconds() -> float:
    """CPU time of all processes on this machine, including stolen time and without interrupts."""
    user, nice, system, _, _, _, _, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + steal) / TICKS


def tree_cpu_seconds(root: int) -> float:
    """CPU time of a process and its descendants, including those that have ended."""
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        times[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(times.get(pid, 0.0) for pid in tree)
