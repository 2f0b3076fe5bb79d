"""Produce and TxnOffsetCommit in a transaction: verification, errors by version, offsets in the group."""

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from slackwater.broker.server import Server
from slackwater.broker.storage.log.files import LOG, file_name
from slackwater.clock import ManualClock
from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.messages import (
    AddPartitions,
    AddPartitionsResponse,
    EndTransaction,
    EndTransactionResponse,
    InitProducerId,
    InitProducerIdResponse,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from slackwater.wire.messages.produce import ProduceResponse
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from slackwater.wire.records.batch import TRANSACTIONAL_BIT

from ..handlers.data_requests import produce_request, produced
from ..server_client import DEADLINE_S, Client, with_server
from ..storage.log.batches import NOW_MS, batch

ID = "orders-1"
ADDING, VERIFYING = 12, 11
_R = TypeVar("_R", bound=TransactionResponse)


async def ask(server: Server, request: TransactionRequest, _response: type[_R]) -> _R:
    """Send a request to the transaction coordinator."""
    answer: asyncio.Future[_R] = asyncio.get_running_loop().create_future()
    server.broker.transaction_coordinator.submit(request, answer.set_result)
    async with asyncio.timeout(DEADLINE_S):
        return await answer


async def init(server: Server) -> InitProducerIdResponse:
    server.broker.create_transactions_topic()
    return await ask(server, InitProducerId(ID, 60_000), InitProducerIdResponse)


async def end(server: Server, producer: InitProducerIdResponse, *, commit: bool) -> InitProducerIdResponse:
    """End the transaction and return the next producer epoch."""
    request = EndTransaction(ID, producer.producer_id, producer.producer_epoch, commit, bumps_epoch=True)
    ended = await ask(server, request, EndTransactionResponse)
    assert ended.error is Error.NONE
    return InitProducerIdResponse(Error.NONE, ended.producer_id, ended.producer_epoch)


async def send(
    client: Client,
    producer: InitProducerIdResponse,
    sequence: int = 0,
    *,
    version: int = ADDING,
    epoch: int | None = None,
    transactional_id: str | None = ID,
) -> int:
    """Produce a transactional batch and return the error."""
    records = batch(
        producer_id=producer.producer_id,
        epoch=producer.producer_epoch if epoch is None else epoch,
        sequence=sequence,
        attributes=TRANSACTIONAL_BIT,
    )
    request = produce_request("t", 0, records)
    request.transactional_id = transactional_id
    return produced(await client.request(request, ProduceResponse, version)).error_code


async def commit_offset(
    client: Client,
    producer: InitProducerIdResponse,
    offset: int,
    *,
    version: int = 5,
    group_id: str = "g",
    generation: int = -1,
    topic: str = "t",
) -> int:
    request = TxnOffsetCommitRequest(
        ID,
        group_id,
        producer.producer_id,
        producer.producer_epoch,
        generation,
        topics=[TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(0, offset)])],
    )
    response = await client.request(request, TxnOffsetCommitResponse, version)
    return response.topics[0].partitions[0].error_code


async def fetched_offset(client: Client, *, stable: bool = False) -> tuple[int, int]:
    """Return error and offset of the group."""
    groups = [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])]
    response = await client.request(OffsetFetchRequest(groups=groups, require_stable=stable), OffsetFetchResponse, 9)
    row = response.groups[0].topics[0].partitions[0]
    return row.error_code, row.committed_offset


@pytest.mark.proves("TX-73")
def test_produce_adds_its_partition_to_the_transaction(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        log = server.broker.topics.create("t", 1).partitions[0].log
        client = await Client.connect(server)
        producer = await init(server)
        assert [await send(client, producer, sequence) for sequence in (0, 1)] == [Error.NONE] * 2
        assert (log.last_stable_offset, log.log_end_offset) == (0, 2)
        following = await end(server, producer, commit=True)
        assert await send(client, producer, 2) == Error.INVALID_PRODUCER_EPOCH
        assert await send(client, following) == Error.NONE
        assert log.last_stable_offset == 3

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


@pytest.mark.proves("TX-73")
@pytest.mark.parametrize(
    ("version", "error"),
    [(10, Error.INVALID_TXN_STATE), (VERIFYING, Error.TRANSACTION_ABORTABLE)],
)
def test_older_produce_needs_its_partition_in_the_transaction(tmp_path: Path, version: int, error: Error) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        producer = await init(server)
        assert await send(client, producer, version=version) == error
        partitions = frozenset({TopicPartition("t", 0)})
        added = AddPartitions(ID, producer.producer_id, producer.producer_epoch, partitions)
        assert (await ask(server, added, AddPartitionsResponse)).error is Error.NONE
        assert await send(client, producer, version=version) == Error.NONE

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


@pytest.mark.proves("TX-73")
def test_wrong_transactional_produce(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 2)
        client = await Client.connect(server)
        producer = await init(server)
        assert await send(client, producer, transactional_id=None) == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await send(client, producer, transactional_id="other") == Error.INVALID_PRODUCER_ID_MAPPING
        assert await send(client, producer, epoch=producer.producer_epoch + 1) == Error.INVALID_PRODUCER_EPOCH
        request = produce_request("t", 0, None)
        request.transactional_id = ID
        for producer_id in (1, 2):
            records = batch(producer_id=producer_id, epoch=0, sequence=0, attributes=TRANSACTIONAL_BIT)
            data = produce_request("t", producer_id - 1, records).topic_data[0].partition_data[0]
            request.topic_data[0].partition_data[producer_id - 1 :] = [data]
        response = await client.request(request, ProduceResponse, ADDING)
        errors = [row.error_code for row in response.responses[0].partition_responses]
        assert errors == [Error.INVALID_PRODUCER_ID_MAPPING] * 2

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


@pytest.mark.proves("TX-04", "TX-74")
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_committed_by_the_marker(tmp_path: Path, commit: bool) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        producer = await init(server)
        assert await commit_offset(client, producer, 5) == Error.NONE
        assert await fetched_offset(client) == (Error.NONE, -1)
        assert await fetched_offset(client, stable=True) == (Error.UNSTABLE_OFFSET_COMMIT, -1)
        await end(server, producer, commit=commit)
        expected = (Error.NONE, 5 if commit else -1)
        assert await fetched_offset(client, stable=True) == expected
        offsets_log = next(
            partition.log
            for partition in server.broker.topics.get(OFFSETS_TOPIC).partitions  # type: ignore[union-attr]
            if partition.log.log_end_offset
        )
        assert (offsets_log.log_end_offset, offsets_log.last_stable_offset) == (2, 2)

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))


def test_pending_and_committed_offsets_survive_a_kill(tmp_path: Path) -> None:
    producers: list[InitProducerIdResponse] = []

    async def before(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        producer = await init(server)
        assert await commit_offset(client, producer, 5) == Error.NONE
        producer = await end(server, producer, commit=True)
        assert await commit_offset(client, producer, 6) == Error.NONE
        producers.append(producer)
        await server.stop(clean=False)

    async def after(server: Server) -> None:
        client = await Client.connect(server)
        assert await fetched_offset(client) == (Error.NONE, 5)
        assert await fetched_offset(client, stable=True) == (Error.UNSTABLE_OFFSET_COMMIT, -1)
        await end(server, producers[0], commit=True)
        assert await fetched_offset(client, stable=True) == (Error.NONE, 6)

    with_server(tmp_path, before, clock=ManualClock(NOW_MS))
    with_server(tmp_path, after, clock=ManualClock(NOW_MS))


def test_offsets_without_their_lost_marker_are_not_pending(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Consumers that fetch stable offsets must not wait for a marker that does not exist any more."""
    directories: list[Path] = []

    async def before(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        producer = await init(server)
        assert await commit_offset(client, producer, 5) == Error.NONE
        await end(server, producer, commit=True)
        (offsets_log,) = [
            partition.log
            for partition in server.broker.topics.get(OFFSETS_TOPIC).partitions  # type: ignore[union-attr]
            if partition.log.log_end_offset
        ]
        offsets_log.roll(NOW_MS)
        directories.append(offsets_log.directory)

    async def after(server: Server) -> None:
        client = await Client.connect(server)
        assert await fetched_offset(client, stable=True) == (Error.NONE, -1)

    with_server(tmp_path, before, clock=ManualClock(NOW_MS))
    path = directories[0] / file_name(0, LOG)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # in the marker
    path.write_bytes(content)
    with_server(tmp_path, after, clock=ManualClock(NOW_MS))
    assert f"{directories[0].name} has lost records." in caplog.text


@pytest.mark.proves("TX-74")
def test_wrong_offset_commits(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        producer = await init(server)
        assert await commit_offset(client, producer, 5, group_id="") == Error.INVALID_GROUP_ID
        assert await commit_offset(client, producer, 5, topic="missing") == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert await commit_offset(client, producer, 5, version=3) == Error.INVALID_TXN_STATE
        assert await commit_offset(client, producer, 5, version=4) == Error.TRANSACTION_ABORTABLE
        assert await commit_offset(client, producer, 5, generation=3) == Error.ILLEGAL_GENERATION
        old = InitProducerIdResponse(Error.NONE, producer.producer_id, producer.producer_epoch + 1)
        assert await commit_offset(client, old, 5) == Error.INVALID_PRODUCER_EPOCH

    with_server(tmp_path, scenario, clock=ManualClock(NOW_MS))
