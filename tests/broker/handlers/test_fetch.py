"""Fetch: records, size limits, waits and sessions."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.apis import FETCH
from slackwater.wire.messages.fetch import FetchResponse
from slackwater.wire.schema import NO_UUID

from ..server_client import DEADLINE_S, Client, with_server
from ..storage.log.batches import batch
from .data_requests import LAST_BY_NAME, fetch_request, produce_request, records_of, rows, send, values

LONG_MS = 60_000  # longer than any test, so a wait that ends was woken


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0)


def test_every_version_returns_records_from_the_offset(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        client = await Client.connect(server)
        await send(client, "t", 0, b"a", b"b")
        await send(client, "t", 0, b"c")
        for version in range(FETCH.min_version, FETCH.max_version + 1):
            request = fetch_request((topic, 0, 2), (topic, 1, 0))
            response = await client.request(request, FetchResponse, version)
            assert response.responses[0].topic == ("t" if version < 13 else "")
            assert response.responses[0].topic_id == (NO_UUID if version < 13 else topic.topic_id)
            full, empty = rows(response)
            assert [(read.offset, read.value) for read in records_of(full)] == [(2, b"c")]
            assert (full.error_code, full.high_watermark, full.last_stable_offset) == (Error.NONE, 3, 3)
            assert (empty.error_code, empty.high_watermark, empty.records) == (Error.NONE, 0, b"")
            assert full.log_start_offset == (0 if version >= 5 else -1)

    with_server(tmp_path, scenario)


def test_fetch_waits_for_an_append(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 3)
        consumer, producer = await Client.connect(server), await Client.connect(server)
        positions = [(topic, index, 0) for index in range(3)]
        consumer.send(fetch_request(*positions, max_wait_ms=LONG_MS))
        await until(lambda: len(server.broker.delayed_fetches) == 1)
        await send(producer, "t", 1, b"v")
        response = await consumer.next_response()
        assert isinstance(response, FetchResponse)
        assert values(response) == [b"v"]
        assert not len(server.broker.delayed_fetches)
        assert not any(partition.waiters for partition in topic.partitions)

    with_server(tmp_path, scenario)


def test_empty_fetch_ends_at_its_deadline(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        started_at = asyncio.get_running_loop().time()
        response = await client.request(fetch_request((topic, 0, 0), max_wait_ms=50), FetchResponse)
        assert asyncio.get_running_loop().time() - started_at >= 0.045
        assert (rows(response)[0].error_code, values(response)) == (Error.NONE, [])
        assert not topic.partitions[0].waiters

    with_server(tmp_path, scenario)


def test_fetch_waits_for_min_bytes(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        log = topic.partitions[0].log
        consumer, producer = await Client.connect(server), await Client.connect(server)
        await send(producer, "t", 0, b"0")
        min_bytes = log.size * 3
        consumer.send(fetch_request((topic, 0, 0), (topic, 1, 0), max_wait_ms=LONG_MS, min_bytes=min_bytes))
        await until(lambda: len(server.broker.delayed_fetches) == 1)
        await send(producer, "t", 1, b"1")
        assert len(server.broker.delayed_fetches) == 1
        await send(producer, "t", 0, b"2")
        response = await consumer.next_response()
        assert isinstance(response, FetchResponse)
        assert values(response) == [b"0", b"2", b"1"]

    with_server(tmp_path, scenario)


def test_wait_for_min_bytes_ends_at_its_deadline(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        consumer, producer = await Client.connect(server), await Client.connect(server)
        consumer.send(fetch_request((topic, 0, 0), max_wait_ms=300, min_bytes=1 << 20))
        await until(lambda: len(server.broker.delayed_fetches) == 1)
        await send(producer, "t", 0, b"v")
        response = await consumer.next_response()
        assert isinstance(response, FetchResponse)
        assert values(response) == [b"v"]

    with_server(tmp_path, scenario)


def test_new_segment_ends_a_wait_for_min_bytes(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1, {"segment.bytes": "100"})
        consumer, producer = await Client.connect(server), await Client.connect(server)
        consumer.send(fetch_request((topic, 0, 0), max_wait_ms=LONG_MS, min_bytes=1 << 20))
        await until(lambda: len(server.broker.delayed_fetches) == 1)
        await send(producer, "t", 0, b"0")
        assert len(server.broker.delayed_fetches) == 1
        await send(producer, "t", 0, b"1")
        response = await consumer.next_response()
        assert isinstance(response, FetchResponse)
        assert values(response) == [b"0"]

    with_server(tmp_path, scenario)


def test_deleted_topic_ends_waiting_fetches(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        for min_bytes in (1, 1000):
            topic = server.broker.topics.get("t") or server.broker.topics.create("t", 1)
            client = await Client.connect(server)
            client.send(fetch_request((topic, 0, 0), max_wait_ms=LONG_MS, min_bytes=min_bytes))
            await until(lambda: len(server.broker.delayed_fetches) == 1)
            server.broker.topics.delete(topic)
            response = await client.next_response()
            assert isinstance(response, FetchResponse)
            assert rows(response)[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    with_server(tmp_path, scenario)


def test_disconnect_drops_the_waiting_fetch(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        client.send(fetch_request((topic, 0, 0), max_wait_ms=LONG_MS))
        await until(lambda: len(server.broker.delayed_fetches) == 1)
        client.close()
        await until(lambda: not len(server.broker.delayed_fetches))
        assert not topic.partitions[0].waiters

    with_server(tmp_path, scenario)


def test_fetch_returns_an_earlier_acks_0_produce(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        client.send_without_response(produce_request("t", 0, batch(), acks=0), LAST_BY_NAME)
        assert values(await client.request(fetch_request((topic, 0, 0)), FetchResponse)) == [b"v"]

    with_server(tmp_path, scenario)


def test_first_batch_is_complete_above_max_bytes(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 3)
        client = await Client.connect(server)
        for index in (1, 2):
            await send(client, "t", index, b"x" * 500)
            await send(client, "t", index, b"y" * 500)
        positions = [(topic, index, 0) for index in range(3)]
        for request in (
            fetch_request(*positions, max_bytes=1),
            fetch_request(*positions, max_bytes=0),
            fetch_request(*positions, partition_max_bytes=1),
        ):
            response = await client.request(request, FetchResponse)
            assert [len(records_of(data)) for data in rows(response)] == [0, 1, 0]
        response = await client.request(fetch_request(*positions, max_bytes=2000), FetchResponse)
        assert [len(records_of(data)) for data in rows(response)] == [0, 2, 1]

    with_server(tmp_path, scenario)


def test_response_is_limited_by_fetch_max_bytes(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for _ in range(4):
            await send(client, "t", 0, b"x" * 500)
        assert len(values(await client.request(fetch_request((topic, 0, 0)), FetchResponse))) == 1

    with_server(tmp_path, scenario, fetch_max_bytes="1024")


def test_offset_out_of_range_is_returned_at_once(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        client = await Client.connect(server)
        await send(client, "t", 0, b"v")
        for offset in (-1, 2):
            request = fetch_request((topic, 0, offset), (topic, 1, 0), max_wait_ms=LONG_MS)
            wrong, empty = rows(await client.request(request, FetchResponse))
            assert (wrong.error_code, wrong.high_watermark) == (Error.OFFSET_OUT_OF_RANGE, -1)
            assert empty.error_code == Error.NONE

    with_server(tmp_path, scenario)


def test_unknown_leader_epoch(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        await send(client, "t", 0, b"v")
        request = fetch_request((topic, 0, 0), current_leader_epoch=0)
        assert values(await client.request(request, FetchResponse)) == [b"v"]
        request = fetch_request((topic, 0, 0), current_leader_epoch=1, max_wait_ms=LONG_MS)
        assert rows(await client.request(request, FetchResponse))[0].error_code == Error.UNKNOWN_LEADER_EPOCH

    with_server(tmp_path, scenario)


def test_unknown_topics_are_returned_with_the_others(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic, gone = server.broker.topics.create("t", 1), server.broker.topics.create("gone", 1)
        server.broker.topics.delete(gone)
        client, producer = await Client.connect(server), await Client.connect(server)
        for version, error in ((12, Error.UNKNOWN_TOPIC_OR_PARTITION), (13, Error.UNKNOWN_TOPIC_ID)):
            request = fetch_request((gone, 0, 0), max_wait_ms=LONG_MS)
            assert rows(await client.request(request, FetchResponse, version))[0].error_code == error
            end = topic.partitions[0].log.log_end_offset
            client.send(fetch_request((gone, 0, 0), (topic, 0, end), (topic, 7, 0), max_wait_ms=LONG_MS), version)
            await until(lambda: len(server.broker.delayed_fetches) == 1)
            await send(producer, "t", 0, b"v")
            response = await client.next_response()
            assert isinstance(response, FetchResponse)
            assert values(response) == [b"v"]
            assert [data.error_code for data in rows(response)] == [0, error, Error.UNKNOWN_TOPIC_OR_PARTITION]

    with_server(tmp_path, scenario)


def test_session_returns_only_changes(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 3)
        client, producer = await Client.connect(server), await Client.connect(server)
        await send(producer, "t", 0, b"0")
        positions = [(topic, index, 0) for index in range(3)]
        first = await client.request(fetch_request(*positions, session=(0, 0)), FetchResponse)
        assert first.session_id > 0
        assert [data.partition_index for data in rows(first)] == [0, 1, 2]
        unchanged = await client.request(fetch_request((topic, 0, 1), session=(first.session_id, 1)), FetchResponse)
        assert (unchanged.session_id, rows(unchanged)) == (first.session_id, [])
        await send(producer, "t", 2, b"2")
        changed = await client.request(fetch_request(session=(first.session_id, 2)), FetchResponse)
        assert [data.partition_index for data in rows(changed)] == [2]
        assert values(changed) == [b"2"]
        last = await client.request(
            fetch_request(session=(first.session_id, 3), forgotten=[(topic, 2)], max_wait_ms=1), FetchResponse
        )
        assert rows(last) == []

    with_server(tmp_path, scenario)


def test_append_to_an_omitted_partition_ends_the_wait(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        client, producer = await Client.connect(server), await Client.connect(server)
        first = await client.request(fetch_request((topic, 0, 0), (topic, 1, 0), session=(0, 0)), FetchResponse)
        client.send(fetch_request(session=(first.session_id, 1), max_wait_ms=LONG_MS))
        await until(lambda: len(server.broker.delayed_fetches) == 1)
        await send(producer, "t", 1, b"v")
        response = await client.next_response()
        assert isinstance(response, FetchResponse)
        assert values(response) == [b"v"]

    with_server(tmp_path, scenario)


def test_session_detects_a_recreated_topic(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        first = await client.request(fetch_request((topic, 0, 0), session=(0, 0)), FetchResponse)
        server.broker.topics.delete(topic)
        gone = await client.request(fetch_request(session=(first.session_id, 1), max_wait_ms=LONG_MS), FetchResponse)
        assert [data.error_code for data in rows(gone)] == [Error.UNKNOWN_TOPIC_OR_PARTITION]
        server.broker.topics.create("t", 1)
        recreated = await client.request(
            fetch_request(session=(first.session_id, 2), max_wait_ms=LONG_MS), FetchResponse
        )
        assert [data.error_code for data in rows(recreated)] == [Error.INCONSISTENT_TOPIC_ID]
        (row,) = rows(await client.request(fetch_request((topic, 0, 0)), FetchResponse))
        assert row.error_code == Error.UNKNOWN_TOPIC_ID

    with_server(tmp_path, scenario)


def test_invalid_session_is_a_top_level_error(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        first = await client.request(fetch_request((topic, 0, 0), session=(0, 0)), FetchResponse)
        for session, version, error in (
            ((first.session_id + 1, 1), 13, Error.FETCH_SESSION_ID_NOT_FOUND),
            ((first.session_id, 2), 13, Error.INVALID_FETCH_SESSION_EPOCH),
            ((first.session_id, 1), 12, Error.FETCH_SESSION_TOPIC_ID_ERROR),
        ):
            response = await client.request(fetch_request(session=session), FetchResponse, version)
            assert (response.error_code, response.session_id, rows(response)) == (error, 0, [])

    with_server(tmp_path, scenario)
