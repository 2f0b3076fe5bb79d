"""The requests of a transactional producer, at a coordinator whose errors the test chooses."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from slackwater import (
    AbortableTransactionError,
    ConsumerGroupMetadata,
    FatalTransactionError,
    Producer,
    ProducerFencedError,
    RetriableTransactionError,
    TransactionAbortedError,
    TransactionError,
    UsageError,
)
from slackwater.group.errors import BrokerError, Error
from slackwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from slackwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from slackwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from slackwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from slackwater.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from slackwater.wire.records.batch import RecordBatch
from slackwater.wire.schema import Request, Response
from tests.client.helpers import wait_for
from tests.client.network.hostile_server import HostileServer, hostile_server

TOPIC: Final = "t"
TOPIC_ID: Final = bytes(range(16))
PARTITIONS: Final = 2
PRODUCER_ID: Final = 7
GROUP: Final = ConsumerGroupMetadata("g", 3, "m-1")
LOST: Final = "connection lost"  # instead of an error: the request is processed, and its response is lost
COORDINATOR_APIS: Final = {
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce",
}  # fmt: skip


class ScriptedCluster:
    """One broker that accepts every request, after the errors that the test has set for its API."""

    def __init__(self) -> None:
        self.errors: defaultdict[str, list[Error | str]] = defaultdict(list)
        self.epoch = -1
        self.batches: list[tuple[int, int]] = []  # epoch and first sequence of each batch
        self.ended: list[tuple[int, bool]] = []  # epoch, and whether it was a commit
        self.server: HostileServer

    def respond(self, request: Request) -> Response:
        """Return the next response."""
        errors = self.errors[request.API.name]
        error = errors.pop(0) if errors else Error.NONE
        response = self._respond(request, Error.NONE if isinstance(error, str) else error)
        if error == LOST:
            raise ConnectionResetError
        return response

    @property
    def requests(self) -> list[tuple[str, int]]:
        """The transaction's requests, with their versions."""
        return [(name, version) for name, version in self.server.requests if name in COORDINATOR_APIS]

    def _respond(self, request: Request, error: Error) -> Response:
        match request:
            case MetadataRequest():
                return self._metadata()
            case FindCoordinatorRequest():
                host, port = "127.0.0.1", self.server.port
                rows = [Coordinator(key, 0, host, port, error, "no") for key in request.coordinator_keys]
                return FindCoordinatorResponse(coordinators=rows)
            case InitProducerIdRequest():
                if error is Error.NONE:
                    self.epoch += 1
                return InitProducerIdResponse(0, error, PRODUCER_ID, self.epoch)
            case AddPartitionsToTxnRequest():
                return AddPartitionsToTxnResponse(
                    results_by_topic_v3_and_below=[
                        AddPartitionsToTxnTopicResult(
                            topic.name,
                            [AddPartitionsToTxnPartitionResult(row, error) for row in topic.partitions],
                        )
                        for topic in request.v3_and_below_topics
                    ]
                )
            case AddOffsetsToTxnRequest():
                return AddOffsetsToTxnResponse(0, error)
            case TxnOffsetCommitRequest():
                return TxnOffsetCommitResponse(
                    topics=[
                        TxnOffsetCommitResponseTopic(
                            topic.name,
                            [TxnOffsetCommitResponsePartition(row.partition_index, error) for row in topic.partitions],
                        )
                        for topic in request.topics
                    ]
                )
            case ProduceRequest():
                return self._produce(request, error)
            case EndTxnRequest():
                if error is Error.NONE:
                    self.ended.append((request.producer_epoch, request.committed))
                    self.epoch = request.producer_epoch + (self.server.requests[-1] == ("EndTxn", 5))
                return EndTxnResponse(0, error, PRODUCER_ID, self.epoch)
            case _:
                raise AssertionError(request)

    def _metadata(self) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=number, leader_id=0, replica_nodes=[0], isr_nodes=[0])
            for number in range(PARTITIONS)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(0, "127.0.0.1", self.server.port)],
            topics=[MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)],
        )

    def _produce(self, request: ProduceRequest, error: Error) -> ProduceResponse:
        assert request.transactional_id == "x"
        for topic in request.topic_data:
            for partition in topic.partition_data:
                assert partition.records is not None
                batch = RecordBatch(bytes(partition.records))
                assert batch.is_transactional
                self.batches.append((batch.producer_epoch, batch.base_sequence))
        rows = [
            TopicProduceResponse(
                topic.name, topic.topic_id, [PartitionProduceResponse(row.index, error) for row in topic.partition_data]
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=rows)


Start = Callable[[int], tuple[ScriptedCluster, Producer]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a cluster with this transaction version, and a producer that is ready."""
    with ExitStack() as stack:

        def run(version: int) -> tuple[ScriptedCluster, Producer]:
            cluster = ScriptedCluster()
            cluster.server = stack.enter_context(hostile_server(cluster.respond, {"transaction.version": version}))
            producer = stack.enter_context(new_producer(cluster))
            producer.init_transactions()
            return cluster, producer

        yield run


def new_producer(cluster: ScriptedCluster) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster.server.bootstrap_servers,
            "transactional.id": "x",
            "linger.ms": 0,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 5,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 5,
        }
    )


def run_transaction(producer: Producer) -> None:
    with producer.transaction():
        producer.send(TOPIC, b"1", partition=0)
        producer.send_offsets_to_transaction({(TOPIC, 0): 5}, GROUP)  # type: ignore[dict-item]


# --- versions ---------------------------------------------------------------------------------------------------------


def test_version_1_adds_partitions_and_groups(start: Start) -> None:
    cluster, producer = start(1)
    run_transaction(producer)
    assert cluster.requests[-1] == ("EndTxn", 4)
    assert dict(cluster.requests) == {
        "InitProducerId": 5,
        "AddPartitionsToTxn": 3,
        "Produce": 11,
        "AddOffsetsToTxn": 4,
        "TxnOffsetCommit": 4,
        "EndTxn": 4,
    }
    run_transaction(producer)
    assert cluster.batches == [(0, 0), (0, 1)]  # the sequences of an epoch continue


def test_version_2_sends_only_data_and_end(start: Start) -> None:
    cluster, producer = start(2)
    run_transaction(producer)
    assert dict(cluster.requests) == {"InitProducerId": 5, "Produce": 13, "TxnOffsetCommit": 5, "EndTxn": 5}
    run_transaction(producer)
    assert cluster.batches == [(0, 0), (1, 0)]  # every transaction has its own epoch
    assert cluster.ended == [(0, True), (1, True)]


def test_upgrade_to_version_2_takes_a_new_epoch(start: Start) -> None:
    cluster, producer = start(1)
    run_transaction(producer)
    cluster.server.features = {"transaction.version": 2}
    cluster.errors["Produce"].append(LOST)  # connects again, as after a restart of the broker
    run_transaction(producer)
    run_transaction(producer)
    assert cluster.ended == [(0, True), (0, True), (1, True)]
    assert [name for name, _ in cluster.requests][-4:] == ["InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"]


@pytest.mark.parametrize("version", [1, 2])
def test_empty_transactions_send_nothing(start: Start, version: int) -> None:
    cluster, producer = start(version)
    for _ in range(2):
        with producer.transaction():
            producer.send_offsets_to_transaction({}, GROUP)
    producer.begin_transaction()
    producer.abort_transaction()
    assert [name for name, _ in cluster.requests] == ["InitProducerId"]


# --- errors -----------------------------------------------------------------------------------------------------------

RETRIED: Final = (
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.CONCURRENT_TRANSACTIONS,
    LOST,
)


@pytest.mark.parametrize("version", [1, 2])
def test_retriable_errors_are_retried(start: Start, version: int) -> None:
    cluster, producer = start(version)
    for api in sorted(COORDINATOR_APIS - {"InitProducerId", "Produce"}):
        cluster.errors[api] += RETRIED
    cluster.errors["FindCoordinator"] += [Error.COORDINATOR_NOT_AVAILABLE, LOST]
    cluster.errors["Produce"] += [Error.CONCURRENT_TRANSACTIONS, Error.NOT_LEADER_OR_FOLLOWER]
    run_transaction(producer)
    assert not any(errors for api, errors in cluster.errors.items() if version == 1 or not api.startswith("Add"))
    run_transaction(producer)
    assert all(committed for _, committed in cluster.ended)


def test_moved_coordinator_is_looked_up_again(start: Start) -> None:
    cluster, producer = start(2)
    run_transaction(producer)
    before = [name for name, _ in cluster.server.requests].count("FindCoordinator")
    cluster.errors["EndTxn"] += [Error.NOT_COORDINATOR]
    run_transaction(producer)
    assert [name for name, _ in cluster.server.requests].count("FindCoordinator") == before + 1


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("AddPartitionsToTxn", Error.TOPIC_AUTHORIZATION_FAILED),
        ("AddPartitionsToTxn", Error.TRANSACTION_ABORTABLE),
        ("AddOffsetsToTxn", Error.GROUP_AUTHORIZATION_FAILED),
        ("TxnOffsetCommit", Error.ILLEGAL_GENERATION),
        ("TxnOffsetCommit", Error.UNKNOWN_MEMBER_ID),
        ("TxnOffsetCommit", Error.FENCED_INSTANCE_ID),
        ("TxnOffsetCommit", Error.OFFSET_METADATA_TOO_LARGE),
        ("Produce", Error.INVALID_TXN_STATE),
        ("Produce", Error.INVALID_PRODUCER_EPOCH),
        ("Produce", Error.MESSAGE_TOO_LARGE),
        ("Produce", Error.UNKNOWN_PRODUCER_ID),
        ("EndTxn", Error.TRANSACTION_ABORTABLE),
    ],
)
def test_abortable_errors(start: Start, version: int, api: str, error: Error) -> None:
    cluster, producer = start(version)
    if version == 2 and api.startswith("Add"):
        return  # not sent
    cluster.errors[api].append(error)
    with pytest.raises(AbortableTransactionError, match=error.name) as failure:
        run_transaction(producer)
    assert failure.value.error is error
    assert "Abort" in str(failure.value)
    run_transaction(producer)
    assert cluster.ended[-1][1]
    assert not any(committed for _, committed in cluster.ended[:-1])
    if api == "Produce":  # the failed batch has left a gap, so the next transaction starts with sequence 0 of an epoch
        assert cluster.batches == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("api", "error", "expected"),
    [
        ("AddPartitionsToTxn", Error.INVALID_TXN_STATE, FatalTransactionError),
        ("AddPartitionsToTxn", Error.PRODUCER_FENCED, ProducerFencedError),
        ("AddOffsetsToTxn", Error.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        ("TxnOffsetCommit", Error.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        ("Produce", Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FatalTransactionError),
        ("Produce", Error.PRODUCER_FENCED, ProducerFencedError),
        ("EndTxn", Error.INVALID_PRODUCER_ID_MAPPING, FatalTransactionError),
        ("EndTxn", Error.PRODUCER_FENCED, ProducerFencedError),
    ],
)
def test_fatal_errors(start: Start, api: str, error: Error, expected: type[TransactionError]) -> None:
    cluster, producer = start(1)
    cluster.errors[api].append(error)
    calls: list[Callable[[], object]] = [
        lambda: run_transaction(producer), producer.begin_transaction, producer.abort_transaction,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(expected, match=error.name) as failure:
            call()
        assert failure.value.error is error
    with pytest.raises(expected):
        producer.send(TOPIC, b"2")
    assert not cluster.ended


def test_abortable_error_while_aborting_is_fatal(start: Start) -> None:
    cluster, producer = start(2)
    producer.begin_transaction()
    producer.send(TOPIC, b"1").result(10.0)
    cluster.errors["EndTxn"].append(Error.TRANSACTION_ABORTABLE)
    with pytest.raises(FatalTransactionError, match="TRANSACTION_ABORTABLE"):
        producer.abort_transaction()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "User:ANONYMOUS needs an ACL for Write on transactional id"),
        (Error.INVALID_TRANSACTION_TIMEOUT, "transaction.max.timeout.ms"),
    ],
)
def test_init_rejected(start: Start, error: Error, words: str) -> None:
    cluster, _ = start(2)
    cluster.errors["InitProducerId"].append(error)
    with new_producer(cluster) as producer:
        for _ in range(2):
            with pytest.raises(FatalTransactionError, match=words):
                producer.init_transactions()


# --- records of a failed transaction ----------------------------------------------------------------------------------


def test_abort_drops_waiting_batches_only(start: Start) -> None:
    cluster, producer = start(1)
    cluster.errors["AddPartitionsToTxn"] += [Error.CONCURRENT_TRANSACTIONS] * 2_000
    producer.begin_transaction()
    waiting = producer.send(TOPIC, b"1", partition=0)
    wait_for(lambda: len(cluster.errors["AddPartitionsToTxn"]) < 2_000)
    with pytest.raises(RetriableTransactionError, match=r"^abort_transaction\(\) .* Call it again"):
        producer.abort_transaction(timeout=0)
    error = waiting.exception(10.0)
    assert isinstance(error, TransactionAbortedError)
    assert not cluster.batches
    cluster.errors.clear()
    producer.abort_transaction()
    assert cluster.ended == [(0, False)]  # the partition was added


def test_records_after_a_failed_one_are_dropped(start: Start) -> None:
    cluster, producer = start(2)
    cluster.errors["Produce"].append(Error.MESSAGE_TOO_LARGE)
    producer.begin_transaction()
    first = producer.send(TOPIC, b"1", partition=0)
    assert isinstance(first.exception(10.0), BrokerError)
    with pytest.raises(AbortableTransactionError, match="MESSAGE_TOO_LARGE"):
        producer.send(TOPIC, b"2", partition=0)
    with pytest.raises(AbortableTransactionError, match="MESSAGE_TOO_LARGE"):
        producer.commit_transaction()
    producer.abort_transaction()
    assert cluster.ended == [(0, False)]


# --- timeouts ---------------------------------------------------------------------------------------------------------


def test_call_that_timed_out_is_repeated(start: Start) -> None:
    cluster, producer = start(2)
    cluster.errors["EndTxn"] += [Error.COORDINATOR_LOAD_IN_PROGRESS] * 100_000
    producer.begin_transaction()
    producer.send(TOPIC, b"1").result(10.0)
    with pytest.raises(RetriableTransactionError, match=r"commit_transaction\(\) has not completed"):
        producer.commit_transaction(timeout=0)
    for call in (producer.begin_transaction, producer.abort_transaction):
        with pytest.raises(UsageError, match=r"commit_transaction\(\) has not completed; call it again before"):
            call()
    wait_for(lambda: len(cluster.errors["EndTxn"]) < 99_999)
    with pytest.raises(RetriableTransactionError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        producer.commit_transaction(timeout=0)
    cluster.errors.clear()
    producer.commit_transaction()
    assert cluster.ended == [(0, True)]
    run_transaction(producer)


def test_timed_out_offsets_need_the_same_arguments(start: Start) -> None:
    cluster, producer = start(2)
    cluster.errors["TxnOffsetCommit"] += [Error.COORDINATOR_LOAD_IN_PROGRESS] * 100_000
    producer.begin_transaction()
    offsets = {(TOPIC, 0): 5}
    with pytest.raises(RetriableTransactionError):
        producer.send_offsets_to_transaction(offsets, GROUP, timeout=0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the same arguments"):
        producer.send_offsets_to_transaction({(TOPIC, 0): 6}, GROUP)  # type: ignore[dict-item]
    cluster.errors.clear()
    producer.abort_transaction()  # waits for it
    assert cluster.ended == [(0, False)]


@pytest.mark.parametrize("is_committing", [False, True])
def test_close_ends_the_open_transaction(start: Start, is_committing: bool) -> None:
    cluster, producer = start(2)
    producer.begin_transaction()
    producer.send(TOPIC, b"1").result(10.0)
    if is_committing:
        cluster.errors["EndTxn"] += [Error.COORDINATOR_LOAD_IN_PROGRESS] * 3
        with pytest.raises(RetriableTransactionError):
            producer.commit_transaction(timeout=0)
    producer.close()
    assert cluster.ended == [(0, is_committing)]
