"""Heartbeats and offset commits: requests per second and broker CPU per request, Apache Kafka and Slackwater.

    python benchmarks/broker_requests.py [--rounds N] [--seconds N] [--pipelined] [--one-group] [--only NAME]

The headline is one request in flight on each of 200 and 1,000 connections, which is what stock clients send. With
`--pipelined`, 16 and 200 connections keep 64 requests in flight.

Method:
- Each connection is a member of a stable group. With `--one-group` all connections are members of one group.
- Every response is compared with the expected bytes.
- The brokers alternate, round by round, after a warm-up of each. A value is the median of the rounds; a ratio is the
  median of the ratios of neighbouring rounds. On a busy machine, compare the CPU times and not the rates.
- Requests are encoded in advance. The load generator's share of a core is part of the table.
"""

import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.broker_members import TOPIC, Member, stable_groups
from benchmarks.brokers import CLIENT_ID, PeerFailed, Server, arguments, both, heading, receive_exactly, report, run

from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from slackwater.wire.request_response import encode_request, encode_response
from slackwater.wire.schema import Request, Response

PARTITIONS: Final = 50
CYCLE: Final = 64  # each connection repeats this many encoded requests
PIPELINED_REQUESTS: Final = 64
PIPELINED_WAKE_UP: Final = 16  # the load generator reads when this many responses are in the socket
WARM_UP_SECONDS: Final = 6.0
SETTLE_SECONDS: Final = 0.3
SILENCE_SECONDS: Final = 10


class Load(NamedTuple):
    """One shape of load."""

    connections: int
    group_size: int
    in_flight: int


ONE_IN_FLIGHT: Final = (Load(200, 20, 1), Load(1_000, 20, 1))
PIPELINED: Final = (Load(16, 4, PIPELINED_REQUESTS), Load(200, 20, PIPELINED_REQUESTS))


class Stream:
    """One connection: a cycle of encoded requests and the bytes of their responses."""

    __slots__ = (
        "in_flight",
        "received_bytes",
        "request_bytes",
        "requests",
        "response_bytes",
        "responses",
        "sent",
        "socket",
    )

    def __init__(
        self, connection: socket.socket, requests: Sequence[bytes], responses: Sequence[bytes], in_flight: int
    ) -> None:
        self.socket = connection
        self.in_flight = in_flight
        self.request_bytes = len(requests[0])
        self.response_bytes = len(responses[0])
        # Twice, so that any CYCLE consecutive requests are one slice.
        self.requests = b"".join(requests) * 2
        self.responses = b"".join(responses) * 2
        self.received_bytes = 0
        self.sent = 0

    def start(self) -> None:
        """Send the first requests."""
        self.received_bytes = self.sent = 0
        wake_up = min(PIPELINED_WAKE_UP, self.in_flight)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_up * self.response_bytes)
        self.send(self.in_flight)

    def send(self, count: int) -> None:
        """Send the next requests."""
        start = self.sent % CYCLE * self.request_bytes
        self.socket.sendall(self.requests[start : start + count * self.request_bytes])
        self.sent += count

    def receive(self) -> int:
        """Read and check responses; return how many became complete."""
        return self.check(self.socket.recv(self.in_flight * self.response_bytes))

    def check(self, data: bytes) -> int:
        """Compare received bytes with the expected ones."""
        start = self.received_bytes % (CYCLE * self.response_bytes)
        if not data or self.responses[start : start + len(data)] != data:
            raise PeerFailed(f"The broker sent {data[:80]!r}, expected {self.responses[start : start + 80]!r}.")
        before = self.received_bytes // self.response_bytes
        self.received_bytes += len(data)
        return self.received_bytes // self.response_bytes - before

    def finish(self) -> None:
        """Read the outstanding responses."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self.check(receive_exactly(self.socket, self.sent * self.response_bytes - self.received_bytes))


class Result(NamedTuple):
    """The measurements of one round."""

    rate: float  # responses per second
    broker_us: float  # CPU time of the broker per response
    load_share: float  # CPU of the load generator, as a share of one core


def run_load(server: Server, streams: Sequence[Stream], seconds: float) -> Result:
    """Load one broker for some seconds."""
    by_fd = {stream.socket.fileno(): stream for stream in streams}
    with select.epoll() as epoll:
        for stream in streams:
            epoll.register(stream.socket, select.EPOLLIN)
            stream.start()
        _exchange(epoll, by_fd, SETTLE_SECONDS)
        load_cpu, broker_cpu, began = time.process_time(), server.cpu_seconds(), time.perf_counter()
        count = _exchange(epoll, by_fd, seconds)
        elapsed = time.perf_counter() - began
        broker_cpu, load_cpu = server.cpu_seconds() - broker_cpu, time.process_time() - load_cpu
    for stream in streams:
        stream.finish()
    return Result(count / elapsed, broker_cpu / count * 1e6, load_cpu / elapsed)


def _exchange(epoll: select.epoll, by_fd: dict[int, Stream], seconds: float) -> int:
    """Send the next request for every response; return the number of responses."""
    end = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < end:
        ready = epoll.poll(SILENCE_SECONDS)
        if not ready:
            raise PeerFailed(f"The broker has sent nothing for {SILENCE_SECONDS} s.")
        for fd, _ in ready:
            stream = by_fd[fd]
            completed = stream.receive()
            stream.send(completed)
            count += completed
    return count


# --- requests -------------------------------------------------------------------------------------------------------

Exchange = Callable[[str, Member, int], tuple[Request, Response]]


def heartbeat(group_id: str, member: Member, number: int) -> tuple[Request, Response]:
    """A heartbeat and its response."""
    return HeartbeatRequest(group_id, member.generation_id, member.member_id), HeartbeatResponse()


def commit(group_id: str, member: Member, number: int) -> tuple[Request, Response]:
    """A commit of one partition, with a new offset each time, and its response."""
    partition = member.socket.fileno() % PARTITIONS
    request = OffsetCommitRequest(
        group_id,
        member.generation_id,
        member.member_id,
        topics=[OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(partition, number, -1, "")])],
    )
    response = OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(TOPIC, partitions=[OffsetCommitResponsePartition(partition)])]
    )
    return request, response


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request and the target of its CPU ratio, by number of connections."""

    title: str
    exchange: Exchange
    version: int
    targets: dict[int, str]


HEARTBEATS: Final = Kind("heartbeats", heartbeat, 4, {200: "≤ 0.4", 1_000: "≤ 0.6"})
COMMITS: Final = Kind("offset commits", commit, 9, {200: "≤ 0.6", 1_000: "≤ 0.8"})
KINDS: Final = (HEARTBEATS, COMMITS)


def streams_of(kind: Kind, members: Sequence[tuple[str, Member]], in_flight: int) -> list[Stream]:
    """Encode each member's requests and the expected responses."""
    streams = []
    for group_id, member in members:
        pairs = [kind.exchange(group_id, member, number) for number in range(CYCLE)]
        requests = [encode_request(request, kind.version, at, CLIENT_ID) for at, (request, _) in enumerate(pairs)]
        responses = [encode_response(response, kind.version, at) for at, (_, response) in enumerate(pairs)]
        streams.append(Stream(member.socket, requests, responses, in_flight))
    return streams


def members_of(
    server: Server, connections: Sequence[socket.socket], size: int, name: str = "load"
) -> list[tuple[str, Member]]:
    """Stable groups of `size` members; each member with its group id."""
    groups = stable_groups(server, connections, size, f"{name}-{len(connections)}")
    return [(group.group_id, member) for group in groups for member in group.members]


def measure(servers: Sequence[Server], load: Load, group_size: int, rounds: int, seconds: float) -> None:
    """Measure both kinds of request with one shape of load."""
    with ExitStack() as stack:
        members = [
            members_of(server, [stack.enter_context(server.connect()) for _ in range(load.connections)], group_size)
            for server in servers
        ]
        for kind in KINDS:
            sides = [
                (server, streams_of(kind, of_server, load.in_flight))
                for server, of_server in zip(servers, members, strict=True)
            ]
            for server, streams in sides:
                run_load(server, streams, WARM_UP_SECONDS)
            results = [[run_load(server, streams, seconds) for server, streams in sides] for _ in range(rounds)]
            by_server = list(zip(*results, strict=True))
            target = kind.targets.get(load.connections, "") if load.in_flight == 1 else ""
            title = f"{kind.title}, {load.connections:,} connections: broker CPU, µs"
            report(title, [[result.broker_us for result in each] for each in by_server], ",.1f", target)
            report("  requests/s", [[result.rate for result in each] for each in by_server], ",.0f")
            shares = "".join(f"{median(result.load_share for result in each):>13.0%}" for each in by_server)
            print(f"  {'  load generator, of a core':<48}{shares}", flush=True)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--pipelined", action="store_true")
    parser.add_argument("--one-group", action="store_true")
    options = parser.parse_args()
    with both(options.only) as servers:
        for server in servers:
            server.create_topic(TOPIC, PARTITIONS)
        loads = PIPELINED if options.pipelined else ONE_IN_FLIGHT
        heading(f"{loads[0].in_flight} request(s) in flight", [server.name for server in servers])
        for load in loads:
            size = load.connections if options.one_group else load.group_size
            measure(servers, load, size, options.rounds, options.seconds)


if __name__ == "__main__":
    run(main)
