"""Tests of the transaction shell: combined writes, markers, waiting partitions, restarts."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from slackwater.broker.transactions.interfaces import OnPartitionErrors, TxnMarkerEntry
from slackwater.broker.transactions.transaction_shell import MAX_WAIT_S, RETRY_S, TransactionShell
from slackwater.clock import ManualClock
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import TransactionConfig, TransactionRecord, TransactionState
from slackwater.group.transactions.messages import (
    AddPartitions,
    AddPartitionsResponse,
    EndTransaction,
    EndTransactionResponse,
    InitProducerId,
    InitProducerIdResponse,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = "payments"
PARTITIONS = 3


class MemoryStore:
    """A store in memory that counts its writes."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[TransactionRecord]] = {}
        self.exists = True
        self.writes = 0
        self.error = Error.NONE

    def partition_count(self) -> int | None:
        return PARTITIONS if self.exists else None

    def read(self, partition: int) -> Iterable[TransactionRecord]:
        return self.partitions.get(partition, [])

    def write(
        self, records: Mapping[int, list[TransactionRecord]], on_written: Callable[[Mapping[int, Error]], None]
    ) -> None:
        self.writes += 1
        if self.error is Error.NONE:
            for partition, added in records.items():
                self.partitions.setdefault(partition, []).extend(added)
        on_written(dict.fromkeys(records, self.error))


class MemoryMarkers:
    """A marker writer that can hold the markers back."""

    def __init__(self) -> None:
        self.markers: list[TxnMarkerEntry] = []
        self.holds = False
        self.held: list[tuple[TxnMarkerEntry, OnPartitionErrors]] = []
        self.errors: dict[TopicPartition, Error] = {}

    def write(self, markers: Sequence[TxnMarkerEntry], on_written: OnPartitionErrors) -> None:
        (marker,) = markers
        self.markers.append(marker)
        self.held.append((marker, on_written))
        if not self.holds:
            self.finish()

    def finish(self) -> None:
        """Write the oldest held markers."""
        marker, on_written = self.held.pop(0)
        on_written({at: self.errors.get(at, Error.NONE) for at in marker.partitions})


class ShellFixture:
    """A transaction shell with a manual clock."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.markers = MemoryMarkers()
        self.clock = ManualClock()
        self.due_ms: int | None = None
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.next_producer_id = 0
        self.disk_is_full = False
        self.shell = TransactionShell(
            TransactionConfig(),
            store,
            self.markers,
            allocate_producer_id=self._allocate,
            now_ms=self.clock.now_ms,
            wall_ms=lambda: self.clock.now_ms() + 1_000_000,
            wake_at=self._wake_at,
            schedule_end_of_iteration=lambda: None,
            call_later=lambda delay_s, work: self.later.append((delay_s, work)),
        )
        self.shell.load()

    def _allocate(self) -> int:
        if self.disk_is_full:
            raise OSError(28, "No space left on device")
        self.next_producer_id += 1
        return self.next_producer_id

    def _wake_at(self, due_ms: int) -> None:
        self.due_ms = due_ms

    def init(self, transactional_id: str = ID) -> InitProducerIdResponse:
        responses: list[InitProducerIdResponse] = []
        self.shell.submit(InitProducerId(transactional_id, 60_000), responses.append)
        self.shell.write_pending()
        return responses[0]

    def add(self, epoch: int = 0) -> Error:
        responses: list[AddPartitionsResponse] = []
        self.shell.submit(AddPartitions(ID, 1, epoch, frozenset({T0, T1})), responses.append)
        self.shell.write_pending()
        return responses[0].error

    def end(self, epoch: int = 0) -> list[EndTransactionResponse]:
        responses: list[EndTransactionResponse] = []
        self.shell.submit(EndTransaction(ID, 1, epoch, is_commit=True, bumps_epoch=True), responses.append)
        self.shell.write_pending()
        return responses

    def verify(self, *, epoch: int = 0, add: bool) -> list[Mapping[TopicPartition, Error]]:
        results: list[Mapping[TopicPartition, Error]] = []
        self.shell.add_or_verify(ID, 1, epoch, (T0,), add=add, on_result=results.append)
        self.shell.write_pending()
        return results

    def run_later(self) -> float:
        """Do the oldest delayed work; return its delay."""
        delay_s, work = self.later.pop(0)
        work()
        self.shell.write_pending()
        return delay_s

    @property
    def state(self) -> TransactionState:
        return self.shell.coordinator.transactions[ID].state


@pytest.fixture
def fixture() -> ShellFixture:
    return ShellFixture(MemoryStore())


def test_responses_follow_the_write(fixture: ShellFixture) -> None:
    responses: list[InitProducerIdResponse] = []
    for transactional_id in ("a", "b", "c", "d", "e"):
        fixture.shell.submit(InitProducerId(transactional_id, 60_000), responses.append)

    assert responses == []
    assert fixture.shell.has_pending
    fixture.shell.write_pending()
    assert [response.error for response in responses] == [Error.NONE] * 5
    assert fixture.store.writes == 1
    assert not fixture.shell.has_pending


def test_transaction_ends_with_markers(fixture: ShellFixture, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    fixture.init()
    fixture.add()

    assert fixture.end() == [EndTransactionResponse(Error.NONE, 1, 1)]
    assert fixture.markers.markers == [TxnMarkerEntry(1, 1, 0, True, (T0, T1), 2)]
    assert fixture.state is TransactionState.COMPLETE_COMMIT
    partition = fixture.shell.coordinator.partition_of(ID)
    states = [record.value.state.value for record in fixture.store.partitions[partition] if record.value is not None]
    assert states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert "Initialized transactionalId payments with producerId 1 and producer epoch 0" in caplog.text


def test_failed_write_is_an_error(fixture: ShellFixture) -> None:
    fixture.store.error = Error.KAFKA_STORAGE_ERROR

    assert fixture.init().error is Error.NOT_COORDINATOR


def test_failed_markers_are_retried_by_the_timer(fixture: ShellFixture, caplog: pytest.LogCaptureFixture) -> None:
    fixture.init()
    fixture.add()
    fixture.markers.errors = {T1: Error.KAFKA_STORAGE_ERROR}
    fixture.end()

    assert "Markers of the transaction of payments failed: t-1 KAFKA_STORAGE_ERROR." in caplog.text
    assert fixture.due_ms == fixture.clock.now_ms() + 100
    fixture.markers.errors = {}
    fixture.clock.advance_ms(100)
    fixture.shell.tick()
    fixture.shell.write_pending()
    assert fixture.state is TransactionState.COMPLETE_COMMIT


def test_without_disk_space_there_is_no_producer_id(fixture: ShellFixture, caplog: pytest.LogCaptureFixture) -> None:
    fixture.disk_is_full = True

    assert fixture.init().error is Error.COORDINATOR_NOT_AVAILABLE
    assert (
        "Cannot reserve producer ids: No space left on device. Producers retry. Check the free space and the "
        "permissions of the data directory."
    ) in caplog.text


def test_verify(fixture: ShellFixture) -> None:
    fixture.init()
    fixture.add()

    assert fixture.verify(add=False) == [{T0: Error.NONE}]
    assert fixture.verify(add=False, epoch=1) == [{T0: Error.PRODUCER_FENCED}]


def test_verify_adds_partitions(fixture: ShellFixture) -> None:
    fixture.init()

    assert fixture.verify(add=False) == [{T0: Error.TRANSACTION_ABORTABLE}]
    assert fixture.verify(add=True) == [{T0: Error.NONE}]
    assert fixture.shell.coordinator.transactions[ID].stored.client_version == 2


def test_added_partition_waits_for_the_previous_transaction(fixture: ShellFixture) -> None:
    fixture.init()
    fixture.add()
    fixture.markers.holds = True
    fixture.end()
    results = fixture.verify(add=True, epoch=1)
    assert fixture.run_later() == RETRY_S
    assert results == []
    fixture.markers.finish()
    fixture.shell.write_pending()
    fixture.run_later()

    assert results == [{T0: Error.NONE}]


def test_added_partition_does_not_wait_forever(fixture: ShellFixture) -> None:
    fixture.init()
    fixture.add()
    fixture.markers.holds = True
    fixture.end()
    results = fixture.verify(add=True, epoch=1)
    waited_s = 0.0
    while fixture.later:
        waited_s += fixture.run_later()

    assert results == [{T0: Error.CONCURRENT_TRANSACTIONS}]
    assert waited_s == pytest.approx(MAX_WAIT_S)


def test_restart_continues_with_the_markers(fixture: ShellFixture) -> None:
    fixture.init()
    fixture.add()
    fixture.markers.holds = True
    fixture.end()
    restarted = ShellFixture(fixture.store)
    restarted.shell.write_pending()

    assert restarted.markers.markers == fixture.markers.markers
    assert restarted.state is TransactionState.COMPLETE_COMMIT


def test_topic_is_loaded_when_it_is_created() -> None:
    store = MemoryStore()
    store.exists = False
    fixture = ShellFixture(store)
    assert fixture.init().error is Error.NOT_COORDINATOR
    store.exists = True
    fixture.shell.load()

    assert fixture.init().error is Error.NONE
    assert fixture.shell.config.transaction_state_log_num_partitions == PARTITIONS


def test_timeout_and_expiration_are_logged(fixture: ShellFixture, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    fixture.init()
    fixture.add()
    for delay_ms in (61_000, 10_000, 8 * 24 * 3_600_000):
        fixture.clock.advance_ms(delay_ms)
        fixture.shell.tick()
        fixture.shell.write_pending()

    assert (
        "Aborting the transaction of payments: it has been open for longer than transaction.timeout.ms." in caplog.text
    )
    assert "Removed payments: it was not used for transactional.id.expiration.ms." in caplog.text
