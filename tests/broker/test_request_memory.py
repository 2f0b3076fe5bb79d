"""The memory of unfinished requests of all connections is bounded."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from slackwater.broker import request_memory
from slackwater.broker.server import Server
from slackwater.group.errors import Error

from .broker_process import BrokerProcess
from .raw_client import RawClient, closing
from .server_client import with_server

MEGABYTE = 1 << 20
LIMIT = 4 * MEGABYTE
SIZE = 3 * MEGABYTE  # of a request
UNFINISHED = struct.pack(">ihh", SIZE, 0, 9)


async def _until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


@closing
async def _unfinished_requests_are_bounded(server: Server) -> None:
    senders = [await RawClient.at(server.port) for _ in range(20)]
    for sender in senders:
        sender.send_bytes(UNFINISHED + bytes(SIZE - MEGABYTE))
    await _until(lambda: server.request_memory.total_bytes > LIMIT)
    member = await (await RawClient.at(server.port)).join_alone()
    assert await member.heartbeat() is Error.NONE
    # Every socket is read once more, at most, after the limit is exceeded.
    assert server.request_memory.total_bytes < LIMIT + 20 * MEGABYTE // 2


def test_unfinished_requests_are_bounded(tmp_path: Path) -> None:
    with_server(tmp_path, _unfinished_requests_are_bounded, queued_max_request_bytes=str(LIMIT))


def test_large_requests_above_the_limit_are_all_answered(tmp_path: Path) -> None:
    @closing
    async def scenario(server: Server) -> None:
        creator = await RawClient.at(server.port)
        await creator.create_topic("t", max_message_bytes=str(2 * SIZE))
        clients = [await RawClient.at(server.port) for _ in range(10)]
        results = await asyncio.gather(*(client.produce("t", 0, bytes(SIZE)) for client in clients))
        assert [error for error, _ in results] == [Error.NONE] * 10
        assert sorted(offset for _, offset in results) == list(range(10))
        await _until(lambda: server.request_memory.total_bytes == 0)

    with_server(tmp_path, scenario, queued_max_request_bytes=str(LIMIT))


def test_unfinished_requests_give_way_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_memory, "GRACE_S", 0.05)

    @closing
    async def scenario(server: Server) -> None:
        creator = await RawClient.at(server.port)
        await creator.create_topic("t", max_message_bytes=str(2 * SIZE))
        senders = [await RawClient.at(server.port) for _ in range(5)]
        for sender in senders:
            sender.send_bytes(UNFINISHED + bytes(SIZE - MEGABYTE))
        await _until(lambda: server.request_memory.total_bytes > LIMIT)
        error, _ = await (await RawClient.at(server.port)).produce("t", 0, bytes(SIZE))
        assert error is Error.NONE
        assert await senders[0].is_closed()

    with_server(tmp_path, scenario, queued_max_request_bytes=str(LIMIT))


def test_closed_connections_hold_no_memory(tmp_path: Path) -> None:
    @closing
    async def scenario(server: Server) -> None:
        sender = await RawClient.at(server.port)
        sender.send_bytes(UNFINISHED + bytes(MEGABYTE))
        await _until(lambda: server.request_memory.total_bytes >= MEGABYTE)
        sender.abort()
        await _until(lambda: server.request_memory.total_bytes == 0)

    with_server(tmp_path, scenario, queued_max_request_bytes=str(LIMIT))


def test_closed_connections_free_their_memory_at_once(tmp_path: Path) -> None:
    """The garbage collector, which frees closed connections, runs rarely."""
    with BrokerProcess(tmp_path) as broker:
        before = broker.resident_bytes()
        for _ in range(150):
            with socket.create_connection(("127.0.0.1", broker.port)) as sender:
                sender.sendall(UNFINISHED + bytes(2 * MEGABYTE))
        descriptors = broker.open_descriptors
        asyncio.run(_until(lambda: descriptors() < 100))
        assert broker.peak_resident_bytes() - before < 100 * MEGABYTE
