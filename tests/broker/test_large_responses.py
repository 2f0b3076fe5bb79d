"""A broker process that sends large responses."""

import asyncio
import ctypes
import time
from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

from .broker_process import BrokerProcess
from .raw_client import FETCH_V, RawClient, closing
from .server_client import DEADLINE_S
from .storage.log.batches import sized

PARTITIONS, BATCH_BYTES = 8, 1_000_000
PAGE_BYTES = 4096


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
