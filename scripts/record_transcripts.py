"""Runs the scenarios of `tests/conformance/` against Apache Kafka and records its responses.

    python scripts/record_transcripts.py             record all scenarios
    python scripts/record_transcripts.py NAME …      record these scenarios
    python scripts/record_transcripts.py --check …   write nothing, report which transcripts would change

Needs Java and Kafka's jars (`make jars`). Kafka runs on loopback in a temporary directory and is started once for each
combination of broker settings. Exit code 0: success. 1: with --check, a transcript would change. 2: Kafka did not
start, or did not respond to a request that the scenario does not expect to be parked.
"""

import argparse
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.apache_kafka import KafkaFailed, Node, apache_kafka  # noqa: E402
from scripts.kafka_wire import decode_response, encode_request  # noqa: E402
from tests.conformance.scenarios import TOPICS  # noqa: E402
from tests.conformance.transaction_log_scenarios import SCENARIOS, STATE_PARTITIONS  # noqa: E402
from tests.conformance.transcripts import (  # noqa: E402
    DIRECTORY,
    Scenario,
    run_scenario,
    same_recording,
    to_json,
    with_topic_ids,
    without_topic_ids,
)

START_SECONDS: Final = 60
RESPONSE_SECONDS: Final = 5
NONE: Final = 0


# --- the broker -----------------------------------------------------------------------------------------------------


@contextmanager
def kafka(settings: Mapping[str, int]) -> Iterator[int]:
    """Run Kafka with one node and these settings; yield its port when coordinator and topics are ready."""
    own = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": 1}
    with apache_kafka(settings=own | dict(settings), jvm=("-Xmx512m",)) as cluster:
        (node,) = cluster.brokers.values()
        assert node.port is not None
        _make_ready(node, has_transactions=STATE_PARTITIONS in settings)
        yield node.port


def _make_ready(node: Node, *, has_transactions: bool) -> None:
    assert node.process is not None
    assert node.port is not None
    deadline = time.monotonic() + START_SECONDS
    while node.process.poll() is None and time.monotonic() < deadline:
        try:
            if _is_ready(node.port) and (not has_transactions or _has_transactions(node.port)):
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise KafkaFailed(f"Kafka was not ready within {START_SECONDS} s\n{node.log_tail()}")


def _is_ready(port: int) -> bool:
    """Create topics and coordinator; return whether they are ready."""
    topics = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in TOPICS.items()]
    request_once(port, "CreateTopics", 4, {"topics": topics, "timeout_ms": 5000})
    response = request_once(port, "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["warm-up"]})
    if response["coordinators"][0]["error_code"] != NONE:
        return False
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    for _ in range(200):  # warm up the JVM: the first responses are slow
        for name in TOPICS:
            commit = {"group_id": "warm-up", "topics": [{"name": name, "partitions": partitions}]}
            response = request_once(port, "OffsetCommit", 8, commit)
            if response["topics"][0]["partitions"][0]["error_code"] != NONE:
                return False
    return True


def _has_transactions(port: int) -> bool:
    """Commit a transaction; return whether it is complete."""
    producer = {"transactional_id": "warm-up"}
    request_once(port, "FindCoordinator", 4, {"key_type": 1, "coordinator_keys": ["warm-up"]})
    response = request_once(port, "InitProducerId", 3, producer | {"transaction_timeout_ms": 10_000})
    if response["error_code"] != NONE:
        return False
    producer_id, epoch = response["producer_id"], response["producer_epoch"]
    add = {
        "v3_and_below_transactional_id": "warm-up",
        "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in TOPICS],
    }
    request_once(port, "AddPartitionsToTxn", 3, add)
    end = producer | {"producer_id": producer_id, "producer_epoch": epoch, "committed": True}
    request_once(port, "EndTxn", 3, end)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        described = request_once(port, "DescribeTransactions", 0, {"transactional_ids": ["warm-up"]})
        if described["transaction_states"][0]["transaction_state"] == "CompleteCommit":
            return True
        time.sleep(0.1)
    return False


def request_once(port: int, api: str, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Send one request on a new connection and return the response."""
    with socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS) as connection:
        connection.sendall(encode_request(api, version, 0, "recorder", fields))
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            return decode_response(api, version, stream.read(size))[1]


# --- connections ---------------------------------------------------------------------------------------------------


class Connection:
    """One connection with at most one pending request."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.pending: tuple[int, str, int] | None = None

    def send(self, number: int, client_id: str, api: str, version: int, fields: Mapping[str, Any]) -> None:
        if self.pending is not None:
            raise KafkaFailed(f"step {number} is sent while step {self.pending[0]} waits on the same connection")
        self.pending = (number, api, version)
        self.socket.sendall(encode_request(api, version, number, client_id, fields))

    def receive(self) -> tuple[int, dict[str, Any]] | None:
        """Read available bytes; return the response if it is complete."""
        data = self.socket.recv(65536)
        if not data or self.pending is None:
            raise KafkaFailed(f"Kafka closed the connection, or sent {data!r}, after {self.pending}")
        self.received += data
        if len(self.received) < 4 or len(self.received) < 4 + struct.unpack(">i", self.received[:4])[0]:
            return None
        number, api, version = self.pending
        correlation_id, fields = decode_response(api, version, self.received[4:])
        if correlation_id != number:
            raise KafkaFailed(f"step {number} got a response with correlation id {correlation_id}")
        self.received, self.pending = b"", None
        return number, fields


class KafkaPeer:
    """A running Kafka, in real time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connections: dict[str, Connection] = {}
        self._selector = selectors.DefaultSelector()
        request = {"topics": [{"name": name} for name in TOPICS]}
        self._ids = {
            topic["name"]: topic["topic_id"] for topic in request_once(port, "Metadata", 12, request)["topics"]
        }
        self._now = time.monotonic()

    def send(self, number: int, on: str, client_id: str, api: str, version: int, fields: dict[str, Any]) -> None:
        """Send a request; the step number identifies its response."""
        if on not in self._connections:
            self._connections[on] = Connection(self._port)
            self._selector.register(self._connections[on].socket, selectors.EVENT_READ, self._connections[on])
        self._connections[on].send(number, client_id, api, version, with_topic_ids(fields, self._ids))

    def wait(self, ms: int, until_step: int | None) -> dict[int, dict[str, Any]]:
        """Wait `ms`, and longer until the response of step `until_step` arrives."""
        responses: dict[int, dict[str, Any]] = {}
        self._now += ms / 1000
        late = self._now + RESPONSE_SECONDS
        while True:
            missing = until_step is not None and until_step not in responses
            left = (late if missing else self._now) - time.monotonic()
            if left <= 0:
                if missing:
                    raise KafkaFailed(f"step {until_step} got no response within {RESPONSE_SECONDS} s")
                self._now = max(self._now, time.monotonic())
                return responses
            for key, _ in self._selector.select(left):
                received = key.data.receive()
                if received is not None:
                    responses[received[0]] = without_topic_ids(received[1], self._ids)

    def close(self) -> None:
        """Close all connections."""
        self._selector.close()
        for connection in self._connections.values():
            connection.socket.close()


# --- recording ------------------------------------------------------------------------------------------------------


def record(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, str | KafkaFailed]]:
    """Run scenarios, those with equal settings against one Kafka; yield each transcript or error."""

    def settings_of(scenario: Scenario) -> list[tuple[str, int]]:
        return sorted(scenario.settings.items())

    for settings, group in groupby(sorted(scenarios, key=settings_of), settings_of):
        with kafka(dict(settings)) as port:
            for scenario in group:
                peer = KafkaPeer(port)
                try:
                    yield scenario, to_json(scenario, run_scenario(scenario, peer))
                except KafkaFailed as error:
                    yield scenario, error
                finally:
                    peer.close()


def main() -> int:
    """Record the requested scenarios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios to record (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing, report changes")
    options = parser.parse_args()
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    unknown = [name for name in options.names if name not in by_name]
    if unknown:
        parser.error(f"no such scenario: {', '.join(unknown)}")
    chosen = [by_name[name] for name in options.names] or list(SCENARIOS)
    changed = failed = 0
    try:
        for scenario, text in record(chosen):
            if isinstance(text, KafkaFailed):
                print(f"! {scenario.name}: {text}", flush=True)
                failed += 1
                continue
            path = DIRECTORY / f"{scenario.name}.json"
            same = path.exists() and same_recording(path.read_text(), text)
            changed += not same
            print(f"{'=' if same else '*'} {scenario.name}", flush=True)
            if not options.check and not same:
                DIRECTORY.mkdir(exist_ok=True)
                path.write_text(text)
    except (KafkaFailed, subprocess.SubprocessError) as error:
        print(f"record_transcripts: {error}", file=sys.stderr)
        return 2
    print(f"{len(chosen)} scenarios, {changed} changed, {failed} failed")
    return 2 if failed else 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
