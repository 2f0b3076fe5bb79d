"""WriteTxnMarkers, and what readers with read_committed see: Fetch, ListOffsets, DescribeProducers."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.storage.topics import Topic
from slackwater.broker.transactions import markers as marker_writer
from slackwater.broker.transactions.interfaces import TxnMarkerEntry
from slackwater.clock import ManualClock
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from slackwater.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from slackwater.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from slackwater.wire.records.batch import complete_batches

from ..handlers.data_requests import fetch_request, rows
from ..handlers.test_fetch_waits import started
from ..server_client import Client, with_server
from ..storage.log.batches import NOW_MS, Sent
from ..storage.log.transactions import send

COMMITTED = 1
LONG_MS = 60_000


def marker(
    producer_id: int,
    *partitions: tuple[str, Sequence[int]],
    commit: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> WritableTxnMarker:
    topics = [WritableTxnMarkerTopic(name, list(indexes)) for name, indexes in partitions]
    return WritableTxnMarker(producer_id, epoch, commit, topics, coordinator_epoch, version)


async def write(client: Client, *markers: WritableTxnMarker, version: int = 2) -> dict[tuple[int, str, int], int]:
    """Write markers and return the errors by producer id, topic and partition."""
    response = await client.request(WriteTxnMarkersRequest(list(markers)), WriteTxnMarkersResponse, version)
    return {
        (result.producer_id, topic.name, partition.partition_index): partition.error_code
        for result in response.markers
        for topic in result.topics
        for partition in topic.partitions
    }


def committed_fetch(topic: Topic, offset: int = 0, *, max_wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    request = fetch_request((topic, 0, offset), max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    request.isolation_level = COMMITTED
    return request


async def fetch(client: Client, request: FetchRequest) -> PartitionData:
    (data,) = rows(await client.request(request, FetchResponse))
    return data


def base_offsets(data: PartitionData) -> list[int]:
    return [batch.base_offset for batch in complete_batches(data.records or b"")]


@pytest.mark.proves("TX-67")
@pytest.mark.parametrize("version", [1, 2])
def test_markers_of_several_producers(tmp_path: Path, version: int) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        client = await Client.connect(server)
        for producer_id in (1, 2):
            send(topic.partitions[0].log, producer_id, 0)
        errors = await write(
            client,
            marker(1, ("t", [0, 1])),
            marker(2, ("t", [0]), ("missing", [0]), commit=False),
            marker(1, ("t", [9])),
            version=version,
        )
        assert errors == {
            (1, "t", 0): Error.NONE,
            (1, "t", 1): Error.NONE,
            (1, "t", 9): Error.UNKNOWN_TOPIC_OR_PARTITION,
            (2, "t", 0): Error.NONE,
            (2, "missing", 0): Error.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert [partition.log.log_end_offset for partition in topic.partitions] == [4, 1]
        assert await write(client) == {}

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


def test_one_iteration_writes_a_limited_number_of_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a transaction with thousands of partitions delays no other client."""
    monkeypatch.setattr(marker_writer, "MAX_MARKERS", 4)

    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 10)
        results: list[Mapping[TopicPartition, Error]] = []
        for producer_id, count in ((1, 10), (2, 3)):
            partitions = tuple(TopicPartition("t", index) for index in range(count))
            server.broker.markers.write([TxnMarkerEntry(producer_id, 0, 0, True, partitions)], results.append)
        written = [0]
        while len(results) < 2:
            await asyncio.sleep(0)
            written.append(sum(partition.log.log_end_offset for partition in topic.partitions))
        steps = [after - before for before, after in itertools.pairwise(written) if after > before]
        assert steps == [4, 4, 4, 1]
        assert [(len(errors), set(errors.values())) for errors in results] == [(10, {Error.NONE}), (3, {Error.NONE})]

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


@pytest.mark.proves("TX-67")
def test_markers_are_fenced(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        send(topic.partitions[0].log, 1, 0, epoch=3)
        expected = [
            (marker(1, ("t", [0]), epoch=2), Error.INVALID_PRODUCER_EPOCH),
            (marker(1, ("t", [0]), epoch=3, version=2), Error.INVALID_PRODUCER_EPOCH),
            (marker(1, ("t", [0]), epoch=4, version=2, coordinator_epoch=5), Error.NONE),
            (marker(1, ("t", [0]), epoch=4, coordinator_epoch=4), Error.TRANSACTION_COORDINATOR_FENCED),
        ]
        for requested, error in expected:
            assert await write(client, requested) == {(1, "t", 0): error}

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


@pytest.mark.proves("TX-68")
def test_committed_fetch_ends_at_last_stable_offset(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        log = topic.partitions[0].log
        send(log, 1, 0)
        await write(client, marker(1, ("t", [0]), commit=False))
        send(log, 2, 0)
        data = await fetch(client, committed_fetch(topic))
        assert (data.high_watermark, data.last_stable_offset, base_offsets(data)) == (3, 2, [0, 1])
        assert data.aborted_transactions is not None
        assert [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions] == [(1, 0)]
        uncommitted = await fetch(client, fetch_request((topic, 0, 0)))
        assert (base_offsets(uncommitted), uncommitted.aborted_transactions) == ([0, 1, 2], None)
        assert uncommitted.last_stable_offset == 2
        for offset in (2, 3):
            data = await fetch(client, committed_fetch(topic, offset))
            assert (data.error_code, data.records, data.aborted_transactions) == (Error.NONE, b"", [])
        assert (await fetch(client, committed_fetch(topic, 4))).error_code == Error.OFFSET_OUT_OF_RANGE

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


@pytest.mark.proves("TX-69")
@pytest.mark.parametrize("commit", [True, False])
def test_end_of_transaction_ends_the_wait_of_a_committed_fetch(tmp_path: Path, commit: bool) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client, coordinator = await Client.connect(server), await Client.connect(server)
        partition = topic.partitions[0]
        async with started(server, client, committed_fetch(topic, max_wait_ms=LONG_MS)) as waiting:
            assert await waiting.waits()
            send(partition.log, 1, 0)
            partition.wake_waiters()
            assert await waiting.waits()
            await write(coordinator, marker(1, ("t", [0]), commit=commit))
            assert await waiting.read_bytes() == [partition.log.size]

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


def test_committed_fetch_counts_bytes_below_last_stable_offset(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client, coordinator = await Client.connect(server), await Client.connect(server)
        partition = topic.partitions[0]
        for producer_id in (1, 2):
            send(partition.log, producer_id, 0, Sent(value=b"x" * 400))
        request = committed_fetch(topic, max_wait_ms=LONG_MS, min_bytes=600)
        async with started(server, client, request) as waiting:
            assert await waiting.waits()
            await write(coordinator, marker(1, ("t", [0])))
            assert await waiting.waits()
            await write(coordinator, marker(2, ("t", [0])))
            assert await waiting.read_bytes() == [partition.log.size]

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


@pytest.mark.proves("TX-70")
def test_latest_offset_depends_on_the_isolation_level(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        send(topic.partitions[0].log, 1, 0)
        send(topic.partitions[0].log, 1, 1)
        for level, timestamp, offset in ((0, -1, 2), (COMMITTED, -1, 0), (0, 0, 0), (COMMITTED, 0, -1)):
            request = ListOffsetsRequest(-1, level, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])])
            response = await client.request(request, ListOffsetsResponse)
            assert response.topics[0].partitions[0].offset == offset, (level, timestamp)

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


@pytest.mark.proves("TX-71")
def test_producers_show_their_open_transaction(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)

        async def described() -> tuple[int, int, int, int]:
            request = DescribeProducersRequest([TopicRequest("t", [0])])
            response = await client.request(request, DescribeProducersResponse)
            ((producer,),) = (partition.active_producers for partition in response.topics[0].partitions)
            return (
                producer.producer_epoch,
                producer.last_sequence,
                producer.coordinator_epoch,
                producer.current_txn_start_offset,
            )

        send(topic.partitions[0].log, 1, 0)
        assert await described() == (0, 0, -1, 0)
        await write(client, marker(1, ("t", [0]), coordinator_epoch=7))
        assert await described() == (0, 0, 7, -1)
        await write(client, marker(1, ("t", [0]), epoch=1, coordinator_epoch=7, version=2))
        assert await described() == (1, -1, 7, -1)

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))
