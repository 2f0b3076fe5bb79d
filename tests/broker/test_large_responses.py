"""A broker process that sends large responses."""

import asyncio
import ctypes
import socket
import struct
import time
from pathlib import Path
from typing import BinaryIO, TypeVar

import pytest

from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Response

from .broker_process import BrokerProcess
from .raw_client import FETCH_V, RawClient, closing
from .server_client import DEADLINE_S
from .storage.log.batches import sized

PARTITIONS, BATCH_BYTES = 8, 1_000_000
PAGE_BYTES = 4096
R = TypeVar("R", bound=Response)


def page_faults(pid: int) -> int:
    """The minor page faults of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc can keep freed memory")
def test_large_responses_reuse_memory(tmp_path: Path) -> None:
    @closing
    async def scenario(broker: BrokerProcess) -> None:
        client = await RawClient.at(broker.port)
        assert await client.create_topic("t", PARTITIONS) is Error.NONE
        for partition in range(PARTITIONS):
            client.send_batch("t", partition, sized(BATCH_BYTES))
            assert not (await client.next_produce_response()).error_code
        partitions = [FetchPartition(index, partition_max_bytes=BATCH_BYTES) for index in range(PARTITIONS)]
        request = FetchRequest(topics=[FetchTopic("t", partitions=partitions)])
        deadline, faults = time.monotonic() + DEADLINE_S, PARTITIONS * BATCH_BYTES
        # The broker tunes its allocator some moments after the start.
        while faults > PARTITIONS * BATCH_BYTES // PAGE_BYTES // 10:
            assert time.monotonic() < deadline, f"{faults} page faults for one response"
            before = page_faults(broker.pid)
            response = await client.request(request, FetchResponse, FETCH_V)
            assert [len(data.records or b"") for data in response.responses[0].partitions] == [BATCH_BYTES] * PARTITIONS
            faults = page_faults(broker.pid) - before

    with BrokerProcess(tmp_path) as broker:
        asyncio.run(scenario(broker))


def test_responses_to_slow_readers_need_no_memory(tmp_path: Path) -> None:
    readers, batches = 8, 16

    @closing
    async def scenario(broker: BrokerProcess) -> None:
        client = await RawClient.at(broker.port)
        assert await client.create_topic("t") is Error.NONE
        for _ in range(batches):
            client.send_batch("t", 0, sized(BATCH_BYTES))
            assert not (await client.next_produce_response()).error_code
        request = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=2**30)])])
        before = broker.peak_resident_bytes()
        connections = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(readers)]
        for connection in connections:
            connection.sendall(encode_request(request, FETCH_V, 1, "slow"))
            connection.sendall(encode_request(ListGroupsRequest(), 4, 2, "slow"))
            await asyncio.to_thread(connection.recv, 4, socket.MSG_PEEK | socket.MSG_WAITALL)  # it has begun
        assert broker.peak_resident_bytes() - before < readers * batches * BATCH_BYTES / 2
        assert await client.delete_topic("t") is Error.NONE  # the responses in progress continue
        for connection in connections:
            with connection, connection.makefile("rb") as responses:
                records = await asyncio.to_thread(read_response, responses, FetchResponse, FETCH_V)
                assert len(records.responses[0].partitions[0].records or b"") == batches * BATCH_BYTES
                await asyncio.to_thread(read_response, responses, ListGroupsResponse, 4)

    with BrokerProcess(tmp_path) as broker:
        asyncio.run(scenario(broker))


def read_response(responses: BinaryIO, kind: type[R], version: int) -> R:
    """Read the next response."""
    (size,) = struct.unpack(">i", responses.read(4))
    return decode_response(kind, version, responses.read(size))[1]
