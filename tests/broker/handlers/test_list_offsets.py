"""ListOffsets: special timestamps by version, records by time, and errors."""

from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.apis import LIST_OFFSETS
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from slackwater.wire.messages.produce import ProduceResponse

from ..server_client import Client, with_server
from ..storage.log.batches import NOW_MS, Sent, batch
from .data_requests import LAST_BY_NAME, produce_request

NEWEST = LIST_OFFSETS.max_version


async def list_offset(
    client: Client, timestamp: int, *, version: int = NEWEST, topic: str = "t", index: int = 0, epoch: int = -1
) -> ListOffsetsPartitionResponse:
    partition = ListOffsetsPartition(index, epoch, timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, [partition])])
    response = await client.request(request, ListOffsetsResponse, version)
    ((row,),) = (topic_response.partitions for topic_response in response.topics)
    assert row.partition_index == index
    return row


async def append_batches(client: Client) -> None:
    """Append three batches; the newest timestamp is in the middle of the second."""
    for times in ([0, 10], [20, 99, 30], [40]):
        records = batch(*(Sent(timestamp=NOW_MS + time) for time in times))
        await client.request(produce_request("t", 0, records), ProduceResponse, LAST_BY_NAME)


@pytest.mark.parametrize("version", range(LIST_OFFSETS.min_version, NEWEST + 1))
def test_earliest_and_latest_in_every_version(tmp_path: Path, version: int) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        await append_batches(client)
        epoch = 0 if version >= 4 else -1
        for timestamp, offset in ((-1, 6), (-2, 0)):
            row = await list_offset(client, timestamp, version=version)
            assert (row.error_code, row.timestamp, row.offset, row.leader_epoch) == (0, -1, offset, epoch)

    with_server(tmp_path, scenario)


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [(-3, 7, (NOW_MS + 99, 3, 0)), (-4, 8, (-1, 0, 0)), (-5, 9, (-1, -1, -1)), (-6, 11, (-1, -1, -1))],
)
def test_special_timestamps_by_version(
    tmp_path: Path, timestamp: int, since: int, expected: tuple[int, int, int]
) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        await append_batches(client)
        row = await list_offset(client, timestamp, version=since)
        assert (row.error_code, (row.timestamp, row.offset, row.leader_epoch)) == (Error.NONE, expected)
        assert (await list_offset(client, timestamp, version=since - 1)).error_code == Error.UNSUPPORTED_VERSION
        assert (await list_offset(client, -7)).error_code == Error.UNSUPPORTED_VERSION

    with_server(tmp_path, scenario)


def test_first_record_at_or_after_the_timestamp(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        await append_batches(client)
        for after, time, offset in ((0, 0, 0), (5, 10, 1), (15, 20, 2), (21, 99, 3), (99, 99, 3)):
            row = await list_offset(client, NOW_MS + after)
            assert (row.timestamp, row.offset, row.leader_epoch) == (NOW_MS + time, offset, 0)
        row = await list_offset(client, NOW_MS + 100)
        assert (row.error_code, row.timestamp, row.offset, row.leader_epoch) == (Error.NONE, -1, -1, -1)

    with_server(tmp_path, scenario)


def test_empty_log(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for timestamp, offset in ((-1, 0), (-2, 0), (-3, -1), (-4, 0), (0, -1)):
            row = await list_offset(client, timestamp)
            assert (row.error_code, row.offset, row.leader_epoch) == (Error.NONE, offset, 0 if offset >= 0 else -1)

    with_server(tmp_path, scenario)


def test_errors_are_per_partition(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 2)
        client = await Client.connect(server)
        assert (await list_offset(client, -1, topic="gone")).error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await list_offset(client, -1, index=2)).error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await list_offset(client, -1, epoch=1)).error_code == Error.UNKNOWN_LEADER_EPOCH
        assert (await list_offset(client, -1, epoch=0)).error_code == Error.NONE
        partitions = [ListOffsetsPartition(index, -1, -1) for index in (0, 1, 0)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", partitions)])
        response = await client.request(request, ListOffsetsResponse)
        errors = [row.error_code for row in response.topics[0].partitions]
        assert errors == [Error.INVALID_REQUEST, Error.NONE, Error.INVALID_REQUEST]

    with_server(tmp_path, scenario)
