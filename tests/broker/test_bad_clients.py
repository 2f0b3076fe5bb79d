"""Badly behaved clients: other clients are served, and memory is bounded."""

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupEvent
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from slackwater.wire.messages.join_group import JoinGroupResponse
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from slackwater.wire.request_response import encode_request

from .broker_process import BrokerProcess, many_files
from .raw_client import FETCH_V, RawClient, closing
from .server_client import DEADLINE_S, with_server

MB = 1024 * 1024


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with BrokerProcess(tmp_path, settings) as running:
        yield running
        running.stop()
        assert "Traceback" not in running.log, running.log[-4000:]


def test_two_thousand_connections_get_responses(broker: BrokerProcess) -> None:
    @closing
    async def scenario() -> None:
        clients: list[RawClient] = []
        try:
            for _ in range(20):
                clients += await asyncio.gather(*(broker.connect() for _ in range(100)))
            for version in (3, 4):
                for client in clients:
                    client.send(ApiVersionsRequest("one-of-many", "1.0"), version)
                responses = await asyncio.gather(*(client.next_response() for client in clients))
                assert all(
                    isinstance(response, ApiVersionsResponse) and response.error_code == 0 for response in responses
                )
        finally:
            for client in clients:
                client.close()

    with many_files():
        asyncio.run(scenario())


def test_connections_above_the_limit_are_rejected(tmp_path: Path) -> None:
    @closing
    async def scenario(server: Server) -> None:
        clients = [await RawClient.connect(server) for _ in range(3)]
        for client in clients:
            await client.groups()
        rejected = await RawClient.connect(server)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await rejected.groups()
        for client in clients:
            await client.groups()
        clients[0].close()
        async with asyncio.timeout(DEADLINE_S):
            while server.connections == 3:
                await asyncio.sleep(0)
        await (await RawClient.connect(server)).groups()

    with_server(tmp_path, scenario, max_connections="3")


def test_slow_sender_does_not_block_others(broker: BrokerProcess) -> None:
    @closing
    async def scenario() -> None:
        slow, other = await broker.connect(), await broker.connect()
        for byte in encode_request(ApiVersionsRequest("slow", "1.0"), 3, 1, "slow"):
            slow.send_bytes(bytes([byte]))
            await other.groups()  # other clients are served between two bytes
        slow.expect(1, ApiVersionsResponse, 3)
        response = await slow.next_response()
        assert isinstance(response, ApiVersionsResponse)
        assert response.error_code == 0

    asyncio.run(scenario())


def test_idle_connection_is_closed(tmp_path: Path) -> None:
    @closing
    async def scenario(server: Server) -> None:
        silent, partial, active = [await RawClient.connect(server) for _ in range(3)]
        partial.send_bytes(struct.pack(">i", 1000) + b"and then no more")
        closed = asyncio.gather(silent.is_closed(), partial.is_closed())
        while not closed.done():
            await active.groups()
        assert all(closed.result())
        await active.groups()

    with_server(tmp_path, scenario, connections_max_idle_ms="300")


def test_connection_with_a_pending_request_is_not_idle(tmp_path: Path) -> None:
    """The join of the second member waits for the first member, longer than connections.max.idle.ms."""

    @closing
    async def scenario(server: Server) -> None:
        first = await (await RawClient.connect(server)).join_alone(session_timeout_ms=20_000)
        second = await RawClient.connect(server)
        second.send(first.join_request(""), 3)
        async with asyncio.timeout(DEADLINE_S):
            while await first.heartbeat() is not Error.REBALANCE_IN_PROGRESS:
                pass
        silent = await RawClient.connect(server)  # connected after the join, so the join has waited longer
        closed = asyncio.ensure_future(silent.is_closed())
        while not closed.done():
            await first.heartbeat()
        first.client.send(first.join_request(first.member_id), 3)
        for response in await asyncio.gather(first.client.next_response(), second.next_response()):
            assert isinstance(response, JoinGroupResponse)
            assert (response.error_code, response.generation_id) == (0, 2)

    with_server(tmp_path, scenario, connections_max_idle_ms="2000")


@pytest.mark.parametrize("size", [2**31 - 1, 104_857_601, -1, -(2**31)])
def test_invalid_frame_size_closes_the_connection_at_once(tmp_path: Path, size: int) -> None:
    @closing
    async def scenario(server: Server) -> None:
        client, other = await RawClient.connect(server), await RawClient.connect(server)
        await client.groups()
        client.send_bytes(struct.pack(">i", size) + b"x" * 100)
        assert await client.is_closed()
        await other.groups()
        assert server.broker.metrics.malformed == 1

    with_server(tmp_path, scenario)


def test_announced_frame_allocates_no_memory(broker: BrokerProcess) -> None:
    @closing
    async def scenario() -> None:
        before = broker.resident_bytes()
        senders = [await broker.connect() for _ in range(50)]
        for sender in senders:
            sender.send_bytes(struct.pack(">i", 100 * MB) + b"x" * 10_000)
        other = await broker.connect()
        for _ in range(20):
            await other.groups()
        assert broker.resident_bytes() < before + 20 * MB

    asyncio.run(scenario())


def test_requests_behind_a_waiting_one_are_bounded(
    broker: BrokerProcess,
) -> None:
    count, large = 300, SyncGroupRequestAssignment("m", b"x" * 200_000)

    @closing
    async def scenario() -> None:
        first = await (await broker.connect()).join_alone()
        flood = await broker.connect()
        flood.send(first.join_request(""), 3)  # waits until the first member rejoins
        async with asyncio.timeout(DEADLINE_S):
            while await first.heartbeat() is not Error.REBALANCE_IN_PROGRESS:
                pass
        before = broker.resident_bytes()
        for _ in range(count):
            flood.send(SyncGroupRequest("other", 1, "m", assignments=[large]), 4)
        await _request_until_stuck(flood, first.client)
        assert flood.unsent_bytes > 20 * MB
        assert broker.resident_bytes() < before + 30 * MB
        first.client.send(first.join_request(first.member_id), 3)
        for response in await asyncio.gather(first.client.next_response(), flood.next_response()):
            assert isinstance(response, JoinGroupResponse)
        for _ in range(count):
            response = await flood.next_response()
            assert isinstance(response, SyncGroupResponse)
            assert response.error_code == Error.UNKNOWN_MEMBER_ID

    asyncio.run(scenario())


async def _request_until_stuck(stuck: RawClient, other: RawClient) -> None:
    """Send requests on `other` until `stuck` has sent nothing during a hundred of them."""
    before, repeats = -1, 0
    while repeats < 100:
        await other.groups()
        repeats = repeats + 1 if stuck.unsent_bytes == before else 0
        before = stuck.unsent_bytes


def test_client_that_does_not_read_is_bounded(broker: BrokerProcess) -> None:
    size, values, fetches = 32 * MB, 40, (400, 10)

    @closing
    async def scenario() -> None:
        other = await broker.connect()
        assert await other.create_topic("t") is Error.NONE
        for _ in range(values):
            assert (await other.produce("t", 0, b"x" * 900_000))[0] is Error.NONE
        before = broker.resident_bytes()
        unread = [socket.create_connection(("127.0.0.1", broker.port)) for _ in fetches]
        try:
            for connection, count in zip(unread, fetches, strict=True):
                connection.sendall(b"".join(_fetch(size, number) for number in range(count)))
            for number in range(300):
                assert await other.produce("t", 0, b"y") == (Error.NONE, values + number)
            assert broker.peak_resident_bytes() < before + 3 * len(unread) * size
            await _read_responses(unread[1], fetches[1], at_least=size // 2)  # it gets all responses when it reads
        finally:
            for connection in unread:
                connection.close()
        assert len(await other.records("t", 0, values)) == 300

    asyncio.run(scenario())


def _fetch(size: int, number: int) -> bytes:
    topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=size)])
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=size, topics=[topic])
    return encode_request(fetch, FETCH_V, number, "client")


async def _read_responses(connection: socket.socket, count: int, at_least: int) -> None:
    connection.setblocking(False)
    loop = asyncio.get_running_loop()

    async def exactly(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = await loop.sock_recv(connection, min(size - len(data), MB))
            assert received, "the broker closed the connection"
            data += received
        return bytes(data)

    async with asyncio.timeout(DEADLINE_S):
        for number in range(count):
            size, correlation_id = struct.unpack(">ii", await exactly(8))
            assert correlation_id == number
            assert size > at_least
            await exactly(size - 4)


def test_client_that_never_reads_is_closed_when_idle(tmp_path: Path) -> None:
    @closing
    async def scenario(server: Server) -> None:
        other = await RawClient.connect(server)
        assert await other.create_topic("t") is Error.NONE
        for _ in range(20):
            await other.produce("t", 0, b"x" * 900_000)
        with socket.create_connection(("127.0.0.1", server.port)) as unread:
            unread.sendall(_fetch(32 * MB, 1) * 3)
            async with asyncio.timeout(DEADLINE_S):
                while server.connections != 2:
                    await other.groups()
                while server.connections != 1:
                    await other.groups()

    with_server(tmp_path, scenario, connections_max_idle_ms="300")


def test_wall_clock_jump_expires_no_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent member still expires, because group timers use the monotonic clock."""
    jump_s = 0.0
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + jump_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(jump_s * 1e9))

    @closing
    async def scenario(server: Server) -> None:
        nonlocal jump_s
        active = await (await RawClient.connect(server)).join_alone("lively", session_timeout_ms=30_000)
        silent = await (await RawClient.connect(server)).join_alone("silent", session_timeout_ms=500)
        idle = await RawClient.connect(server)
        events: list[GroupEvent] = []
        server.broker.events.subscribe(events.append)
        for jumped_s in (86_400.0, -86_400.0, 3.0e8, 0.0):
            jump_s = jumped_s
            assert await active.heartbeat() is Error.NONE
            await idle.groups()
        assert not [event for event in events if event.group == "lively"]
        jump_s = -86_400.0
        async with asyncio.timeout(DEADLINE_S):
            while EventKind.MEMBER_EXPIRED not in [event.kind for event in events]:
                assert await active.heartbeat() is Error.NONE
        assert await silent.heartbeat() is Error.UNKNOWN_MEMBER_ID
        assert await active.heartbeat() is Error.NONE

    with_server(tmp_path, scenario, group_min_session_timeout_ms="100")
