"""Heartbeats and offset commits answered per second, by Apache Kafka and by our broker in the same run.

    python benchmarks/broker_load.py [--rounds N] [--seconds N] [--one-group] [--only kafka|slackwater]

Rules kept here
- 16 and 200 connections, each a member of a stable group of several, with 64 requests in flight: as answers come in,
  the next requests go out, so that there are never more than 64 on their way and always 48 or more.
- Every answer is looked at: its bytes must be those of "no error" with the next correlation id.
- With `--one-group` all are members of one group. Kafka is slower then: one thread at a time works for a group.
- The brokers take turns, round by round, after a warm-up of each; a figure is the median of the rounds, a ratio the
  median of the ratios of neighbours.
- The load must not be what is measured. Requests are encoded beforehand and answers compared as bytes, many at a time;
  the load's share of a core is shown.
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

from benchmarks.broker_members import TOPIC, Member, settled_groups
from benchmarks.brokers import CLIENT_ID, PeerFailed, Server, arguments, both, heading, receive_exactly, report, run

from slackwater.wire.envelope import encode_request, encode_response
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from slackwater.wire.schema import Request, Response

IN_FLIGHT: Final = 64
AT_A_TIME: Final = 16  # so many answers wake the load; until then they wait in the socket
PARTITIONS: Final = 50
WARM_UP_SECONDS: Final = 6.0
SETTLE_SECONDS: Final = 0.3
SILENCE_SECONDS: Final = 10
LOADS: Final = ((16, 4), (200, 20))  # connections, members of a group


class Stream:
    """One connection: requests that repeat every 64, and the bytes that must come back for them."""

    __slots__ = ("answer_size", "answers", "arrived", "request_size", "requests", "sent", "socket")

    def __init__(self, connection: socket.socket, requests: Sequence[bytes], answers: Sequence[bytes]) -> None:
        self.socket = connection
        self.request_size = len(requests[0])
        self.answer_size = len(answers[0])
        # Twice, so that 64 in a row are one slice wherever they begin.
        self.requests = b"".join(requests) * 2
        self.answers = b"".join(answers) * 2
        self.arrived = 0  # bytes, since the load began
        self.sent = 0  # requests

    def start(self) -> None:
        """Put all 64 under way."""
        self.arrived = self.sent = 0
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, AT_A_TIME * self.answer_size)
        self.send(IN_FLIGHT)

    def send(self, count: int) -> None:
        """Send the next requests."""
        at = self.sent % IN_FLIGHT * self.request_size
        self.socket.sendall(self.requests[at : at + count * self.request_size])
        self.sent += count

    def receive(self) -> int:
        """Check what has come; how many answers are whole now that were not before."""
        data = self.socket.recv(IN_FLIGHT * self.answer_size)
        return self.check(data)

    def check(self, data: bytes) -> int:
        """Compare with what must come."""
        at = self.arrived % (IN_FLIGHT * self.answer_size)
        if not data or self.answers[at : at + len(data)] != data:
            raise PeerFailed(f"The broker answered {data[:80]!r}, not {self.answers[at : at + 80]!r}.")
        before = self.arrived // self.answer_size
        self.arrived += len(data)
        return self.arrived // self.answer_size - before

    def finish(self) -> None:
        """Take what is still on its way."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self.check(receive_exactly(self.socket, self.sent * self.answer_size - self.arrived))


class Burst(NamedTuple):
    """What one stretch of load gave."""

    rate: float  # answers per second
    server_us: float  # CPU time of the broker per answer
    load_share: float  # of one core


def burst(server: Server, streams: Sequence[Stream], seconds: float) -> Burst:
    """Load the broker for a while, and count."""
    by_fd = {stream.socket.fileno(): stream for stream in streams}
    with select.epoll() as epoll:
        for stream in streams:
            epoll.register(stream.socket, select.EPOLLIN)
            stream.start()
        _exchange(epoll, by_fd, SETTLE_SECONDS)
        spent, served, began = time.process_time(), server.cpu_seconds(), time.perf_counter()
        count = _exchange(epoll, by_fd, seconds)
        took = time.perf_counter() - began
        served, spent = server.cpu_seconds() - served, time.process_time() - spent
    for stream in streams:
        stream.finish()
    return Burst(count / took, served / count * 1e6, spent / took)


def _exchange(epoll: select.epoll, by_fd: dict[int, Stream], seconds: float) -> int:
    """Send for every answer the next request; the number of answers."""
    end = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < end:
        ready = epoll.poll(SILENCE_SECONDS)
        if not ready:
            raise PeerFailed(f"The broker has answered nothing for {SILENCE_SECONDS} s.")
        for fd, _ in ready:
            stream = by_fd[fd]
            answered = stream.receive()
            stream.send(answered)
            count += answered
    return count


# --- requests -------------------------------------------------------------------------------------------------------

Exchange = Callable[[str, Member, int], tuple[Request, Response]]


def heartbeat(group_id: str, member: Member, number: int) -> tuple[Request, Response]:
    """A heartbeat and its answer."""
    return HeartbeatRequest(group_id, member.generation_id, member.member_id), HeartbeatResponse()


def commit(group_id: str, member: Member, number: int) -> tuple[Request, Response]:
    """A commit of one partition, a new offset each time, and its answer."""
    partition = member.socket.fileno() % PARTITIONS
    request = OffsetCommitRequest(
        group_id,
        member.generation_id,
        member.member_id,
        topics=[OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(partition, number, -1, "")])],
    )
    answer = OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(TOPIC, partitions=[OffsetCommitResponsePartition(partition)])]
    )
    return request, answer


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of load: what is asked, in which version, and how many times Kafka's rate is owed."""

    title: str
    exchange: Exchange
    version: int
    owed: str


KINDS: Final = (Kind("heartbeats/s", heartbeat, 4, "≥ 3"), Kind("offset commits/s", commit, 9, "≥ 2"))


def streams_of(kind: Kind, members: Sequence[tuple[str, Member]]) -> list[Stream]:
    """Encode each member's requests, and the answers they must get."""
    streams = []
    for group_id, member in members:
        pairs = [kind.exchange(group_id, member, number) for number in range(IN_FLIGHT)]
        requests = [encode_request(asked, kind.version, at, CLIENT_ID) for at, (asked, _) in enumerate(pairs)]
        answers = [encode_response(answer, kind.version, at) for at, (_, answer) in enumerate(pairs)]
        streams.append(Stream(member.socket, requests, answers))
    return streams


def members_of(server: Server, connections: Sequence[socket.socket], size: int) -> list[tuple[str, Member]]:
    """Stable groups of `size` members each, with their group's id."""
    groups = settled_groups(server, connections, size, f"load-{len(connections)}")
    return [(group.group_id, member) for group in groups for member in group.members]


def measure(servers: Sequence[Server], count: int, size: int, rounds: int, seconds: float) -> None:
    """One number of connections: both kinds of load, the brokers taking turns."""
    with ExitStack() as stack:
        members = [
            members_of(server, [stack.enter_context(server.connect()) for _ in range(count)], size)
            for server in servers
        ]
        for kind in KINDS:
            sides = [(server, streams_of(kind, each)) for server, each in zip(servers, members, strict=True)]
            for server, streams in sides:
                burst(server, streams, WARM_UP_SECONDS)
            results = [[burst(server, streams, seconds) for server, streams in sides] for _ in range(rounds)]
            by_server = list(zip(*results, strict=True))
            title = f"{kind.title}, {count} connections"
            report(title, [[each.rate for each in one] for one in by_server], ",.0f", kind.owed)
            report("  CPU of the broker, µs each", [[each.server_us for each in one] for one in by_server], ",.1f")
            shares = "".join(f"{median(each.load_share for each in one):>13.0%}" for one in by_server)
            print(f"  {'  the load, of a core':<48}{shares}", flush=True)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--one-group", action="store_true")
    options = parser.parse_args()
    with both(options.only) as servers:
        heading("64 requests in flight", [server.name for server in servers])
        for server in servers:
            server.create_topic(TOPIC, PARTITIONS)
        for count, size in LOADS:
            measure(servers, count, count if options.one_group else size, options.rounds, options.seconds)


if __name__ == "__main__":
    run(main)
