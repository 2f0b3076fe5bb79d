"""Transactions whose end is interrupted: by a full disk, a killed broker, a stalled broker."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from slackwater.wire.records.fetched import iter_records
from slackwater.wire.records.record import Record, encode_batch
from tests.broker.broker_process import BrokerProcess
from tests.broker.raw_client import FETCH_V, PRODUCE_V, RawClient, closing

ID = "payments"
LIMIT_BYTES = 20_000
DEADLINE_S = 30.0
SETTINGS = {"transaction.state.log.num.partitions": "1"}


async def begin(client: RawClient, value: bytes, timeout_ms: int = 60_000) -> EndTxnRequest:
    """Write one record in a transaction; return the request that commits it."""
    assert await client.create_topic("t") is Error.NONE
    error: int = Error.COORDINATOR_NOT_AVAILABLE
    while error == Error.COORDINATOR_NOT_AVAILABLE:  # the first request creates the topic of transactions
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        error = (await client.request(find, FindCoordinatorResponse, 4)).coordinators[0].error_code
    producer = await client.request(InitProducerIdRequest(ID, timeout_ms), InitProducerIdResponse)
    producer_id, epoch = producer.producer_id, producer.producer_epoch
    batch = encode_batch(
        [Record(None, value, timestamp=int(time.time() * 1000))],
        transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
    )
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(batch))])
    produced = await client.request(ProduceRequest(ID, acks=-1, topic_data=[data]), ProduceResponse, PRODUCE_V)
    assert produced.responses[0].partition_responses[0].error_code == 0
    return EndTxnRequest(ID, producer_id, epoch, True)


async def committed(client: RawClient, *, wait: bool) -> list[bytes | None]:
    """Return the values that a reader with read_committed sees; `wait` until there are some."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while True:
        topics = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1_000_000)])]
        request = FetchRequest(max_wait_ms=500 if wait else 0, min_bytes=1, isolation_level=1, topics=topics)
        data = (await client.request(request, FetchResponse, FETCH_V)).responses[0].partitions[0]
        assert data.error_code == 0
        aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()]
        values = [record.value for record in iter_records(bytes(data.records or b""), 0, aborted=aborted)]
        if values or not wait:
            return values
        assert asyncio.get_running_loop().time() < deadline, "the transaction stays open"


@pytest.mark.parametrize("ending", ["space", "kill"])
def test_markers_are_written_when_the_disk_has_space_again(tmp_path: Path, ending: str) -> None:
    """The decision fits on the disk, the marker does not."""
    value = b"." * LIMIT_BYTES

    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            end = await begin(client, value)
            broker.limit_files(LIMIT_BYTES)
            assert (await client.request(end, EndTxnResponse)).error_code == 0
            assert await committed(client, wait=False) == []
            if ending == "space":
                broker.limit_files(None)
                assert await committed(client, wait=True) == [value]
            broker.kill()
            assert "Markers of the transaction of payments failed: t-0 KAFKA_STORAGE_ERROR." in broker.log
            assert "Traceback" not in broker.log
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            assert await committed(await broker.connect(), wait=True) == [value]

    asyncio.run(scenario())


def test_commit_that_arrives_during_a_stall_counts(tmp_path: Path) -> None:
    """The transaction times out while the broker is stopped; its commit waits in the socket."""
    timeout_ms, interval_ms = 1_000, 100

    @closing
    async def scenario() -> None:
        settings = SETTINGS | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(interval_ms)}
        with BrokerProcess(tmp_path, settings) as broker:
            client = await broker.connect()
            end = await begin(client, b"v", timeout_ms)
            broker.send_signal(signal.SIGSTOP)
            client.send(end)
            await asyncio.sleep(2 * timeout_ms / 1000)  # the stall
            broker.send_signal(signal.SIGCONT)
            response = await client.next_response()
            assert isinstance(response, EndTxnResponse)
            assert response.error_code == 0
            assert await committed(client, wait=True) == [b"v"]
            assert "Aborting the transaction" not in broker.log

    asyncio.run(scenario())
