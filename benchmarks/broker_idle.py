"""What consumers cost that wait for records in vain, with Apache Kafka and with our broker in the same run.

    python benchmarks/broker_idle.py [--consumers N] [--wait-ms MS] [--rounds N] [--seconds S] [--only kafka|slackwater]

A thousand consumers, each with a connection and a fetch session of its own, ask as a Java consumer asks when it has
read everything: an incremental Fetch that changes nothing, with `fetch.max.wait.ms` 500, and the next one when it is
answered. They begin spread over the time of one wait. Counted is the broker's CPU time, as a share of one core; beside
it stands a bare uvloop server that knows no protocol: it keeps each request for as long, and answers it with as many
bytes. Every answer is looked at. The consumers live in one Python process, and each of them asks again at once.
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

from benchmarks.brokers import CLIENT_ID, NONE, PeerFailed, Server, arguments, ask, both, heading, report, run

from slackwater.wire.envelope import encode_request, encode_response
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

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
_CORRELATION_AT: Final = 8  # behind size, API and version
_ANSWERED_AT: Final = 4  # behind the size of an answer
_TURNED_OVER: Final = -1  # an epoch that differs from 0 in all its bytes


class Share(NamedTuple):
    """What one stretch of waiting cost."""

    of_a_core: float  # the broker's CPU time, in percent of the time that passed
    server_us: float  # CPU time of the broker per request
    requests: float  # per second
    load: float  # the consumers' own CPU time, in percent


class Consumer:
    """One consumer: its request, of which two numbers change, and the answer that says that there is nothing."""

    __slots__ = ("_answer", "_epoch", "_epoch_at", "_request", "session_id", "socket")

    def __init__(self, connection: socket.socket, session_id: int, wait_ms: int) -> None:
        self.socket = connection
        self.session_id = session_id
        first, second = (_encode(_again(session_id, epoch, wait_ms)) for epoch in (0, _TURNED_OVER))
        self._request = bytearray(first)
        self._epoch = 0
        self._epoch_at = next(at for at, (one, two) in enumerate(zip(first, second, strict=True)) if one != two)
        self._answer = bytearray(encode_response(FetchResponse(session_id=session_id), VERSION, 0))

    def send(self) -> None:
        """Ask again."""
        self._epoch += 1
        _NUMBER.pack_into(self._request, self._epoch_at, self._epoch)
        _NUMBER.pack_into(self._request, _CORRELATION_AT, self._epoch)
        _NUMBER.pack_into(self._answer, _ANSWERED_AT, self._epoch)
        self.socket.sendall(self._request)

    def receive(self) -> None:
        """There must be an answer, and it must say that there is nothing."""
        data = self.socket.recv(RECEIVE_BYTES)
        if data != self._answer:
            raise PeerFailed(f"A fetch was answered with {data[:80]!r}, not {bytes(self._answer)!r}.")


def _again(session_id: int, epoch: int, wait_ms: int) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=MAX_BYTES, session_id=session_id, session_epoch=epoch
    )


def _partition(number: int) -> FetchPartition:
    return FetchPartition(number, 0, 0, partition_max_bytes=PARTITION_MAX_BYTES)


def _encode(request: FetchRequest) -> bytes:
    return encode_request(request, VERSION, 0, CLIENT_ID)


def connect(server: Server, topic_id: bytes, number: int, wait_ms: int) -> Consumer:
    """A consumer of one partition that has its session."""
    connection = server.connect()
    request = _again(0, 0, 0)
    request.topics = [FetchTopic(topic_id=topic_id, partitions=[_partition(number % PARTITIONS)])]
    answer = ask(connection, request, VERSION, FetchResponse)
    (topic,) = answer.responses
    if answer.error_code != NONE or not answer.session_id or topic.partitions[0].error_code != NONE:
        raise PeerFailed(f"{server.name} gave no session: {answer}.")
    return Consumer(connection, answer.session_id, wait_ms)


def connect_bare(server: Server, wait_ms: int) -> Consumer:
    """The same, to a server that knows no sessions."""
    return Consumer(server.connect(), 1, wait_ms)


def end_sessions(server: Server, consumers: Sequence[Consumer]) -> None:
    """Give the sessions back, as consumers do that are closed: a broker has only so many."""
    with server.connect() as connection:
        for consumer in consumers:
            ask(connection, _again(consumer.session_id, FINAL_EPOCH, 0), VERSION, FetchResponse)


def wait_in_vain(server: Server, consumers: Sequence[Consumer], wait_ms: int, seconds: float) -> Share:
    """Let them wait, and ask again, for so long."""
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
    return Share(served / took * 100, served / count * 1e6, count / took, spent / took * 100)


def _exchange(epoll: select.epoll, by_fd: dict[int, Consumer], seconds: float) -> int:
    """Ask again for every answer; how many there were."""
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
        loop.call_later(wait, self.answer, body[:4] + data[8:12] + body[8:])

    def answer(self, frame):
        if not self.transport.is_closing():
            self.transport.write(frame)

loop = uvloop.new_event_loop()
server = loop.run_until_complete(loop.create_server(Bare, "127.0.0.1", 0, backlog=4096))
print(server.sockets[0].getsockname()[1], flush=True)
loop.run_forever()
"""


@contextmanager
def bare(wait_ms: int) -> Iterator[Server]:
    """A uvloop server that keeps each request for so long."""
    answer = encode_response(FetchResponse(session_id=1), VERSION, 0)
    command = [sys.executable, "-c", BARE, str(wait_ms), answer.hex()]
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


def measure(server: Server, topic_id: bytes | None, count: int, wait_ms: int, seconds: float) -> Share:
    """One round: everybody connects, waits, and goes."""
    with ExitStack() as stack:
        consumers = []
        for number in range(count):
            if topic_id is None:
                consumer = connect_bare(server, wait_ms)
            else:
                consumer = connect(server, topic_id, number, wait_ms)
            stack.enter_context(consumer.socket)
            consumers.append(consumer)
        share = wait_in_vain(server, consumers, wait_ms, seconds)
    if topic_id is not None:
        end_sessions(server, consumers)
    return share


def topic_of(server: Server) -> bytes:
    """The id of a new topic that can be read."""
    server.create_topic(TOPIC, PARTITIONS)
    give_up = time.monotonic() + UP_SECONDS
    while time.monotonic() < give_up:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        (topic,) = server.ask(request, METADATA_VERSION, MetadataResponse).topics
        if topic.error_code == NONE and _is_readable(server, topic.topic_id):
            return topic.topic_id
        time.sleep(0.05)
    raise PeerFailed(f"{server.name} has not made its topic after {UP_SECONDS} s.")


def _is_readable(server: Server, topic_id: bytes) -> bool:
    """Whether all partitions answer: a broker may know of a topic before it leads it."""
    request = _again(0, FINAL_EPOCH, 0)
    request.topics = [FetchTopic(topic_id=topic_id, partitions=[_partition(number) for number in range(PARTITIONS)])]
    answer = server.ask(request, VERSION, FetchResponse)
    found = [partition.error_code for topic in answer.responses for partition in topic.partitions]
    return found == [NONE] * PARTITIONS


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--consumers", type=int, default=1_000)
    parser.add_argument("--wait-ms", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    with both(options.only) as servers, bare(options.wait_ms) as plain:
        heading("consumers that wait in vain", [server.name for server in servers])
        sides: list[tuple[Server, bytes | None]] = [(server, topic_of(server)) for server in servers]
        sides.append((plain, None))
        shares: list[list[Share]] = [[] for _ in sides]
        for _ in range(options.rounds):
            for of_side, (server, topic_id) in zip(shares, sides, strict=True):
                of_side.append(measure(server, topic_id, options.consumers, options.wait_ms, options.seconds))
        *of_brokers, of_plain = shares
        title = f"{options.consumers:,} wait {options.wait_ms} ms at a time, % of a core"
        report(title, [[each.of_a_core for each in one] for one in of_brokers], ".2f", "≤ 0.5")
        report("  CPU of the broker, µs a request", [[each.server_us for each in one] for one in of_brokers], ".1f")
        report("  requests/s", [[each.requests for each in one] for one in of_brokers], ",.0f")
        report("  CPU of the consumers, % of a core", [[each.load for each in one] for one in of_brokers], ".1f")
        print(
            f"  a bare uvloop server: {median(each.of_a_core for each in of_plain):.2f} % of a core, "
            f"{median(each.server_us for each in of_plain):.1f} µs a request, "
            f"{median(each.requests for each in of_plain):,.0f} requests/s"
        )


if __name__ == "__main__":
    run(main)
