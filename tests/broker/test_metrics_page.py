"""The `/metrics` page, read with Prometheus's parser."""

import asyncio
import re
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slackwater.broker import metrics_page
from slackwater.broker.groups.group_metrics import GroupFigures
from slackwater.broker.metrics_page import MetricsPage, group_families
from slackwater.broker.server import Server
from slackwater.clock import ManualClock
from slackwater.group.assignors.consumer_protocol import PROTOCOL_TYPE
from slackwater.group.errors import Error, UsageError
from slackwater.group.events import GroupState, Trigger
from slackwater.group.messages import JoinGroup, JoinGroupResponse, JoinProtocol, SyncGroup, SyncGroupResponse
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

from .server_client import DEADLINE_S, Client, with_server

Samples = dict[str, float]


async def _send(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(DEADLINE_S):
        response = await reader.read()
    writer.close()
    return response


async def _scrape(page: MetricsPage) -> Samples:
    """Return every sample by its name and labels."""
    response = await _send(page.port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    samples: Samples = {}
    for family in text_string_to_metric_families(body.decode()):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


def _with_page(
    directory: Path,
    scenario: Callable[[Server, MetricsPage], Awaitable[None]],
    group_clock: ManualClock | None = None,
) -> None:
    async def run(server: Server) -> None:
        page = MetricsPage(server)
        await page.start("127.0.0.1", 0)
        try:
            await scenario(server, page)
        finally:
            page.stop()

    with_server(directory, run, group_clock=group_clock)


async def _join(server: Server, group_id: str) -> JoinGroupResponse:
    """Join and sync as the only member of a group."""
    joined: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
    join = JoinGroup(
        group_id,
        "",
        None,
        PROTOCOL_TYPE,
        (JoinProtocol("range", b""),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        client_id="c",
        client_host="/h",
        uuid="u",
        requires_known_member_id=False,
    )
    server.broker.group_coordinator.submit(join, joined.set_result)
    response = await joined
    assert response.error is Error.NONE
    synced: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
    assignments = ((response.member_id, b"all"),)
    server.broker.group_coordinator.submit(
        SyncGroup(group_id, response.member_id, None, response.generation_id, assignments=assignments),
        synced.set_result,
    )
    assert (await synced).error is Error.NONE
    return response


def test_new_broker_shows_every_counter_at_zero(tmp_path: Path) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        samples = await _scrape(page)
        assert samples["slackwater_groups{state=Stable}"] == 0
        assert samples["slackwater_rebalances_total{trigger=session_timeout}"] == 0
        assert samples["slackwater_members_expired_total{timer=session}"] == 0
        assert samples["slackwater_heartbeats_total"] == 0
        assert samples["slackwater_offset_commits_total"] == 0
        assert samples["slackwater_malformed_frames_total"] == 0
        assert samples["slackwater_connections"] == 0
        assert samples["process_resident_memory_bytes"] > 0

    _with_page(tmp_path, scenario)


def test_group_events_are_counted(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario(server: Server, page: MetricsPage) -> None:
        member = await _join(server, "readers")
        await _join(server, "others")
        samples = await _scrape(page)
        assert samples["slackwater_groups{state=Stable}"] == 2
        assert samples["slackwater_group_members{group=readers}"] == 1
        assert samples["slackwater_rebalances_total{trigger=member_join}"] == 2
        assert samples["slackwater_rebalance_seconds_count"] == 2
        assert samples["slackwater_group_events_total{kind=member_joined}"] == 2

        client = await Client.connect(server)
        heartbeat = HeartbeatRequest(group_id="readers", generation_id=member.generation_id, member_id=member.member_id)
        for _ in range(3):
            assert (await client.request(heartbeat, HeartbeatResponse)).error_code == 0
        server.broker.topics.create("orders", 2)
        offsets = OffsetCommitRequestTopic(
            name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        )
        commit = OffsetCommitRequest(
            group_id="readers",
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=[offsets],
        )
        await client.request(commit, OffsetCommitResponse, 9)
        samples = await _scrape(page)
        assert samples["slackwater_heartbeats_total"] == 3
        assert samples["slackwater_offset_commits_total"] == 1
        assert samples["slackwater_request_seconds_count{api=Heartbeat}"] == 3
        assert samples["slackwater_request_seconds_bucket{api=Heartbeat,le=+Inf}"] == 3
        assert samples["slackwater_connections"] == 1
        assert samples["slackwater_topic_partitions{topic=orders}"] == 2
        assert samples["slackwater_topic_log_bytes{topic=__consumer_offsets}"] > 0

        server.advance_group_clock(10_000)
        samples = await _scrape(page)
        assert samples["slackwater_groups{state=Empty}"] == 2
        assert samples["slackwater_members_expired_total{timer=session}"] == 2
        client.close()

    _with_page(tmp_path, scenario, clock)


def test_buckets_of_request_times_add_up(tmp_path: Path) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        client = await Client.connect(server)
        for _ in range(20):
            await client.request(HeartbeatRequest(group_id="g", member_id="m"), HeartbeatResponse)
        client.close()
        samples = await _scrape(page)
        bound = re.compile(r"slackwater_request_seconds_bucket{api=Heartbeat,le=(.*)}")
        buckets = {float(match[1]): value for name, value in samples.items() if (match := bound.fullmatch(name))}
        counts = [buckets[bound_s] for bound_s in sorted(buckets)]
        assert counts == sorted(counts)
        assert counts[-1] == 20 == samples["slackwater_request_seconds_count{api=Heartbeat}"]
        assert 0 < samples["slackwater_request_seconds_sum{api=Heartbeat}"] < 60

    _with_page(tmp_path, scenario)


def test_malformed_frames_are_counted(tmp_path: Path) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        await _send(server.port, struct.pack(">ihh", 4, 12, 99))
        samples = await _scrape(page)
        assert samples["slackwater_malformed_frames_total"] == 1
        assert samples["slackwater_connections_opened_total"] == 1

    _with_page(tmp_path, scenario)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET / HTTP/1.1", "404 Not Found"),
        ("GET /metrics/more HTTP/1.1", "404 Not Found"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
        ("GET /metrics", "400 Bad Request"),
        ("\x00\x01", "400 Bad Request"),
        ("GET /metrics?name[]=up HTTP/1.0", "200 OK"),
    ],
)
def test_other_requests_are_rejected(tmp_path: Path, request_line: str, status: str) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        response = await _send(page.port, request_line.encode() + b"\r\n\r\n")
        assert response.startswith(f"HTTP/1.1 {status}\r\n".encode())

    _with_page(tmp_path, scenario)


def test_head_response_has_no_body(tmp_path: Path) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        response = await _send(page.port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 200 OK\r\n")
        assert response.endswith(b"\r\n\r\n")

    _with_page(tmp_path, scenario)


def test_request_in_pieces(tmp_path: Path) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.port)
        for piece in (b"GET /met", b"rics HTTP/1.1\r\n", b"Host: x\r\n\r", b"\n", b"more"):
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(DEADLINE_S):
            assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        writer.close()

    _with_page(tmp_path, scenario)


def test_endless_request_is_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        response = await _send(page.port, b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5_000)
        assert response.startswith(b"HTTP/1.1 431 ")

    _with_page(tmp_path, scenario)


def test_silent_http_client_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "REQUEST_TIMEOUT_S", 0.05)

    async def scenario(server: Server, page: MetricsPage) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.port)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        writer.close()

    _with_page(tmp_path, scenario)


def test_silent_visitors_do_not_lock_out_a_scrape(tmp_path: Path) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        visitors = [await asyncio.open_connection("127.0.0.1", page.port) for _ in range(metrics_page.MAX_CONNECTIONS)]
        for _ in range(3):
            assert "slackwater_connections" in await _scrape(page)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await visitors[0][0].readexactly(1)
        for _, writer in visitors:
            writer.close()

    _with_page(tmp_path, scenario)


def test_failed_page_is_an_http_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        monkeypatch.setattr(metrics_page, "generate_latest", None)
        response = await _send(page.port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 500 ")

    _with_page(tmp_path, scenario)


def test_used_port_is_a_usage_error(tmp_path: Path) -> None:
    async def scenario(server: Server, page: MetricsPage) -> None:
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{server.port}: address already in use"):
            await MetricsPage(server).start("127.0.0.1", server.port)

    _with_page(tmp_path, scenario)


def test_group_labels_are_escaped() -> None:
    families = list(
        group_families([GroupFigures("a\n\x1b[2J\u202e", state=GroupState.STABLE, triggers={Trigger.UNKNOWN: 1})])
    )
    groups = {sample.labels["group"] for family in families for sample in family.samples}
    assert groups == {r"a\x0a\x1b[2J\u202e"}
    assert len(families) == 11
