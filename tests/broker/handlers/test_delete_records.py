"""DeleteRecords: the log start offset moves, and earlier records cannot be read."""

import os
import time
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.slices import SLICE_S
from slackwater.group.errors import Error
from slackwater.wire.apis import DELETE_RECORDS
from slackwater.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from slackwater.wire.messages.fetch import FetchResponse

from ..server_client import Client, with_server
from .data_requests import fetch_request, rows, send


async def delete(client: Client, topic: str, offset: int, *, index: int = 0, version: int = 2) -> tuple[int, int]:
    """Delete records; return the error and the low watermark."""
    topic_request = DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, offset)])
    response = await client.request(DeleteRecordsRequest(topics=[topic_request]), DeleteRecordsResponse, version)
    ((row,),) = (topic_response.partitions for topic_response in response.topics)
    return row.error_code, row.low_watermark


@pytest.mark.parametrize("version", range(DELETE_RECORDS.max_version + 1))
def test_records_before_the_offset_are_deleted(tmp_path: Path, version: int) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for _ in range(5):
            await send(client, "t", 0, b"v")
        assert await delete(client, "t", 3, version=version) == (Error.NONE, 3)
        assert await delete(client, "t", 1, version=version) == (Error.NONE, 3)
        (row,) = rows(await client.request(fetch_request((topic, 0, 2)), FetchResponse))
        assert row.error_code == Error.OFFSET_OUT_OF_RANGE
        (row,) = rows(await client.request(fetch_request((topic, 0, 3)), FetchResponse))
        assert (row.error_code, row.log_start_offset, row.high_watermark) == (Error.NONE, 3, 5)
        assert await delete(client, "t", -1, version=version) == (Error.NONE, 5)

    with_server(tmp_path, scenario)


def test_invalid_deletions_are_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        server.broker.topics.create("compact", 1, {"cleanup.policy": "compact"})
        server.broker.create_offsets_topic()
        client = await Client.connect(server)
        await send(client, "t", 0, b"v")
        assert await delete(client, "t", 2) == (Error.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(client, "t", -2) == (Error.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(client, "t", 0, index=1) == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await delete(client, "gone", 0) == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await delete(client, "compact", 0) == (Error.POLICY_VIOLATION, -1)
        assert await delete(client, "__consumer_offsets", 0) == (Error.INVALID_TOPIC_EXCEPTION, -1)

    with_server(tmp_path, scenario)


def test_many_partitions_are_handled_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions, iterations = 30, 0

    async def scenario(server: Server) -> None:
        nonlocal iterations
        server.broker.topics.create("t", partitions)
        client = await Client.connect(server)
        for index in range(partitions):
            await send(client, "t", index, b"v")

        def sync(_: int) -> None:
            time.sleep(SLICE_S)  # the fault: a slow disk

        def count() -> None:
            nonlocal iterations
            iterations += 1
            server.broker.loop.call_soon(count)

        count()
        monkeypatch.setattr(os, "fsync", sync)
        requested = [DeleteRecordsPartition(index, -1) for index in range(partitions)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic("t", requested)])
        before = iterations
        response = await client.request(request, DeleteRecordsResponse)
        assert [row.low_watermark for row in response.topics[0].partitions] == [1] * partitions
        assert iterations - before >= partitions

    with_server(tmp_path, scenario)
