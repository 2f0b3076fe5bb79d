"""Steps of the wall clock: timestamps and retention follow it, timers do not."""

import asyncio
import time
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.clock import ManualClock
from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.wire.internal_topics.consumer_offsets import decode_offset_value
from slackwater.wire.records.record import Record, encode_batch

from .raw_client import RawClient, closing
from .server_client import with_server

TWO_HOURS_MS = 2 * 60 * 60 * 1000
BOTH_WAYS = pytest.mark.parametrize("step_ms", [TWO_HOURS_MS, -TWO_HOURS_MS], ids=["forward", "back"])


async def _produce(client: RawClient, topic: str, timestamp: int) -> Error:
    client.send_batch(topic, 0, encode_batch([Record(b"k", b"v", timestamp=timestamp)]))
    return Error((await client.next_produce_response()).error_code)


@BOTH_WAYS
def test_current_timestamps_are_accepted_after_a_step(
    tmp_path: Path, step_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_ns, step_ns = time.time_ns, 0
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + step_ns)

    @closing
    async def scenario(server: Server) -> None:
        nonlocal step_ns
        client = await RawClient.at(server.port)
        await client.create_topic("t")
        assert await _produce(client, "t", time.time_ns() // 1_000_000) is Error.NONE
        step_ns = step_ms * 1_000_000
        assert await _produce(client, "t", time.time_ns() // 1_000_000) is Error.NONE
        too_new = time.time_ns() // 1_000_000 + TWO_HOURS_MS
        assert await _produce(client, "t", too_new) is Error.INVALID_TIMESTAMP

    with_server(tmp_path, scenario)


@BOTH_WAYS
def test_append_time_follows_the_wall_clock(tmp_path: Path, step_ms: int) -> None:
    wall = ManualClock()

    @closing
    async def scenario(server: Server) -> None:
        client = await RawClient.at(server.port)
        await client.create_topic("t", message_timestamp_type="LogAppendTime")
        await _produce(client, "t", 1)
        wall.advance_ms(step_ms)
        await _produce(client, "t", 1)
        first, second = await client.records("t", 0)
        assert second.timestamp - first.timestamp == step_ms

    with_server(tmp_path, scenario, clock=wall)


@BOTH_WAYS
def test_sessions_survive_a_step(tmp_path: Path, step_ms: int) -> None:
    wall = ManualClock()

    @closing
    async def scenario(server: Server) -> None:
        member = await (await RawClient.at(server.port)).join_alone(session_timeout_ms=30_000)
        wall.advance_ms(step_ms)
        server.broker.group_coordinator.tick()
        assert await member.heartbeat() is Error.NONE

    with_server(tmp_path, scenario, clock=wall)


@BOTH_WAYS
def test_commits_have_the_wall_time(tmp_path: Path, step_ms: int) -> None:
    wall = ManualClock()

    @closing
    async def scenario(server: Server) -> None:
        client = await RawClient.at(server.port)
        await client.create_topic("t")
        assert await client.commit("g", {("t", 0): 1}) is Error.NONE
        wall.advance_ms(step_ms)
        assert await client.commit("g", {("t", 0): 2}) is Error.NONE
        records = [record for index in range(3) for record in await client.records(OFFSETS_TOPIC, index)]
        values = [decode_offset_value(record.value) for record in records if record.value is not None]
        first, second = [value.commit_timestamp_ms for value in values]
        assert abs(second - first - step_ms) < 60_000
        assert abs(second - wall.now_ms()) < 60_000

    with_server(tmp_path, scenario, clock=wall)


def test_offsets_expire_by_wall_time(tmp_path: Path) -> None:
    wall = ManualClock()

    @closing
    async def scenario(server: Server) -> None:
        client = await RawClient.at(server.port)
        await client.create_topic("t")
        assert await client.commit("g", {("t", 0): 1}) is Error.NONE
        wall.advance_ms(TWO_HOURS_MS)
        async with asyncio.timeout(60):
            while "g" in server.broker.group_coordinator.coordinator.groups:
                await asyncio.sleep(0.01)

    with_server(
        tmp_path,
        scenario,
        clock=wall,
        offsets_retention_minutes="60",
        offsets_retention_check_interval_ms="10",
    )


def test_segments_expire_by_wall_time(tmp_path: Path) -> None:
    wall = ManualClock()

    @closing
    async def scenario(server: Server) -> None:
        client = await RawClient.at(server.port)
        await client.create_topic("t", retention_ms=str(TWO_HOURS_MS))
        await _produce(client, "t", wall.now_ms())
        topic = server.broker.topics.get("t")
        assert topic is not None
        log = topic.partitions[0].log
        wall.advance_ms(-TWO_HOURS_MS)
        assert log.delete_expired_segments(wall.now_ms()) == []
        wall.advance_ms(2 * TWO_HOURS_MS + 1)
        assert log.delete_expired_segments(wall.now_ms()) == [0]

    with_server(tmp_path, scenario, clock=wall)
