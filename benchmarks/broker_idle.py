"""CPU of a broker with idle consumers: Apache Kafka and Slackwater in the same run.

    python benchmarks/broker_idle.py [--consumers N] [--wait-ms MS] [--rounds N] [--seconds S] [--only kafka|slackwater]

Method:
- 1,000 consumers, each with its own connection and fetch session, behave as Java consumers at the end of the log: they
  send an incremental Fetch without changes and with `fetch.max.wait.ms` 500, and the next one after each response.
  Their first requests are spread over one wait.
- The result is the broker's CPU time as a share of one core.
- A bare uvloop server is the lower bound: it delays each request as long and sends as many bytes, without a protocol.
- Every response is compared with the expected bytes. All consumers run in one Python process.
"""

import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import CLIENT_ID, NONE, PeerFailed, Server, arguments, both, call, heading, report, run

from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from slackwater.wire.request_response import encode_request, encode_response

TOPIC: Final = "idle"
PARTITIONS: Final = 50
VERSION: Final = 17
METADATA_VERSION: Final = 12
MAX_BYTES: Final = 52_428_800
PARTITION_MAX_BYTES: Final = 1_048_576
SETTLE_SECONDS: Final = 3.0
UP_SECONDS: Final = 60
RECEIVE_BYTES: Final = 4096
FINAL_EPOCH: Final = -1
_NUMBER: Final = struct.Struct(">i")
_REQUEST_CORRELATION_AT: Final = 8  # after size, API key and version
_RESPONSE_CORRELATION_AT: Final = 4  # after the size
_ALL_BITS: Final = -1  # an epoch that differs from 0 in all its bytes


class Usage(NamedTuple):
    """CPU usage during one measurement."""

    broker_percent: float  # CPU time of the broker, in percent of the elapsed time
    request_us: float  # CPU time of the broker per request
    requests: float  # per second
    load_percent: float  # CPU time of the consumers, in percent of the elapsed time


class Consumer:
    """One consumer, with its encoded request and the expected empty response; only two numbers in them change."""

    __slots__ = ("_epoch", "_epoch_at", "_expected", "_request", "session_id", "socket")

    def __init__(self, connection: socket.socket, session_id: int, wait_ms: int) -> None:
        self.socket = connection
        self.session_id = session_id
        first, second = (_encode(_fetch_request(session_id, epoch, wait_ms)) for epoch in (0, _ALL_BITS))
        self._request = bytearray(first)
        self._epoch = 0
        self._epoch_at = next(at for at, (byte, other) in enumerate(zip(first, second, strict=True)) if byte != other)
        self._expected = bytearray(encode_response(FetchResponse(session_id=session_id), VERSION, 0))

    def send(self) -> None:
        """Send the next request."""
        self._epoch += 1
        _NUMBER.pack_into(self._request, self._epoch_at, self._epoch)
        _NUMBER.pack_into(self._request, _REQUEST_CORRELATION_AT, self._epoch)
        _NUMBER.pack_into(self._expected, _RESPONSE_CORRELATION_AT, self._epoch)
        self.socket.sendall(self._request)

    def receive(self) -> None:
        """Receive a response; it must be the expected one."""
        data = self.socket.recv(RECEIVE_BYTES)
        if data != self._expected:
            raise PeerFailed(f"A fetch got the response {data[:80]!r} instead of {bytes(self._expected)!r}.")


def _fetch_request(session_id: int, epoch: int, wait_ms: int) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=MAX_BYTES, session_id=session_id, session_epoch=epoch
    )


def _partition(number: int) -> FetchPartition:
    return FetchPartition(number, 0, 0, partition_max_bytes=PARTITION_MAX_BYTES)


def _encode(request: FetchRequest) -> bytes:
    return encode_request(request, VERSION, 0, CLIENT_ID)


def connect(server: Server, topic_id: bytes, number: int, wait_ms: int) -> Consumer:
    """Connect a consumer of one partition and open its fetch session."""
    connection = server.connect()
    request = _fetch_request(0, 0, 0)
    request.topics = [FetchTopic(topic_id=topic_id, partitions=[_partition(number % PARTITIONS)])]
    response = call(connection, request, VERSION, FetchResponse)
    (topic,) = response.responses
    if response.error_code != NONE or not response.session_id or topic.partitions[0].error_code != NONE:
        raise PeerFailed(f"{server.name} opened no session: {response}.")
    return Consumer(connection, response.session_id, wait_ms)


def connect_bare(server: Server, wait_ms: int) -> Consumer:
    """Connect a consumer to the bare server, which has no sessions."""
    return Consumer(server.connect(), 1, wait_ms)


def end_sessions(server: Server, consumers: Sequence[Consumer]) -> None:
    """Close the sessions, as consumers do: the number of sessions of a broker is limited."""
    with server.connect() as connection:
        for consumer in consumers:
            call(connection, _fetch_request(consumer.session_id, FINAL_EPOCH, 0), VERSION, FetchResponse)


def run_idle(server: Server, consumers: Sequence[Consumer], wait_ms: int, seconds: float) -> Usage:
    """Keep the consumers waiting for `seconds`; return the CPU usage."""
    by_fd = {consumer.socket.fileno(): consumer for consumer in consumers}
    with select.epoll() as epoll:
        for consumer in consumers:
            epoll.register(consumer.socket, select.EPOLLIN)
            _exchange(epoll, by_fd, wait_ms / 1000 / len(consumers))
            consumer.send()
        _exchange(epoll, by_fd, SETTLE_SECONDS)
        spent, served, began = time.process_time(), server.cpu_seconds(), time.perf_counter()
        count = _exchange(epoll, by_fd, seconds)
        took = time.perf_counter() - began
        served, spent = server.cpu_seconds() - served, time.process_time() - spent
    return Usage(served / took * 100, served / count * 1e6, count / took, spent / took * 100)


def _exchange(epoll: select.epoll, by_fd: dict[int, Consumer], seconds: float) -> int:
    """Send the next request after every response; return the number of responses."""
    end = time.perf_counter() + seconds
    count = 0
    while (left := end - time.perf_counter()) > 0:
        for fd, _ in epoll.poll(left):
            consumer = by_fd[fd]
            consumer.receive()
            consumer.send()
            count += 1
    return count


# --- the bare server ------------------------------------------------------------------------------------------------

BARE: Final = """
import asyncio, struct, sys, uvloop

wait, body = int(sys.argv[1]) / 1000, bytes.fromhex(sys.argv[2])

class Bare(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        loop.call_later(wait, self.respond, body[:4] + data[8:12] + body[8:])

    def respond(self, frame):
        if not self.transport.is_closing():
            self.transport.write(frame)

loop = uvloop.new_event_loop()
server = loop.run_until_complete(loop.create_server(Bare, "127.0.0.1", 0, backlog=4096))
print(server.sockets[0].getsockname()[1], flush=True)
loop.run_forever()
"""


@contextmanager
def bare(wait_ms: int) -> Iterator[Server]:
    """Start a uvloop server that delays each response by `wait_ms`."""
    response = encode_response(FetchResponse(session_id=1), VERSION, 0)
    command = [sys.executable, "-c", BARE, str(wait_ms), response.hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline()
            if not port:
                raise PeerFailed("The bare server did not start.")
            yield Server("bare uvloop", int(port), process.pid, 0.0)
        finally:
            process.terminate()


# --- the table ------------------------------------------------------------------------------------------------------


def measure(server: Server, topic_id: bytes | None, count: int, wait_ms: int, seconds: float) -> Usage:
    """Run one round: connect the consumers, measure, and disconnect them."""
    with ExitStack() as stack:
        consumers = []
        for number in range(count):
            if topic_id is None:
                consumer = connect_bare(server, wait_ms)
            else:
                consumer = connect(server, topic_id, number, wait_ms)
            stack.enter_context(consumer.socket)
            consumers.append(consumer)
        usage = run_idle(server, consumers, wait_ms, seconds)
    if topic_id is not None:
        end_sessions(server, consumers)
    return usage


def topic_of(server: Server) -> bytes:
    """Create the topic and return its id once it is readable."""
    server.create_topic(TOPIC, PARTITIONS)
    give_up = time.monotonic() + UP_SECONDS
    while time.monotonic() < give_up:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        (topic,) = server.call(request, METADATA_VERSION, MetadataResponse).topics
        if topic.error_code == NONE and _is_readable(server, topic.topic_id):
            return topic.topic_id
        time.sleep(0.05)
    raise PeerFailed(f"{server.name} did not create its topic within {UP_SECONDS} s.")


def _is_readable(server: Server, topic_id: bytes) -> bool:
    """Whether all partitions are readable: a broker may know a topic before it leads its partitions."""
    request = _fetch_request(0, FINAL_EPOCH, 0)
    request.topics = [FetchTopic(topic_id=topic_id, partitions=[_partition(number) for number in range(PARTITIONS)])]
    response = server.call(request, VERSION, FetchResponse)
    errors = [partition.error_code for topic in response.responses for partition in topic.partitions]
    return errors == [NONE] * PARTITIONS


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--consumers", type=int, default=1_000)
    parser.add_argument("--wait-ms", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    with both(options.only) as servers, bare(options.wait_ms) as plain:
        heading("idle consumers", [server.name for server in servers])
        sides: list[tuple[Server, bytes | None]] = [(server, topic_of(server)) for server in servers]
        sides.append((plain, None))
        usages: list[list[Usage]] = [[] for _ in sides]
        for _ in range(options.rounds):
            for rounds, (server, topic_id) in zip(usages, sides, strict=True):
                rounds.append(measure(server, topic_id, options.consumers, options.wait_ms, options.seconds))
        *brokers, bare_rounds = usages
        title = f"{options.consumers:,} wait {options.wait_ms} ms at a time, % of a core"
        report(title, [[usage.broker_percent for usage in rounds] for rounds in brokers], ".2f", "≤ 0.5")
        report(
            "  CPU of the broker, µs per request", [[usage.request_us for usage in rounds] for rounds in brokers], ".1f"
        )
        report("  requests/s", [[usage.requests for usage in rounds] for rounds in brokers], ",.0f")
        report(
            "  CPU of the consumers, % of a core",
            [[usage.load_percent for usage in rounds] for rounds in brokers],
            ".1f",
        )
        print(
            f"  a bare uvloop server: {median(usage.broker_percent for usage in bare_rounds):.2f} % of a core, "
            f"{median(usage.request_us for usage in bare_rounds):.1f} µs per request, "
            f"{median(usage.requests for usage in bare_rounds):,.0f} requests/s"
        )


if __name__ == "__main__":
    run(main)
