"""Faults of the network: slow, half-open, reset and silent connections, and thousands of them.

Invariants:
- Connections of a fault are closed with a reset, so that they leave no ports behind that wait.
"""

import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from slackwater.wire.messages.api_versions import ApiVersionsRequest
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from slackwater.wire.messages.list_groups import ListGroupsRequest
from slackwater.wire.messages.metadata import MetadataRequest
from slackwater.wire.request_response import encode_request
from slackwater.wire.schema import Request
from tests.broker.broker_process import many_files
from tests.broker.raw_client import FETCH_V
from tests.chaos.episode import Episode
from tests.chaos.faults.registry import fault
from tests.chaos.load import PLAIN
from tests.chaos.oracles import Violation
from tests.chaos.oracles.liveness import ANSWER_S, read_exactly

RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
MAX_CONNECTIONS: Final = 10_000
MAX_HOLD_S: Final = 2.0
READ_ALL_BYTES: Final = 50 * 1024 * 1024


def connect(episode: Episode) -> socket.socket:
    """Open a connection that is reset when it is closed."""
    connection = socket.create_connection(("127.0.0.1", episode.port), ANSWER_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    episode.counts.connections += 1
    return connection


@contextmanager
def connections(episode: Episode, count: int) -> Iterator[list[socket.socket]]:
    """Open many connections, and reset them at the end."""
    opened: list[socket.socket] = []
    with many_files():
        try:
            for _ in range(count):
                opened.append(connect(episode))
            yield opened
        finally:
            for connection in opened:
                connection.close()


def small_request(rng: random.Random) -> bytes:
    """Return the frame of a request that every broker answers."""
    requests: list[tuple[Request, int]] = [
        (ApiVersionsRequest("chaos", "1"), 3),
        (MetadataRequest(topics=None), 12),
        (ListGroupsRequest(), 4),
    ]
    request, version = rng.choice(requests)
    return encode_request(request, version, rng.getrandbits(31), "chaos")


def read_response(connection: socket.socket) -> bytes:
    """Read one response; raise `Violation` if there is none in time."""
    try:
        connection.settimeout(ANSWER_S)
        (size,) = struct.unpack(">i", read_exactly(connection, 4))
        return read_exactly(connection, size)
    except TimeoutError as error:
        raise Violation(f"no response within {ANSWER_S:g} s") from error


@fault("network.bytewise", weight=1)
def bytewise(episode: Episode, rng: random.Random) -> str:
    """Send requests in single bytes, on several connections at once."""
    with connections(episode, rng.choice((1, 5, 20))) as opened:
        frames = [small_request(rng) for _ in opened]
        for connection in opened:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(max(map(len, frames))):
            for connection, frame in zip(opened, frames, strict=True):
                connection.sendall(frame[position : position + 1])
            time.sleep(0.001)
        for connection in opened:
            read_response(connection)
    return f"{len(opened)} connections"


@fault("network.half_open")
def half_open(episode: Episode, rng: random.Random) -> str:
    """Close only the sending side, in the middle of a frame or after it."""
    with connections(episode, rng.choice((1, 20, 200))) as opened:
        for connection in opened:
            frame = small_request(rng)
            connection.sendall(frame[: rng.choice((len(frame), rng.randrange(len(frame))))])
            connection.shutdown(socket.SHUT_WR)
        time.sleep(rng.uniform(0, MAX_HOLD_S))
    return f"{len(opened)} connections"


@fault("network.reset")
def reset(episode: Episode, rng: random.Random) -> str:
    """Reset connections while requests and large responses are on their way."""
    count = rng.choice((10, 100, 500))
    for _ in range(count):
        with connect(episode) as connection:
            connection.sendall(b"".join([_read_all(), *(small_request(rng) for _ in range(rng.randrange(5)))]))
            if rng.random() < 0.3:
                with suppress(OSError):
                    connection.recv(rng.choice((1, 1000)))
    return f"{count} connections"


@fault("network.idle", weight=2)
def idle(episode: Episode, rng: random.Random) -> str:
    """Keep up to 10,000 connections open that send nothing, or one request each."""
    count = rng.choice((100, 1_000, 3_000, MAX_CONNECTIONS))
    with connections(episode, count) as opened:
        if sends := rng.random() < 0.5:
            for connection in opened:
                connection.sendall(small_request(rng))
            for connection in rng.sample(opened, 20):
                read_response(connection)
        time.sleep(rng.uniform(0, MAX_HOLD_S))
    return f"{count} connections{', one request each' if sends else ''}"


@fault("network.never_reads")
def never_reads(episode: Episode, rng: random.Random) -> str:
    """Request much data, and read nothing."""
    count, requests = rng.choice((1, 20, 100)), rng.choice((1, 50, 300))
    with connections(episode, count) as opened:
        for connection in opened:
            connection.setblocking(False)
            with suppress(BlockingIOError):
                connection.sendall(_read_all() * requests)
        time.sleep(rng.uniform(0, MAX_HOLD_S))
    return f"{count} connections, {requests} fetches each"


@fault("network.unfinished")
def unfinished(episode: Episode, rng: random.Random) -> str:
    """Send the beginning of large frames on many connections, and never the rest."""
    count, size = rng.choice(((1, 90 << 20), (10, 50 << 20), (100, 8 << 20), (1000, 1 << 20)))
    part = bytes(1 << 20)
    with connections(episode, count) as opened:
        for connection in opened:
            # The broker may close a connection or stop to read it when there is too much.
            connection.settimeout(0.05)
            with suppress(OSError):
                connection.sendall(struct.pack(">i", size + 1))
                for _ in range(size // len(part)):
                    connection.sendall(part)
        time.sleep(rng.uniform(0, MAX_HOLD_S))
    return f"{count} connections, {size >> 20} MB each"


def _read_all() -> bytes:
    fetched = FetchPartition(0, fetch_offset=0, partition_max_bytes=READ_ALL_BYTES)
    topics = [FetchTopic(PLAIN, partitions=[fetched])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=READ_ALL_BYTES, topics=topics)
    return encode_request(request, FETCH_V, 1, "chaos")
