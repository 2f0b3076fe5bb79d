"""Fetch: which fetches wait, and which appends end a wait."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.storage.topics import Topic
from slackwater.wire.messages.fetch import FetchRequest, FetchResponse
from slackwater.wire.messages.produce import ProduceResponse
from slackwater.wire.schema import Response

from ..server_client import DEADLINE_S, Client, with_server
from ..storage.log.batches import sized
from .data_requests import LAST_BY_NAME, fetch_request, produce_request, produced, rows
from .fetch_waits import CASES, FetchCase

LONG_MS = 60_000  # longer than any test, so a wait never ends by itself


async def append(client: Client, topic: Topic, partition: int, size: int) -> None:
    """Append one batch of this size."""
    request = produce_request(topic.name, partition, sized(size))
    assert not produced(await client.request(request, ProduceResponse, LAST_BY_NAME)).error_code


class WaitingFetch:
    """A fetch whose response may come later."""

    def __init__(self, server: Server, response: "asyncio.Task[Response]") -> None:
        self._server = server
        self._response = response

    async def waits(self) -> bool:
        """Whether the broker has processed the fetch and sends no response yet."""
        async with asyncio.timeout(DEADLINE_S):
            while not self._response.done() and not len(self._server.broker.delayed_fetches):
                await asyncio.sleep(0)
        return not self._response.done()

    async def read_bytes(self) -> list[int]:
        """The bytes of each partition in the response."""
        response = await self._response
        assert isinstance(response, FetchResponse)
        return [len(data.records or b"") for data in rows(response)]


@contextlib.asynccontextmanager
async def started(server: Server, client: Client, request: FetchRequest) -> AsyncIterator[WaitingFetch]:
    """Send a fetch, and forget it at the end."""
    client.send(request)
    response = asyncio.create_task(client.next_response())
    try:
        yield WaitingFetch(server, response)
    finally:
        response.cancel()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_fetch_waits_as_in_kafka(tmp_path: Path, case: FetchCase) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", len(case.batches), {"segment.bytes": str(case.segment_bytes)})
        client = await Client.connect(server)
        for partition, batches in enumerate(case.batches):
            for _ in range(batches):
                await append(client, topic, partition, case.batch_bytes)
        request = fetch_request(
            *((topic, partition, offset) for partition, offset in enumerate(case.offsets)),
            max_wait_ms=LONG_MS,
            min_bytes=case.min_bytes,
            max_bytes=case.max_bytes,
            partition_max_bytes=case.partition_max_bytes,
        )
        async with started(server, client, request) as fetch:
            assert await fetch.waits() is case.waits

    with_server(tmp_path, scenario)


def test_append_ends_the_wait_when_bytes_suffice(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        client, producer = await Client.connect(server), await Client.connect(server)
        await append(producer, topic, 0, 200)
        request = fetch_request((topic, 0, 0), (topic, 1, 0), max_wait_ms=LONG_MS, min_bytes=1000)
        async with started(server, client, request) as fetch:
            assert await fetch.waits()
            await append(producer, topic, 1, 500)
            assert await fetch.waits()
            await append(producer, topic, 0, 299)
            assert await fetch.waits()
            await append(producer, topic, 1, 100)
            assert await fetch.read_bytes() == [499, 600]

    with_server(tmp_path, scenario)


def test_appended_bytes_count_up_to_the_partition_limit(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        client, producer = await Client.connect(server), await Client.connect(server)
        request = fetch_request(
            (topic, 0, 0), (topic, 1, 0), max_wait_ms=LONG_MS, min_bytes=1000, partition_max_bytes=600
        )
        async with started(server, client, request) as fetch:
            assert await fetch.waits()
            for _ in range(3):
                await append(producer, topic, 0, 500)
            assert await fetch.waits()
            await append(producer, topic, 1, 400)
            assert await fetch.read_bytes() == [500, 400]

    with_server(tmp_path, scenario)


def test_new_segment_without_records_does_not_end_the_wait(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2, {"segment.bytes": "1000"})
        client, producer = await Client.connect(server), await Client.connect(server)
        await append(producer, topic, 0, 900)
        request = fetch_request((topic, 0, 1), (topic, 1, 0), max_wait_ms=LONG_MS, min_bytes=1000)
        async with started(server, client, request) as fetch:
            assert await fetch.waits()
            topic.partitions[0].log.roll(0)
            await append(producer, topic, 1, 100)
            assert await fetch.waits()
            await append(producer, topic, 0, 100)
            assert await fetch.read_bytes() == [100, 100]

    with_server(tmp_path, scenario)


def test_partitions_of_a_session_count(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 3)
        client, producer = await Client.connect(server), await Client.connect(server)
        positions = [(topic, index, 0) for index in range(3)]
        first = await client.request(fetch_request(*positions, session=(0, 0)), FetchResponse)
        await append(producer, topic, 0, 500)
        session = (first.session_id, 1)
        waiting = fetch_request(session=session, max_wait_ms=LONG_MS, min_bytes=1000)
        async with started(server, client, waiting) as fetch:
            assert await fetch.waits()
            await append(producer, topic, 2, 499)
            assert await fetch.waits()
            await append(producer, topic, 1, 100)
            assert await fetch.read_bytes() == [500, 100, 499]
        complete = fetch_request(session=(first.session_id, 2), max_wait_ms=LONG_MS, min_bytes=1000)
        async with started(server, client, complete) as fetch:
            assert not await fetch.waits()

    with_server(tmp_path, scenario)


def test_older_segment_of_a_session_ends_the_wait(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2, {"segment.bytes": "1000"})
        client, producer = await Client.connect(server), await Client.connect(server)
        await append(producer, topic, 0, 900)
        positions = [(topic, 0, 1), (topic, 1, 0)]
        first = await client.request(fetch_request(*positions, session=(0, 0)), FetchResponse)
        request = fetch_request(session=(first.session_id, 1), max_wait_ms=LONG_MS, min_bytes=1000)
        async with started(server, client, request) as fetch:
            assert await fetch.waits()
            await append(producer, topic, 0, 200)  # into the next segment
            assert await fetch.read_bytes() == [200]

    with_server(tmp_path, scenario)
