"""The transaction coordinator with a log and partitions in memory, under the test's control."""

from collections.abc import Mapping
from dataclasses import replace

from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import (
    AppendTransactionRecords,
    SendTransactionResponse,
    TransactionConfig,
    TransactionCoordinator,
    TransactionEffect,
    TransactionEvent,
    TransactionRecord,
    TransactionState,
    WriteMarkers,
)
from slackwater.group.transactions.messages import (
    AddPartitions,
    AddPartitionsResponse,
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResponse,
    EndTransaction,
    EndTransactionResponse,
    InitProducerId,
    InitProducerIdResponse,
    ListTransactions,
    ListTransactionsResponse,
    TransactionRequest,
    TransactionResponse,
    VerifyPartitions,
    VerifyPartitionsResponse,
)

ID = "payments-0"
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 1_000


class TransactionHarness:
    """A coordinator; by default writes and markers succeed at once."""

    def __init__(self, **settings: int) -> None:
        self.config = TransactionConfig(transaction_state_log_num_partitions=1, **settings)
        self.now_ms = 0
        self.wall_offset_ms = 0
        self.log: list[TransactionRecord] = []
        self.markers: list[WriteMarkers] = []
        self.events: list[TransactionEvent] = []
        self.holds_writes = False
        self.holds_markers = False
        self.held_writes: list[AppendTransactionRecords] = []
        self.held_markers: list[WriteMarkers] = []
        self.write_error = Error.NONE
        self.marker_errors: dict[TopicPartition, Error] = {}
        self.has_producer_ids = True
        self._next_producer_id = FIRST_PRODUCER_ID
        self._epoch = -1
        self.start()

    def _allocate(self) -> int | None:
        self._next_producer_id += 1
        return self._next_producer_id - 1 if self.has_producer_ids else None

    def start(self) -> None:
        """Start, or start again with only the log."""
        self.held_writes, self.held_markers = [], []
        self.coordinator = TransactionCoordinator(self._allocate, self.config)
        self.coordinator.set_wall_offset_ms(self.wall_offset_ms)
        self._epoch += 1
        self.coordinator.load(0, self._epoch)
        for record in self.log:
            value = None if record.value is None else replace(record.value, last_producer_epoch=-1)  # not in the bytes
            self.coordinator.replay(0, TransactionRecord(record.transactional_id, value))
        self.execute(self.coordinator.finish_loading(0, self.now_ms))

    def execute(self, effects: list[TransactionEffect]) -> None:
        """Execute effects in order."""
        for effect in tuple(effects):
            match effect:
                case SendTransactionResponse(reply_to=replies, response=response):
                    assert isinstance(replies, list)
                    replies.append(response)
                case TransactionEvent():
                    self.events.append(effect)
                case AppendTransactionRecords() if self.holds_writes:
                    self.held_writes.append(effect)
                case AppendTransactionRecords():
                    self.write(effect, self.write_error)
                case WriteMarkers():
                    self.markers.append(effect)
                    if self.holds_markers:
                        self.held_markers.append(effect)
                    else:
                        self.finish_markers(effect)

    def write(self, append: AppendTransactionRecords, error: Error = Error.NONE) -> None:
        """Finish a write."""
        if error is Error.NONE:
            self.log.extend(append.records)
        self.execute(self.coordinator.on_append_result(append.write_id, error, self.now_ms))

    def write_held(self, error: Error = Error.NONE) -> None:
        """Finish the oldest held write."""
        self.write(self.held_writes.pop(0), error)

    def finish_markers(self, markers: WriteMarkers) -> None:
        """Finish the writing of markers."""
        errors = {at: self.marker_errors.get(at, Error.NONE) for at in markers.partitions}
        self.execute(self.coordinator.on_markers_written(markers.markers_id, errors, self.now_ms))

    def advance_ms(self, length_ms: int) -> None:
        """Advance time and fire every timer at its own time."""
        until_ms = self.now_ms + length_ms
        while (due_ms := self.coordinator.next_due_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(due_ms, self.now_ms)
            self.execute(self.coordinator.tick(self.now_ms))
        self.now_ms = until_ms

    def set_wall_offset_ms(self, wall_offset_ms: int) -> None:
        """Set the wall clock."""
        self.wall_offset_ms = wall_offset_ms
        self.coordinator.set_wall_offset_ms(wall_offset_ms)

    # --- requests -----------------------------------------------------------------------------------------------------

    def send(self, request: TransactionRequest) -> list[TransactionResponse]:
        """Send a request; the response is appended to the result when it arrives."""
        replies: list[TransactionResponse] = []
        self.execute(self.coordinator.handle(request, replies, self.now_ms))
        return replies

    def init(
        self, producer_id: int = -1, epoch: int = -1, *, timeout_ms: int = TIMEOUT_MS, transactional_id: str = ID
    ) -> tuple[Error, int, int]:
        """Initialize a producer; return error, producer id and epoch."""
        (response,) = self.send(InitProducerId(transactional_id, timeout_ms, producer_id, epoch))
        assert isinstance(response, InitProducerIdResponse)
        return response.error, response.producer_id, response.producer_epoch

    def start_producer(self, transactional_id: str = ID) -> tuple[int, int]:
        """Initialize a producer; return its id and epoch."""
        error, producer_id, epoch = self.init(transactional_id=transactional_id)
        assert error is Error.NONE
        return producer_id, epoch

    def add(
        self, producer: tuple[int, int], *partitions: TopicPartition, version: int = 0, transactional_id: str = ID
    ) -> Error:
        """Add partitions."""
        (response,) = self.send(AddPartitions(transactional_id, *producer, frozenset(partitions), version))
        assert isinstance(response, AddPartitionsResponse)
        return response.error

    def verify(self, producer: tuple[int, int], *partitions: TopicPartition) -> Mapping[TopicPartition, Error]:
        """Verify partitions."""
        (response,) = self.send(VerifyPartitions(ID, *producer, frozenset(partitions)))
        assert isinstance(response, VerifyPartitionsResponse)
        return response.errors

    def end(
        self, producer: tuple[int, int], *, commit: bool, v2: bool = False, transactional_id: str = ID
    ) -> tuple[Error, int, int]:
        """End the transaction; return error, producer id and epoch."""
        (response,) = self.send(EndTransaction(transactional_id, *producer, commit, v2))
        assert isinstance(response, EndTransactionResponse)
        return response.error, response.producer_id, response.producer_epoch

    def describe(self, transactional_id: str = ID) -> DescribedTransaction:
        """Describe one id."""
        (response,) = self.send(DescribeTransactions((transactional_id,)))
        assert isinstance(response, DescribeTransactionsResponse)
        return response.transactions[0]

    def listed(self, request: ListTransactions | None = None) -> list[str]:
        """List ids."""
        (response,) = self.send(request or ListTransactions())
        assert isinstance(response, ListTransactionsResponse)
        assert response.error is Error.NONE
        return [transaction.transactional_id for transaction in response.transactions]

    @property
    def state(self) -> TransactionState:
        """The state of the id."""
        return self.coordinator.transactions[ID].state

    @property
    def epoch(self) -> int:
        """The producer epoch of the id."""
        return self.coordinator.transactions[ID].stored.producer_epoch

    def bring_to(self, state: TransactionState, *, v2: bool = False) -> tuple[int, int]:
        """Bring the id to a state; return the producer id and epoch that the client has then."""
        producer = self.start_producer()
        if state is TransactionState.EMPTY:
            return producer
        assert self.add(producer, T0, T1, version=2 if v2 else 0) is Error.NONE
        if state is TransactionState.ONGOING:
            return producer
        self.holds_markers = state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
        commit = state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        error, producer_id, epoch = self.end(producer, commit=commit, v2=v2)
        assert error is Error.NONE
        return (producer_id, epoch) if v2 else producer
