"""Kafka Connect: two workers in distributed mode, a file source and a file sink; one worker is killed."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.interop_heavy.client_process import JARS, ClientProcess, require_installed, wait_for
from tests.interop_heavy.conftest import Start
from tests.interop_heavy.reference_client import ReferenceClient

LINES = 200
START_SECONDS = 120.0
RESPONSE_SECONDS = 60.0


class Worker(NamedTuple):
    """One worker and its REST address."""

    process: ClientProcess
    name: str

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a REST request; return None if the worker cannot respond now, for example during a rebalance."""
        request = urllib.request.Request(
            f"http://{self.name}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=RESPONSE_SECONDS) as response:
                return json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (404, 409, 500, 503):
                    return None
                raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None
        except OSError:
            return None  # not up yet

    def call_until_done(self, method: str, path: str, body: object = None) -> Any:
        """Repeat the request until the worker responds."""
        return wait_for(
            f"{method} {path}",
            lambda: [response] if (response := self.call(method, path, body)) is not None else [],
            watch=[self.process],
        )[0]


class Cluster:
    """Workers of one Connect cluster."""

    def __init__(self, start: Start, bootstrap: str, unique: str, home: Path) -> None:
        self.name = f"connect-{unique}"
        self._start, self._bootstrap, self._home = start, bootstrap, home

    def worker(self) -> Worker:
        """Start one more worker and wait until it responds."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = self._home / f"worker-{port}.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings(port).items()))
        java = ("java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*")
        process = self._start(*java, "org.apache.kafka.connect.cli.ConnectDistributed", settings)
        worker = Worker(process, f"127.0.0.1:{port}")
        wait_for(
            "the worker's REST API", lambda: worker.call("GET", "/connectors") is not None, START_SECONDS, [process]
        )
        return worker

    def _settings(self, port: int) -> dict[str, object]:
        converter = "org.apache.kafka.connect.storage.StringConverter"
        return {
            "bootstrap.servers": self._bootstrap,
            "group.id": self.name,
            "config.storage.topic": f"{self.name}-configs",
            "offset.storage.topic": f"{self.name}-offsets",
            "status.storage.topic": f"{self.name}-status",
            "config.storage.replication.factor": 1,
            "offset.storage.replication.factor": 1,
            "status.storage.replication.factor": 1,
            "key.converter": converter,
            "value.converter": converter,
            "listeners": f"http://127.0.0.1:{port}",
            "rest.advertised.host.name": "127.0.0.1",
            "offset.flush.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 500,
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
            "consumer.session.timeout.ms": 3000,
            "consumer.heartbeat.interval.ms": 500,
            "consumer.auto.offset.reset": "earliest",
        }


@pytest.fixture
def cluster(start: Start, bootstrap: str, unique: str, tmp_path: Path) -> Cluster:
    """A Connect cluster without workers yet."""
    require_installed("Kafka Connect", JARS / ".ready")
    return Cluster(start, bootstrap, unique, tmp_path)


def running_parts(worker: Worker, connectors: Iterable[str]) -> dict[str, set[str]]:
    """The connectors and tasks of each worker, if all of them run; otherwise empty."""
    parts: dict[str, set[str]] = {}
    for name in connectors:
        status = worker.call("GET", f"/connectors/{name}/status")
        if status is None or not status["tasks"]:
            return {}
        for part in (status["connector"], *status["tasks"]):
            if part["state"] != "RUNNING":
                return {}
            part_name = f"{name}-{part['id']}" if "id" in part else name
            parts.setdefault(part["worker_id"], set()).add(part_name)
    return parts


def append(path: Path, prefix: str) -> list[str]:
    """Append lines to a file and return them."""
    added = [f"{prefix}-{number}" for number in range(LINES)]
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in added)
    return added


def arrived(path: Path) -> list[str]:
    """The complete lines of a file that may not exist yet."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def test_connect_survives_a_killed_worker(
    cluster: Cluster, reference: ReferenceClient, unique: str, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    topic = reference.create(f"lines-{unique}", 1)
    first, second = cluster.worker(), cluster.worker()
    both = [first.process, second.process]
    for suffix, partitions in (("configs", 1), ("offsets", 25), ("status", 5)):
        assert reference.topics()[f"{cluster.name}-{suffix}"] == partitions
        assert reference.config(f"{cluster.name}-{suffix}")["cleanup.policy"] == "compact"

    expected = append(source, "first")
    connector = "org.apache.kafka.connect.file.FileStream{}Connector"
    reads = {"connector.class": connector.format("Source"), "file": str(source), "topic": topic, "tasks.max": "1"}
    writes = {"connector.class": connector.format("Sink"), "file": str(sink), "topics": topic, "tasks.max": "1"}
    first.call_until_done("PUT", f"/connectors/source-{unique}/config", reads)
    second.call_until_done("PUT", f"/connectors/sink-{unique}/config", writes)
    names = (f"source-{unique}", f"sink-{unique}")
    wait_for("tasks on both workers", lambda: len(running_parts(first, names)) == 2, watch=both)
    wait_for("all lines in the file", lambda: arrived(sink) == expected, watch=both)
    assert [record.value for record in reference.records(topic)] == expected

    task = f"source-{unique}-0"
    parts = wait_for("the workers' tasks", lambda: running_parts(first, names), watch=both)
    killed, survivor = (first, second) if task in parts.get(first.name, ()) else (second, first)
    killed.process.kill()
    expected += append(source, "second")
    wait_for(
        "all tasks on the survivor",
        lambda: set(running_parts(survivor, names)) == {survivor.name},
        120,
        [survivor.process],
    )
    wait_for("all lines in the file", lambda: set(arrived(sink)) == set(expected), watch=[survivor.process])
    values = [record.value for record in reference.records(topic)]
    assert list(dict.fromkeys(values)) == expected, "lines are out of order"  # duplicates are allowed

    third = cluster.worker()
    both = [survivor.process, third.process]
    wait_for(
        "tasks on the new worker", lambda: set(running_parts(third, names)) == {survivor.name, third.name}, watch=both
    )
    expected += append(source, "third")
    wait_for("all lines in the file", lambda: set(arrived(sink)) == set(expected), watch=both)

    end = reference.ends(topic)[0]
    wait_for("the sink's commit", lambda: reference.committed(f"connect-sink-{unique}", topic) == {0: end}, watch=both)
    partition = {"kafka_topic": topic, "kafka_partition": 0}
    offsets = third.call_until_done("GET", f"/connectors/sink-{unique}/offsets")
    assert offsets == {"offsets": [{"partition": partition, "offset": {"kafka_offset": end}}]}

    third.call_until_done("PUT", f"/connectors/sink-{unique}/stop")
    wait_for(
        "a stopped sink",
        lambda: (third.call("GET", f"/connectors/sink-{unique}/status") or {"tasks": [0]})["tasks"] == [],
        watch=both,
    )
    third.call_until_done(
        "PATCH",
        f"/connectors/sink-{unique}/offsets",
        {"offsets": [{"partition": partition, "offset": {"kafka_offset": 3}}]},
    )
    assert reference.committed(f"connect-sink-{unique}", topic) == {0: 3}
    third.call_until_done("DELETE", f"/connectors/sink-{unique}/offsets")
    assert reference.committed(f"connect-sink-{unique}", topic) == {}
    for name in names:
        third.call_until_done("DELETE", f"/connectors/{name}")
    wait_for("no connector", lambda: survivor.call("GET", "/connectors") == [], watch=both)
    for worker in (survivor, third):
        worker.process.terminate()
