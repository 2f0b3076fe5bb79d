"""A transactional producer of the load, and what a reader with read_committed sees.

Invariants:
- Each transaction writes to every partition of the topic and commits an offset of a group that no fault damages.
- After an error or a broken connection the producer requests its id again, which ends the transaction. It stops for
  `pause` only when that is done, so no outcome changes during a check.
"""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from slackwater.group.errors import Error
from slackwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from slackwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from slackwater.wire.records.batch import complete_batches
from slackwater.wire.records.fetched import iter_records
from slackwater.wire.records.record import Record, encode_batch
from tests.broker.raw_client import FETCH_V, OFFSETS_V, PRODUCE_V, READ_BYTES, RawClient
from tests.chaos.oracles import Violation
from tests.chaos.oracles.transactions import Outcome, TransactionLedger
from tests.chaos.worker import Worker

if TYPE_CHECKING:
    from tests.chaos.load import Load

TOPIC: Final = "protected-transactional"
PARTITIONS: Final = 2
ID: Final = "protected"
TIMEOUT_MS: Final = 60_000
COMMITTED_SHARE: Final = 0.7
END_S: Final = 30.0
RETRY_S: Final = 0.05
_TRANSACTIONS: Final = 1  # the key type of FindCoordinator
_READ_COMMITTED: Final = 1


class TransactionalProducer(Worker):
    """Writes, commits and aborts transactions of one transactional id."""

    def __init__(self, load: "Load", ledger: TransactionLedger, group: str) -> None:
        super().__init__(load)
        self.ledger, self.group = ledger, group
        self.producer: tuple[int, int] | None = None  # id and epoch

    @property
    def partition_name(self) -> str:
        return TOPIC

    @property
    def may_park(self) -> bool:
        return self.producer is not None

    async def step(self, client: RawClient) -> None:
        producer, self.producer = self.producer, None  # until the transaction has ended
        self.producer = await (self._initialize(client) if producer is None else self._transact(client, *producer))

    async def _initialize(self, client: RawClient) -> tuple[int, int] | None:
        find = FindCoordinatorRequest(key_type=_TRANSACTIONS, coordinator_keys=[ID])
        found = await client.request(find, FindCoordinatorResponse, 4)
        error = Error(found.coordinators[0].error_code)
        if error is Error.NONE:
            response = await client.request(InitProducerIdRequest(ID, TIMEOUT_MS), InitProducerIdResponse)
            error = Error(response.error_code)
            if error is Error.NONE:
                return response.producer_id, response.producer_epoch
        await self.on_error(error)
        return None

    async def _transact(self, client: RawClient, producer_id: int, epoch: int) -> tuple[int, int] | None:
        size = self.rng.randint(1, 10)
        number = self.ledger.begin(size)
        error = await self._write(client, producer_id, epoch, number, size)
        if error is not Error.NONE:
            await self.on_error(error)
            return None
        is_commit = self.rng.random() < COMMITTED_SHARE
        if is_commit:
            self.ledger.outcomes[number] = Outcome.UNKNOWN
        ended = await client.request(EndTxnRequest(ID, producer_id, epoch, is_commit), EndTxnResponse, 5)
        if ended.error_code:
            await self.on_error(Error(ended.error_code))
            return None
        if is_commit:
            self.ledger.outcomes[number] = Outcome.COMMITTED
        self.load.transactions += 1
        self.on_acknowledged()
        return ended.producer_id, ended.producer_epoch

    async def _write(self, client: RawClient, producer_id: int, epoch: int, number: int, size: int) -> Error:
        now_ms = self.load.wall_ms()
        records = [Record(None, b"%d" % number, timestamp=now_ms) for _ in range(size)]
        batch = encode_batch(
            records, transactional=True, producer_id=producer_id, producer_epoch=epoch, base_sequence=0
        )
        data = [PartitionProduceData(partition, bytes(batch)) for partition in range(PARTITIONS)]
        produce = ProduceRequest(
            ID, acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(TOPIC, partition_data=data)]
        )
        produced = await client.request(produce, ProduceResponse, PRODUCE_V)
        for row in produced.responses[0].partition_responses:
            if row.error_code:
                return Error(row.error_code)
        topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, number)])]
        commit = TxnOffsetCommitRequest(ID, self.group, producer_id, epoch, topics=topics)
        committed = await client.request(commit, TxnOffsetCommitResponse)
        return Error(committed.topics[0].partitions[0].error_code)


async def read_committed(client: RawClient, partition: int) -> list[int]:
    """Return the numbers that a reader with read_committed sees, when no transaction is open."""
    deadline = monotonic() + END_S
    numbers: list[int] = []
    offset = 0
    while True:
        fetched = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            isolation_level=_READ_COMMITTED,
            topics=[FetchTopic(TOPIC, partitions=[fetched])],
        )
        response = await client.request(request, FetchResponse, FETCH_V)
        data = response.responses[0].partitions[0]
        if response.error_code or data.error_code:
            raise Violation(f"{TOPIC}-{partition} cannot be read: {Error(response.error_code or data.error_code).name}")
        records = bytes(data.records or b"")
        if records:
            aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()]
            numbers += [int(record.value or b"") for record in iter_records(records, offset, aborted=aborted)]
            *_, last = complete_batches(records)
            offset = last.next_offset
        elif data.last_stable_offset == data.high_watermark:
            return numbers
        elif monotonic() > deadline:
            raise Violation(
                f"{TOPIC}-{partition}: a transaction at offset {data.last_stable_offset} is open "
                f"{END_S:g} s after its producer has ended it"
            )
        else:
            await asyncio.sleep(RETRY_S)


async def read_group_offset(client: RawClient, group: str) -> int:
    """Return the offset of the group when no transaction with an offset is open."""
    topics = [OffsetFetchRequestTopics(TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=True)
    deadline = monotonic() + END_S
    while True:
        response = await client.request(request, OffsetFetchResponse, OFFSETS_V)
        row = response.groups[0].topics[0].partitions[0]
        error = Error(response.groups[0].error_code or row.error_code)
        if error is Error.NONE:
            return row.committed_offset
        if monotonic() > deadline:
            raise Violation(f"the offset of {group} cannot be read: {error.name}")
        await asyncio.sleep(RETRY_S)
