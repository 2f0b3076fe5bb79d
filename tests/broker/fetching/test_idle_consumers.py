"""Idle consumers: fetches that wait for records in an incremental session."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.storage.topics import Topic
from slackwater.group.errors import Error
from slackwater.wire.apis import FETCH
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

from ..handlers.data_requests import fetch_request, rows, send, values
from ..server_client import DEADLINE_S, Client, with_server

LONG_MS = 60_000  # longer than any test
SHORT_MS = 30


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0)


class Consumer:
    """A consumer that has read everything and has a fetch session."""

    def __init__(self, server: Server, client: Client, session_id: int) -> None:
        self.server = server
        self.client = client
        self.session_id = session_id
        self.epoch = 0

    @classmethod
    async def connect(cls, server: Server, topic: Topic, *offsets: int) -> "Consumer":
        """Connect a consumer whose positions are the ends of the partitions."""
        client = await Client.connect(server)
        partitions = [(topic, index, offset) for index, offset in enumerate(offsets)]
        first = await client.request(fetch_request(*partitions, session=(0, 0)), FetchResponse)
        return cls(server, client, first.session_id)

    def next_request(self, max_wait_ms: int) -> FetchRequest:
        """The next request of the session, without changes."""
        self.epoch += 1
        return fetch_request(session=(self.session_id, self.epoch), max_wait_ms=max_wait_ms)

    async def start_waiting(self, max_wait_ms: int = LONG_MS) -> None:
        """Send a fetch and wait until the broker holds it."""
        waiting = len(self.server.broker.delayed_fetches)
        self.client.send(self.next_request(max_wait_ms))
        await until(lambda: len(self.server.broker.delayed_fetches) == waiting + 1)

    async def response(self) -> FetchResponse:
        """The next response."""
        response = await self.client.next_response()
        assert isinstance(response, FetchResponse)
        return response

    async def partitions(self) -> list[PartitionData]:
        """The partitions of the next response, which has no error."""
        response = await self.response()
        assert response.error_code == Error.NONE
        return rows(response)


def test_repeated_fetches_wait_and_return_nothing(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 2), 0, 0)
        loop = asyncio.get_running_loop()
        before = server.broker.metrics.requests[FETCH.key].count
        for _ in range(5):
            started_at = loop.time()
            await consumer.start_waiting(SHORT_MS)
            response = await consumer.response()
            assert (response.error_code, response.session_id, rows(response)) == (Error.NONE, consumer.session_id, [])
            assert loop.time() - started_at >= SHORT_MS / 1000
            assert len(server.broker.delayed_fetches) == 0
        assert server.broker.metrics.requests[FETCH.key].count == before + 5

    with_server(tmp_path, scenario)


def test_append_ends_the_wait_with_records(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        consumer, producer = await Consumer.connect(server, topic, 0, 0), await Client.connect(server)
        await consumer.start_waiting()
        await send(producer, "t", 1, b"v")
        response = await consumer.response()
        assert (response.session_id, values(response)) == (consumer.session_id, [b"v"])
        assert len(server.broker.delayed_fetches) == 0
        assert not any(partition.waiters for partition in topic.partitions)
        # The session continues at the next offset.
        request = fetch_request((topic, 1, 1), session=(consumer.session_id, consumer.epoch + 1))
        assert rows(await consumer.client.request(request, FetchResponse)) == []

    with_server(tmp_path, scenario)


def test_append_between_two_fetches_is_returned_at_once(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        producer = await Client.connect(server)
        consumer = await Consumer.connect(server, topic, 0)
        await send(producer, "t", 0, b"v")
        consumer.client.send(consumer.next_request(LONG_MS))
        (partition,) = await consumer.partitions()
        assert partition.high_watermark == 1

    with_server(tmp_path, scenario)


def test_new_log_start_offset_is_reported(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        await send(await Client.connect(server), "t", 0, b"0", b"1")
        consumer = await Consumer.connect(server, topic, 2)
        await consumer.start_waiting(SHORT_MS)
        assert await consumer.partitions() == []
        assert topic.partitions[0].log.delete_records(1) == 1
        await consumer.start_waiting(SHORT_MS)
        (partition,) = await consumer.partitions()
        assert partition.log_start_offset == 1

    with_server(tmp_path, scenario)


def test_deleted_topic_ends_the_wait(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        consumer = await Consumer.connect(server, topic, 0)
        await consumer.start_waiting()
        server.broker.topics.delete(topic)
        (partition,) = await consumer.partitions()
        assert partition.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    with_server(tmp_path, scenario)


def test_session_used_elsewhere_rejects_the_waiting_fetch(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        consumer, other = await Consumer.connect(server, topic, 0), await Client.connect(server)
        await consumer.start_waiting(SHORT_MS)
        assert (await other.request(consumer.next_request(0), FetchResponse)).error_code == Error.NONE
        assert (await consumer.response()).error_code == Error.INVALID_FETCH_SESSION_EPOCH

    with_server(tmp_path, scenario)


def test_wrong_epoch_and_closed_session_are_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        consumer, other = await Consumer.connect(server, topic, 0), await Client.connect(server)
        consumer.epoch += 1
        consumer.client.send(consumer.next_request(LONG_MS))
        assert (await consumer.response()).error_code == Error.INVALID_FETCH_SESSION_EPOCH
        consumer = await Consumer.connect(server, topic, 0)
        await other.request(fetch_request(session=(consumer.session_id, -1)), FetchResponse)
        consumer.client.send(consumer.next_request(LONG_MS))
        assert (await consumer.response()).error_code == Error.FETCH_SESSION_ID_NOT_FOUND

    with_server(tmp_path, scenario)


def test_request_behind_a_waiting_fetch_waits(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        await consumer.start_waiting(SHORT_MS)
        consumer.client.send(ApiVersionsRequest("c", "1"))
        assert await consumer.partitions() == []
        assert isinstance(await consumer.client.next_response(), ApiVersionsResponse)
        await consumer.start_waiting(SHORT_MS)
        assert await consumer.partitions() == []

    with_server(tmp_path, scenario)


@pytest.mark.parametrize("is_waiting", [False, True])
def test_closed_connection_leaves_nothing_behind(tmp_path: Path, is_waiting: bool) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        consumer = await Consumer.connect(server, topic, 0, 0)
        if is_waiting:
            await consumer.start_waiting()
        consumer.client.close()
        await until(lambda: server.connections == 0)
        assert len(server.broker.delayed_fetches) == 0
        assert not any(partition.waiters for partition in topic.partitions)

    with_server(tmp_path, scenario)


def test_broker_stops_while_fetches_wait(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        await consumer.start_waiting()
        await server.stop()
        assert await consumer.client.is_closed()

    with_server(tmp_path, scenario)
