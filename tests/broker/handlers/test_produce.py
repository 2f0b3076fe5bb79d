"""Produce: accepted and rejected batches, acks, and the time of the response."""

import struct
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.apis import PRODUCE
from slackwater.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from slackwater.wire.records.compression import Codec
from slackwater.wire.schema import NO_UUID

from ..server_client import Client, with_server
from ..storage.log.batches import NOW_MS, Sent, batch, contents
from .data_requests import LAST_BY_NAME, produce_request, produced, send


def test_every_version_appends_and_returns_the_offset(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for number, version in enumerate(range(PRODUCE.min_version, PRODUCE.max_version + 1)):
            request = produce_request("t", 0, batch(), topic_id=topic.topic_id)
            response = await client.request(request, ProduceResponse, version)
            assert response.responses[0].name == ("t" if version < 13 else "")
            assert response.responses[0].topic_id == (NO_UUID if version < 13 else topic.topic_id)
            row = produced(response)
            assert (row.error_code, row.base_offset, row.log_append_time_ms) == (Error.NONE, number, -1)
            assert row.log_start_offset == (0 if version >= 5 else -1)

    with_server(tmp_path, scenario)


@pytest.mark.parametrize("acks", [1, -1])
def test_pipelined_requests_are_appended_in_order(tmp_path: Path, acks: int) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for number in range(20):
            client.send(produce_request("t", 0, batch(Sent(b"k", b"%d" % number)), acks=acks), LAST_BY_NAME)
        offsets = []
        for _ in range(20):
            response = await client.next_response()
            assert isinstance(response, ProduceResponse)
            offsets.append(produced(response).base_offset)
        assert offsets == list(range(20))
        assert [read.value for read in contents(topic.partitions[0].log)] == [b"%d" % n for n in range(20)]

    with_server(tmp_path, scenario)


def test_response_has_every_partition_in_order(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("a", 2)
        server.broker.topics.create("b", 1)
        client = await Client.connect(server)
        records = bytes(batch())
        request = ProduceRequest(
            acks=1,
            topic_data=[
                TopicProduceData("b", NO_UUID, [PartitionProduceData(0, records), PartitionProduceData(1, records)]),
                TopicProduceData("gone", NO_UUID, [PartitionProduceData(0, records)]),
                TopicProduceData("a", NO_UUID, [PartitionProduceData(1, records)]),
            ],
        )
        response = await client.request(request, ProduceResponse, LAST_BY_NAME)
        assert [
            (topic.name, row.index, row.error_code) for topic in response.responses for row in topic.partition_responses
        ] == [
            ("b", 0, Error.NONE),
            ("b", 1, Error.UNKNOWN_TOPIC_OR_PARTITION),
            ("gone", 0, Error.UNKNOWN_TOPIC_OR_PARTITION),
            ("a", 1, Error.NONE),
        ]

    with_server(tmp_path, scenario)


def test_unknown_topics_and_partitions(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        server.broker.create_offsets_topic()
        client = await Client.connect(server)
        for request, version, error in (
            (produce_request("gone", 0, batch()), 12, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (produce_request("t", 1, batch()), 12, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (produce_request("t", -1, batch()), 12, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (produce_request("", 0, batch(), topic_id=b"\x07" * 16), 13, Error.UNKNOWN_TOPIC_ID),
            (produce_request("", 5, batch(), topic_id=topic.topic_id), 13, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (produce_request("__consumer_offsets", 0, batch()), 12, Error.INVALID_TOPIC_EXCEPTION),
            (produce_request("t", 0, batch(), acks=5), 12, Error.INVALID_REQUIRED_ACKS),
        ):
            row = produced(await client.request(request, ProduceResponse, version))
            assert (row.error_code, row.base_offset, row.log_start_offset) == (error, -1, -1)
        assert topic.partitions[0].log.log_end_offset == 0

    with_server(tmp_path, scenario)


def _with_magic(magic: int) -> bytes:
    data = batch()
    data[16] = magic
    return bytes(data)


def _with_length(length: int) -> bytes:
    data = batch()
    struct.pack_into(">i", data, 8, length)
    return bytes(data)


BATCH = bytes(batch())


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, Error.INVALID_RECORD),
        (b"", Error.INVALID_RECORD),
        (BATCH + BATCH, Error.INVALID_RECORD),
        (BATCH[:-1], Error.INVALID_RECORD),
        (BATCH[:11], Error.INVALID_RECORD),
        (BATCH[:16], Error.INVALID_RECORD),
        (_with_magic(0), Error.INVALID_RECORD),
        (_with_magic(1), Error.INVALID_RECORD),
        (_with_magic(3), Error.CORRUPT_MESSAGE),
        (_with_length(5), Error.CORRUPT_MESSAGE),
        (_with_length(-1), Error.CORRUPT_MESSAGE),
        (_with_length(20), Error.CORRUPT_MESSAGE),
        (BATCH + bytes(20), Error.CORRUPT_MESSAGE),
        (BATCH[:-1] + b"\x55", Error.CORRUPT_MESSAGE),
        (bytes(batch(count=0)), Error.INVALID_RECORD),
        (bytes(batch(attributes=0x20)), Error.INVALID_RECORD),
    ],
)
def test_records_that_are_not_one_batch_are_rejected(tmp_path: Path, records: bytes | None, error: Error) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        row = produced(await client.request(produce_request("t", 0, records), ProduceResponse, LAST_BY_NAME))
        assert (row.error_code, row.base_offset) == (error, -1)
        assert row.error_message
        assert topic.partitions[0].log.log_end_offset == 0
        assert await send(client, "t", 0, b"next") == 0

    with_server(tmp_path, scenario)


@pytest.mark.parametrize("rest", [b"12345", BATCH[:30]])
def test_truncated_second_batch_is_ignored(tmp_path: Path, rest: bytes) -> None:
    async def scenario(server: Server) -> None:
        log = server.broker.topics.create("t", 1).partitions[0].log
        client = await Client.connect(server)
        row = produced(await client.request(produce_request("t", 0, BATCH + rest), ProduceResponse, LAST_BY_NAME))
        assert (row.error_code, row.base_offset) == (Error.NONE, 0)
        assert log.size == len(BATCH)

    with_server(tmp_path, scenario)


def test_zstd_needs_version_7(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        request = produce_request("t", 0, batch(codec=Codec.ZSTD))
        assert (
            produced(await client.request(request, ProduceResponse, 6)).error_code == Error.UNSUPPORTED_COMPRESSION_TYPE
        )
        assert produced(await client.request(request, ProduceResponse, 7)).error_code == Error.NONE

    with_server(tmp_path, scenario)


def test_rejected_records_are_listed(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1, {"cleanup.policy": "compact"})
        client = await Client.connect(server)
        request = produce_request("t", 0, batch(Sent(None), Sent(b"k"), Sent(None)))
        row = produced(await client.request(request, ProduceResponse, 8))
        assert row.error_code == Error.INVALID_RECORD
        assert [error.batch_index for error in row.record_errors] == [0, 2]
        assert row.log_start_offset == 0
        assert "key" in (row.error_message or "")
        assert produced(await client.request(request, ProduceResponse, 7)).error_code == Error.INVALID_RECORD

    with_server(tmp_path, scenario)


def test_log_append_time_is_returned(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1, {"message.timestamp.type": "LogAppendTime"})
        client = await Client.connect(server)
        row = produced(await client.request(produce_request("t", 0, batch()), ProduceResponse, LAST_BY_NAME))
        assert row.log_append_time_ms > NOW_MS

    with_server(tmp_path, scenario)


def test_duplicate_and_out_of_order_sequences(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        log = server.broker.topics.create("t", 1).partitions[0].log
        client = await Client.connect(server)

        async def produce(sequence: int, epoch: int = 0) -> tuple[int, int]:
            records = batch(Sent(), Sent(), producer_id=7, epoch=epoch, sequence=sequence)
            row = produced(await client.request(produce_request("t", 0, records), ProduceResponse, LAST_BY_NAME))
            return row.error_code, row.base_offset

        assert await produce(0) == (Error.NONE, 0)
        assert await produce(2) == (Error.NONE, 2)
        assert await produce(0) == (Error.NONE, 0)
        assert await produce(6) == (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert await produce(0, epoch=1) == (Error.NONE, 4)
        assert await produce(4) == (Error.INVALID_PRODUCER_EPOCH, -1)
        assert log.log_end_offset == 6

    with_server(tmp_path, scenario)


def test_acks_0_has_no_response(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for _ in range(3):
            client.send_without_response(produce_request("t", 0, batch(), acks=0), LAST_BY_NAME)
        assert await send(client, "t", 0, b"v") == 3

    with_server(tmp_path, scenario)


def test_acks_0_error_closes_the_connection(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client, other = await Client.connect(server), await Client.connect(server)
        for records, topic in ((batch(), "gone"), (batch(count=0), "t")):
            client = await Client.connect(server)
            client.send_without_response(produce_request(topic, 0, records, acks=0), LAST_BY_NAME)
            assert await client.is_closed()
        assert await send(other, "t", 0, b"v") == 0

    with_server(tmp_path, scenario)


def test_flush_always_responds_after_the_flush(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        log = server.broker.topics.create("t", 1).partitions[0].log
        client = await Client.connect(server)
        assert await send(client, "t", 0, b"v") == 0
        assert log.checkpoint.recovery_point == 1

    with_server(tmp_path, scenario, flush="always")
