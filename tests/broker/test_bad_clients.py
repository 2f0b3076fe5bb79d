"""Clients that behave badly: too many, too slow, too silent, too loud. Others go on, and memory is bounded."""

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
from slackwater.wire.envelope import encode_request
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from slackwater.wire.messages.join_group import JoinGroupResponse
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

from .broker_process import BrokerProcess, many_files
from .raw_client import FETCH_V, RawClient, closing
from .server_client import DEADLINE_S, with_server

MB = 1024 * 1024


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with BrokerProcess(tmp_path, settings) as one:
        yield one
        one.stop()
        assert "Traceback" not in one.log, one.log[-4000:]


def test_two_thousand_connections_get_responses(broker: BrokerProcess) -> None:
    @closing
    async def story() -> None:
        clients: list[RawClient] = []
        try:
            for _ in range(20):
                clients += await asyncio.gather(*(broker.connect() for _ in range(100)))
            for version in (3, 4):
                for client in clients:
                    client.send(ApiVersionsRequest("one-of-many", "1.0"), version)
                answers = await asyncio.gather(*(client.answer() for client in clients))
                assert all(isinstance(answer, ApiVersionsResponse) and answer.error_code == 0 for answer in answers)
        finally:
            for client in clients:
                client.close()

    with many_files():
        asyncio.run(story())


def test_connections_above_the_limit_are_rejected(tmp_path: Path) -> None:
    @closing
    async def story(server: Server) -> None:
        clients = [await RawClient.connect(server) for _ in range(3)]
        for client in clients:
            await client.groups()
        turned_away = await RawClient.connect(server)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await turned_away.groups()
        for client in clients:
            await client.groups()
        clients[0].close()
        async with asyncio.timeout(DEADLINE_S):
            while server.connections == 3:
                await asyncio.sleep(0)
        await (await RawClient.connect(server)).groups()

    with_server(tmp_path, story, max_connections="3")


def test_slow_sender_does_not_block_others(broker: BrokerProcess) -> None:
    @closing
    async def story() -> None:
        slow, other = await broker.connect(), await broker.connect()
        for byte in encode_request(ApiVersionsRequest("slow", "1.0"), 3, 1, "slow"):
            slow.send_bytes(bytes([byte]))
            await other.groups()  # between any two bytes others are served
        slow.expect(1, ApiVersionsResponse, 3)
        answer = await slow.answer()
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == 0

    asyncio.run(story())


def test_idle_connection_is_closed(tmp_path: Path) -> None:
    @closing
    async def story(server: Server) -> None:
        silent, half, talker = [await RawClient.connect(server) for _ in range(3)]
        half.send_bytes(struct.pack(">i", 1000) + b"and then no more")
        gone = asyncio.gather(silent.is_closed(), half.is_closed())
        while not gone.done():
            await talker.groups()
        assert all(gone.result())
        await talker.groups()

    with_server(tmp_path, story, connections_max_idle_ms="300")


def test_connection_with_a_pending_request_is_not_idle(tmp_path: Path) -> None:
    """The second member's join waits for the first one, longer than a connection may be idle."""

    @closing
    async def story(server: Server) -> None:
        first = await (await RawClient.connect(server)).join_alone(session_timeout_ms=20_000)
        second = await RawClient.connect(server)
        second.send(first.join_request(""), 3)
        async with asyncio.timeout(DEADLINE_S):
            while await first.heartbeat() is not Error.REBALANCE_IN_PROGRESS:
                pass
        silent = await RawClient.connect(server)  # came after the join; once it is gone, that one has waited longer
        gone = asyncio.ensure_future(silent.is_closed())
        while not gone.done():
            await first.heartbeat()
        first.client.send(first.join_request(first.member_id), 3)
        for joined in await asyncio.gather(first.client.answer(), second.answer()):
            assert isinstance(joined, JoinGroupResponse)
            assert (joined.error_code, joined.generation_id) == (0, 2)

    with_server(tmp_path, story, connections_max_idle_ms="2000")


@pytest.mark.parametrize("size", [2**31 - 1, 104_857_601, -1, -(2**31)])
def test_invalid_frame_size_closes_the_connection_at_once(tmp_path: Path, size: int) -> None:
    @closing
    async def story(server: Server) -> None:
        client, other = await RawClient.connect(server), await RawClient.connect(server)
        await client.groups()
        client.send_bytes(struct.pack(">i", size) + b"x" * 100)
        assert await client.is_closed()
        await other.groups()
        assert server.broker.metrics.malformed == 1

    with_server(tmp_path, story)


def test_announced_frame_allocates_no_memory(broker: BrokerProcess) -> None:
    @closing
    async def story() -> None:
        before = broker.resident_bytes()
        liars = [await broker.connect() for _ in range(50)]
        for liar in liars:
            liar.send_bytes(struct.pack(">i", 100 * MB) + b"x" * 10_000)
        other = await broker.connect()
        for _ in range(20):
            await other.groups()
        assert broker.resident_bytes() < before + 20 * MB

    asyncio.run(story())


def test_requests_behind_a_waiting_one_are_bounded(
    broker: BrokerProcess,
) -> None:
    count, large = 300, SyncGroupRequestAssignment("m", b"x" * 200_000)

    @closing
    async def story() -> None:
        first = await (await broker.connect()).join_alone()
        flood = await broker.connect()
        flood.send(first.join_request(""), 3)  # parked until the first one rejoins
        async with asyncio.timeout(DEADLINE_S):
            while await first.heartbeat() is not Error.REBALANCE_IN_PROGRESS:
                pass
        before = broker.resident_bytes()
        for _ in range(count):
            flood.send(SyncGroupRequest("other", 1, "m", assignments=[large]), 4)
        await _served_until_nothing_moves(flood, first.client)
        assert flood.unsent_bytes > 20 * MB
        assert broker.resident_bytes() < before + 30 * MB
        first.client.send(first.join_request(first.member_id), 3)
        for joined in await asyncio.gather(first.client.answer(), flood.answer()):
            assert isinstance(joined, JoinGroupResponse)
        for _ in range(count):
            answer = await flood.answer()
            assert isinstance(answer, SyncGroupResponse)
            assert answer.error_code == Error.UNKNOWN_MEMBER_ID

    asyncio.run(story())


async def _served_until_nothing_moves(stuck: RawClient, other: RawClient) -> None:
    """Ask on one connection until the other has sent nothing for a good many answers."""
    before, unmoved = -1, 0
    while unmoved < 100:
        await other.groups()
        unmoved = unmoved + 1 if stuck.unsent_bytes == before else 0
        before = stuck.unsent_bytes


def test_client_that_does_not_read_is_bounded(broker: BrokerProcess) -> None:
    size, values, fetches = 32 * MB, 40, (400, 10)

    @closing
    async def story() -> None:
        other = await broker.connect()
        assert await other.create_topic("t") is Error.NONE
        for _ in range(values):
            assert (await other.produce("t", 0, b"x" * 900_000))[0] is Error.NONE
        before = broker.resident_bytes()
        deaf = [socket.create_connection(("127.0.0.1", broker.port)) for _ in fetches]
        try:
            for one, count in zip(deaf, fetches, strict=True):
                one.sendall(b"".join(_fetch(size, number) for number in range(count)))
            for number in range(300):
                assert await other.produce("t", 0, b"y") == (Error.NONE, values + number)
            assert broker.most_resident_bytes() < before + 3 * len(deaf) * size
            await _all_come(deaf[1], fetches[1], at_least=size // 2)  # once it reads, it gets everything
        finally:
            for one in deaf:
                one.close()
        assert len(await other.records("t", 0, values)) == 300

    asyncio.run(story())


def _fetch(size: int, number: int) -> bytes:
    asked = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=size)])
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=size, topics=[asked])
    return encode_request(fetch, FETCH_V, number, "deaf")


async def _all_come(one: socket.socket, count: int, at_least: int) -> None:
    one.setblocking(False)
    loop = asyncio.get_running_loop()

    async def exactly(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            came = await loop.sock_recv(one, min(size - len(data), MB))
            assert came, "the broker closed the connection"
            data += came
        return bytes(data)

    async with asyncio.timeout(DEADLINE_S):
        for number in range(count):
            size, found = struct.unpack(">ii", await exactly(8))
            assert found == number
            assert size > at_least
            await exactly(size - 4)


def test_client_that_never_reads_is_closed_when_idle(tmp_path: Path) -> None:
    @closing
    async def story(server: Server) -> None:
        other = await RawClient.connect(server)
        assert await other.create_topic("t") is Error.NONE
        for _ in range(20):
            await other.produce("t", 0, b"x" * 900_000)
        with socket.create_connection(("127.0.0.1", server.port)) as deaf:
            deaf.sendall(_fetch(32 * MB, 1) * 3)
            async with asyncio.timeout(DEADLINE_S):
                while server.connections != 2:
                    await other.groups()
                while server.connections != 1:
                    await other.groups()

    with_server(tmp_path, story, connections_max_idle_ms="300")


def test_wall_clock_jump_expires_no_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it stop time: a silent member still expires, by the clock that only goes forward."""
    jump_s = 0.0
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + jump_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(jump_s * 1e9))

    @closing
    async def story(server: Server) -> None:
        nonlocal jump_s
        lively = await (await RawClient.connect(server)).join_alone("lively", session_timeout_ms=30_000)
        silent = await (await RawClient.connect(server)).join_alone("silent", session_timeout_ms=500)
        idle = await RawClient.connect(server)
        events: list[GroupEvent] = []
        server.broker.events.subscribe(events.append)
        for jumped_s in (86_400.0, -86_400.0, 3.0e8, 0.0):
            jump_s = jumped_s
            assert await lively.heartbeat() is Error.NONE
            await idle.groups()
        assert not [event for event in events if event.group == "lively"]
        jump_s = -86_400.0
        async with asyncio.timeout(DEADLINE_S):
            while EventKind.MEMBER_EXPIRED not in [event.kind for event in events]:
                assert await lively.heartbeat() is Error.NONE
        assert await silent.heartbeat() is Error.UNKNOWN_MEMBER_ID
        assert await lively.heartbeat() is Error.NONE

    with_server(tmp_path, story, group_min_session_timeout_ms="100")
