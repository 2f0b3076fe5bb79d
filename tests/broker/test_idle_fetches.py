"""Consumers that wait in vain: taken by their bytes while nothing happens, read as usual as soon as something does.

Every story is told twice: of a consumer whose socket is read as all are, and of one that has waited for longer, and
whose socket is lent.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from slackwater.broker.connection import LENT_AFTER, Connection
from slackwater.broker.fetching.idle_fetches import IdleFetch
from slackwater.broker.handlers import Handler
from slackwater.broker.server import Server
from slackwater.broker.storage.topics import Topic
from slackwater.group.errors import Error
from slackwater.wire.apis import FETCH
from slackwater.wire.envelope import encode_request
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchRequest, FetchResponse

from .handlers.data_requests import fetch_request, rows, send, values
from .server_room import DEADLINE_S, Client, with_server

LONG_MS = 60_000  # longer than any test: a wait ends when the test says so


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0)


def time_is_up(server: Server) -> None:
    """Let the time of all waits be up."""
    waits = server.broker.fetch_waits
    for at, bucket in list(waits._buckets.items()):
        bucket.timer.cancel()
        waits._time_is_up(at)


class Consumer:
    """A consumer whose last fetch ended without news."""

    waited: ClassVar = 0
    """How many fetches after the first are taken by their bytes before a story begins."""

    def __init__(self, server: Server, client: Client, connection: Connection, session_id: int, epoch: int) -> None:
        self.server = server
        self.client = client
        self.connection = connection
        self.session_id = session_id
        self.epoch = epoch

    @classmethod
    async def connect(cls, server: Server, topic: Topic, *offsets: int, min_bytes: int = 1) -> "Consumer":
        """One that reads the topic's partitions from these offsets on, which are their ends."""
        before = set(server._connections)
        client = await Client.connect(server)
        wanted = [(topic, index, offset) for index, offset in enumerate(offsets)]
        first = await client.ask(fetch_request(*wanted, session=(0, 0)), FetchResponse)
        (connection,) = server._connections - before
        consumer = cls(server, client, connection, first.session_id, 1)
        consumer.ask(min_bytes=min_bytes)
        await until(lambda: len(server.broker.fetch_waits) == 1)
        assert connection.idle is None
        time_is_up(server)
        assert await consumer.heard() == (Error.NONE, [])
        for _ in range(cls.waited if connection.idle is not None else 0):
            await consumer.ask_again()
            time_is_up(server)
            assert await consumer.heard() == (Error.NONE, [])
        return consumer

    @property
    def is_lent(self) -> bool:
        return self.idle.socket >= 0

    @property
    def idle(self) -> IdleFetch:
        assert self.connection.idle is not None
        return self.connection.idle

    def next_request(self, min_bytes: int = 1) -> FetchRequest:
        self.epoch += 1
        return fetch_request(session=(self.session_id, self.epoch - 1), max_wait_ms=LONG_MS, min_bytes=min_bytes)

    def ask(self, min_bytes: int = 1) -> None:
        self.client.send(self.next_request(min_bytes))

    async def ask_again(self) -> IdleFetch:
        """Ask the same once more, and see that it was not read."""
        idle = self.idle
        self.ask()
        await until(lambda: idle.is_waiting)
        return idle

    async def heard(self) -> tuple[int, list[Any]]:
        response = await self.client.answer()
        assert isinstance(response, FetchResponse)
        return response.error_code, rows(response)


@pytest.fixture(autouse=True, params=["read", "lent"])
def waited(request: pytest.FixtureRequest) -> Iterator[int]:
    Consumer.waited = 0 if request.param == "read" else LENT_AFTER
    yield Consumer.waited
    Consumer.waited = 0


def lent(server: Server) -> int:
    """How many sockets are lent."""
    assert server.idle_sockets is not None
    return len(server.idle_sockets)


def test_the_same_request_waits_again_and_again(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 2), 0, 0)
        before = server.broker.metrics.requests[FETCH.key].count
        kept = consumer.idle
        for _ in range(5):
            assert await consumer.ask_again() is kept
            assert len(server.broker.fetch_waits) == consumer.connection.waiting == 1
            time_is_up(server)
            assert await consumer.heard() == (Error.NONE, [])
            assert len(server.broker.fetch_waits) == consumer.connection.waiting == 0
        assert server.broker.metrics.requests[FETCH.key].count == before + 5

    with_server(tmp_path, story)


def test_time_alone_ends_it(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        first = await client.ask(fetch_request((topic, 0, 0), session=(0, 0)), FetchResponse)
        loop = asyncio.get_running_loop()
        for epoch in range(1, 5):
            began = loop.time()
            request = fetch_request(session=(first.session_id, epoch), max_wait_ms=30)
            answer = await client.ask(request, FetchResponse)
            assert (answer.error_code, answer.session_id, rows(answer)) == (Error.NONE, first.session_id, [])
            assert loop.time() - began >= 0.03

    with_server(tmp_path, story)


def test_an_append_ends_it_with_the_records(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        consumer, producer = await Consumer.connect(server, topic, 0, 0), await Client.connect(server)
        await consumer.ask_again()
        await send(producer, "t", 1, b"v")
        response = await consumer.client.answer()
        assert isinstance(response, FetchResponse)
        assert (response.session_id, values(response)) == (consumer.session_id, [b"v"])
        assert len(server.broker.fetch_waits) == 0
        assert not any(partition.waiters for partition in topic.partitions)
        # The session goes on, from the next offset.
        request = fetch_request((topic, 1, 1), session=(consumer.session_id, consumer.epoch))
        assert rows(await consumer.client.ask(request, FetchResponse)) == []

    with_server(tmp_path, story)


def test_what_happens_between_two_requests_is_told_at_once(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        producer = await Client.connect(server)
        consumer = await Consumer.connect(server, topic, 0)
        await send(producer, "t", 0, b"v")
        consumer.ask()
        error, (row,) = await consumer.heard()
        assert (error, row.high_watermark) == (Error.NONE, 1)

    with_server(tmp_path, story)


def test_a_log_that_begins_elsewhere_is_told(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        await send(await Client.connect(server), "t", 0, b"0", b"1")
        consumer = await Consumer.connect(server, topic, 2)
        idle = await consumer.ask_again()
        time_is_up(server)
        assert await consumer.heard() == (Error.NONE, [])
        assert topic.partitions[0].log.delete_records(1) == 1
        consumer.ask()
        await until(lambda: len(server.broker.fetch_waits) == 1)
        assert not idle.is_waiting
        time_is_up(server)
        _, (row,) = await consumer.heard()
        assert row.log_start_offset == 1

    with_server(tmp_path, story)


def test_a_deleted_topic_ends_it(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        consumer = await Consumer.connect(server, topic, 0)
        await consumer.ask_again()
        server.broker.topics.delete(topic)
        _, (row,) = await consumer.heard()
        assert row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    with_server(tmp_path, story)


def test_a_session_that_is_used_elsewhere_refuses_the_one_that_waits(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        consumer, other = await Consumer.connect(server, topic, 0), await Client.connect(server)
        await consumer.ask_again()
        elsewhere = consumer.next_request()
        elsewhere.max_wait_ms = 0
        assert (await other.ask(elsewhere, FetchResponse)).error_code == Error.NONE
        time_is_up(server)
        assert await consumer.heard() == (Error.INVALID_FETCH_SESSION_EPOCH, [])

    with_server(tmp_path, story)


def test_a_wrong_epoch_and_a_session_that_is_over_are_refused(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        consumer, other = await Consumer.connect(server, topic, 0), await Client.connect(server)
        consumer.epoch += 1
        consumer.ask()
        assert await consumer.heard() == (Error.INVALID_FETCH_SESSION_EPOCH, [])
        consumer = await Consumer.connect(server, topic, 0)
        await other.ask(fetch_request(session=(consumer.session_id, -1)), FetchResponse)
        consumer.ask()
        assert await consumer.heard() == (Error.FETCH_SESSION_ID_NOT_FOUND, [])

    with_server(tmp_path, story)


def test_what_comes_behind_it_waits_for_its_answer(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        await consumer.ask_again()
        consumer.client.send(ApiVersionsRequest("c", "1"))
        await until(lambda: consumer.connection.waiting == 2)
        time_is_up(server)
        assert await consumer.heard() == (Error.NONE, [])
        assert isinstance(await consumer.client.answer(), ApiVersionsResponse)
        assert await consumer.ask_again()

    with_server(tmp_path, story)


def test_a_request_that_comes_in_two_pieces_is_put_together(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        await consumer.ask_again()
        frame = encode_request(consumer.next_request(), FETCH.latest_stable, 99, "client")
        consumer.client._writer.write(frame[:20])
        await until(lambda: consumer.connection._frames.pending_bytes == 20)
        assert consumer.idle.is_waiting
        time_is_up(server)
        assert await consumer.heard() == (Error.NONE, [])
        consumer.client._writer.write(frame[20:])
        await until(lambda: len(server.broker.fetch_waits) == 1)
        time_is_up(server)
        consumer.client._sent.append((99, FetchResponse, FETCH.latest_stable))
        assert await consumer.heard() == (Error.NONE, [])

    with_server(tmp_path, story)


def test_a_client_that_goes_leaves_nothing_behind(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        waiting, between = await Consumer.connect(server, topic, 0, 0), await Consumer.connect(server, topic, 0, 0)
        await waiting.ask_again()
        assert len(topic.partitions[0].waiters) == 2
        waiting.client.close()
        between.client.close()
        await until(lambda: server.connections == 0)
        assert len(server.broker.fetch_waits) == 0
        assert not any(partition.waiters for partition in topic.partitions)

    with_server(tmp_path, story)


def test_what_takes_the_place_of_the_handler_sees_every_request(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        handler = server.handlers[FETCH.key]
        seen: list[FetchRequest] = []

        def handle(node: Any, call: Any, request: FetchRequest) -> None:
            seen.append(request)
            handler.handle(node, call, request)

        server.handlers[FETCH.key] = Handler(handler.api, handle, handler.error_response)
        consumer.ask()
        await until(lambda: len(seen) == 1)
        assert seen[0].session_epoch == consumer.epoch - 1

    with_server(tmp_path, story)


def test_only_what_any_byte_ends_is_kept(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0, min_bytes=2)
        assert consumer.connection.idle is None

    with_server(tmp_path, story)


def test_a_socket_is_lent_to_who_goes_on_waiting_and_comes_back_for_anything_else(tmp_path: Path, waited: int) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        assert lent(server) == int(consumer.is_lent) == int(waited > 0)
        await consumer.client.ask(ApiVersionsRequest(), ApiVersionsResponse)
        assert (lent(server), consumer.is_lent) == (0, False)
        for number in range(1, LENT_AFTER + 3):
            await consumer.ask_again()
            assert lent(server) == int(consumer.is_lent) == int(number >= LENT_AFTER)
            time_is_up(server)
            assert await consumer.heard() == (Error.NONE, [])

    with_server(tmp_path, story)


def test_who_counts_its_requests_over_all_connections_stays(tmp_path: Path, waited: int) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        for _ in range(3):
            next(consumer.client._ids)
            await consumer.ask_again()
            time_is_up(server)
            assert await consumer.heard() == (Error.NONE, [])
        assert consumer.is_lent == (waited > 0 or LENT_AFTER <= 3)

    with_server(tmp_path, story)


@pytest.mark.parametrize("waits", [False, True])
def test_a_client_that_goes_away_leaves_nothing_behind(tmp_path: Path, waits: bool) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        consumer = await Consumer.connect(server, topic, 0)
        if waits:
            await consumer.ask_again()
        consumer.client.close()
        await until(lambda: not server._connections)
        assert lent(server) == len(server.broker.fetch_waits) == 0
        assert not topic.partitions[0].waiters

    with_server(tmp_path, story)


def test_what_does_not_go_at_once_goes_later_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        for sent in (BlockingIOError(), 0, 5):
            await consumer.ask_again()
            if consumer.is_lent:
                with monkeypatch.context() as patched:
                    patched.setattr("slackwater.broker.fetching.idle_fetches.os.write", _partly(sent))
                    time_is_up(server)
                assert not consumer.is_lent
            else:
                time_is_up(server)
            assert await consumer.heard() == (Error.NONE, [])
            for _ in range(LENT_AFTER):
                await consumer.ask_again()
                time_is_up(server)
                assert await consumer.heard() == (Error.NONE, [])

    with_server(tmp_path, story)


def _partly(sent: int | Exception) -> Callable[[int, bytes], int]:
    write = os.write

    def write_partly(socket: int, data: bytes) -> int:
        if isinstance(sent, Exception):
            raise sent
        return write(socket, data[:sent])

    return write_partly


def test_half_a_request_is_read_to_its_end(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        request = consumer.next_request()
        number = next(consumer.client._ids)
        frame = encode_request(request, request.API.latest_stable, number, "client")
        consumer.client._sent.append((number, FetchResponse, request.API.latest_stable))
        consumer.client._writer.write(frame[:20])
        await consumer.client._writer.drain()
        await until(lambda: consumer.connection._frames.pending_bytes == 20)
        consumer.client._writer.write(frame[20:])
        await until(lambda: len(server.broker.fetch_waits) == 1)
        time_is_up(server)
        assert await consumer.heard() == (Error.NONE, [])

    with_server(tmp_path, story)


def test_a_broker_stops_while_sockets_are_lent(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        consumer = await Consumer.connect(server, server.broker.topics.create("t", 1), 0)
        await consumer.ask_again()
        await server.stop()
        assert await consumer.client.is_closed()

    with_server(tmp_path, story)
