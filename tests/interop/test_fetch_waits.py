"""Apache Kafka decides about waiting fetches as the broker's tests expect."""

import asyncio
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from scripts.apache_kafka import KAFKA, missing

from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.handlers.fetch_waits import CASES, FetchCase
from tests.broker.raw_client import FETCH_V, RawClient, closing
from tests.broker.server_client import DEADLINE_S
from tests.client.clusters import shared_directory, shared_kafka

pytestmark = pytest.mark.java

LONG_MS = 60_000  # longer than the client waits for a response
SHORT_MS = 300


@pytest.fixture(scope="module")
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running Apache Kafka."""
    if reason := missing():
        pytest.skip(reason)
    with shared_kafka(KAFKA, shared_directory(request.config, tmp_path_factory)) as bootstrap_servers:
        yield int(bootstrap_servers.rpartition(":")[2])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_kafka_waits_as_the_broker(port: int, case: FetchCase) -> None:
    @closing
    async def scenario() -> None:
        client, topic = await RawClient.at(port), f"waits-{uuid4()}"
        created = await client.create_topic(topic, len(case.batches), segment_bytes=str(case.segment_bytes))
        assert created is Error.NONE
        for partition, batches in enumerate(case.batches):
            for _ in range(batches):
                await append(client, topic, partition, case.records())
        request = FetchRequest(
            max_wait_ms=SHORT_MS if case.waits else LONG_MS,
            min_bytes=case.min_bytes,
            max_bytes=case.max_bytes,
            topics=[
                FetchTopic(
                    topic,
                    partitions=[
                        FetchPartition(partition, fetch_offset=offset, partition_max_bytes=case.partition_max_bytes)
                        for partition, offset in enumerate(case.offsets)
                    ],
                )
            ],
        )
        deadline = time.monotonic() + DEADLINE_S
        while True:  # a new partition may have no leader for a moment
            started_at = time.monotonic()
            response = await client.request(request, FetchResponse, FETCH_V)
            errors = {data.error_code for data in response.responses[0].partitions}
            if Error.NOT_LEADER_OR_FOLLOWER not in errors or started_at > deadline:
                break
            await asyncio.sleep(0.01)
        assert errors == {Error.NONE}
        # A fetch that does not wait is shorter than LONG_MS, because the client would have given up before.
        if case.waits:
            assert time.monotonic() - started_at >= SHORT_MS / 1000 * 0.95

    asyncio.run(scenario())


async def append(client: RawClient, topic: str, partition: int, records: bytearray) -> None:
    """Append a batch; a new partition may have no leader for a moment."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        client.send_batch(topic, partition, records)
        error = (await client.next_produce_response()).error_code
        if not error:
            return
        assert error in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.NOT_LEADER_OR_FOLLOWER), error
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
