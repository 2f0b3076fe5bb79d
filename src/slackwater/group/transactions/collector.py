"""The state of the transaction coordinator, and the effects of one input in order.

Invariants:
- Handlers respond, append and emit only through a collector, so the order of effects is the order of decisions.
- A record is applied when it is written, before the callback of the append runs.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from slackwater.group.coordinator.timers import Timer, Timers
from slackwater.group.errors import Error
from slackwater.group.internal_topics import transactions_partition
from slackwater.group.transactions.config import TransactionConfig
from slackwater.group.transactions.effects import (
    AppendTransactions,
    RespondTransaction,
    TransactionEffect,
    TransactionEvent,
    WriteMarkers,
)
from slackwater.group.transactions.messages import TransactionResponse
from slackwater.group.transactions.records import StoredTransaction, TransactionRecord
from slackwater.group.transactions.states import ONGOING, PREPARE_COMMIT, TransactionInput, TransactionState
from slackwater.group.transactions.transaction import Transaction

# The error code a client receives when a write fails (TX-37).
_RESPONSE_ERRORS = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
}


def response_error(error: Error) -> Error:
    """Return the error code to send to a client whose write failed with `error`."""
    return _RESPONSE_ERRORS.get(error, error)


class TimeoutCheck:
    """The owner of the timer that aborts transactions that are open for too long."""

    def __init__(self) -> None:
        self.timer: Timer[object] = Timer(self)


class ExpirationCheck:
    """The owner of the timer that removes ids that are no longer used."""

    def __init__(self) -> None:
        self.timer: Timer[object] = Timer(self)


WriteCallback = Callable[["TransactionCollector", Error], None]
AllocateProducerId = Callable[[], int | None]


class PendingAppend(NamedTuple):
    """An append whose result is not known yet."""

    partition: int
    records: tuple[TransactionRecord, ...]
    cause: TransactionInput
    callback: WriteCallback


class TransactionsPartition:
    """One partition of the topic of transactions that this coordinator owns or is loading."""

    __slots__ = ("epoch", "loading", "replayed")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.loading = True
        self.replayed: dict[str, StoredTransaction] = {}


class TransactionsState:
    """Everything that request handlers and timers read and change."""

    def __init__(self, config: TransactionConfig, allocate_producer_id: AllocateProducerId) -> None:
        self.config = config
        self.allocate_producer_id = allocate_producer_id
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        self.partitions: dict[int, TransactionsPartition] = {}
        self.timers: Timers[object] = Timers()
        self.timeout_check = TimeoutCheck()
        self.expiration_check = ExpirationCheck()
        self.wall_offset_ms = 0  # wall time minus the time of the timers
        self.writes: dict[int, PendingAppend] = {}
        self.last_write_id = 0
        self.markers: dict[int, Transaction] = {}
        self.last_markers_id = 0

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition of the topic that stores an id (TX-52)."""
        return transactions_partition(transactional_id, self.config.transaction_state_log_num_partitions)

    def unavailable_error(self, transactional_id: str) -> Error:
        """Return why this coordinator cannot serve an id now, or NONE."""
        partition = self.partitions.get(self.partition_of(transactional_id))
        if partition is None:
            return Error.NOT_COORDINATOR
        return Error.COORDINATOR_LOAD_IN_PROGRESS if partition.loading else Error.NONE


class TransactionCollector:
    """The effects of one input, in order, and the time at which the input arrived."""

    __slots__ = ("effects", "now_ms", "state", "wall_ms")

    def __init__(self, state: TransactionsState, now_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms  # for timers
        self.wall_ms = now_ms + state.wall_offset_ms  # for timestamps in records and events
        self.effects: list[TransactionEffect] = []

    def respond(self, reply_to: object, response: TransactionResponse) -> None:
        """Send the response to a request."""
        self.effects.append(RespondTransaction(reply_to, response))

    def append(
        self,
        transaction: Transaction,
        value: StoredTransaction,
        cause: TransactionInput,
        callback: WriteCallback,
    ) -> None:
        """Write the next state of an id; `callback` runs when the result is known."""
        transaction.pending = value.state
        record = TransactionRecord(transaction.transactional_id, value)
        self._append(self.state.partition_of(transaction.transactional_id), (record,), cause, callback)

    def append_tombstones(
        self, partition: int, transactions: Sequence[Transaction], cause: TransactionInput, callback: WriteCallback
    ) -> None:
        """Write that ids have expired."""
        records = tuple(TransactionRecord(transaction.transactional_id, None) for transaction in transactions)
        self._append(partition, records, cause, callback)

    def _append(
        self,
        partition: int,
        records: tuple[TransactionRecord, ...],
        cause: TransactionInput,
        callback: WriteCallback,
    ) -> None:
        state = self.state
        state.last_write_id = write_id = state.last_write_id + 1
        state.writes[write_id] = PendingAppend(partition, records, cause, callback)
        self.effects.append(AppendTransactions(write_id, partition, records))

    def apply_written(self, write_id: int, error: Error) -> None:
        """Apply the records of a finished write, unless it failed, and run its callback."""
        write = self.state.writes.pop(write_id, None)
        if write is None:
            return  # its partition was unloaded
        for record in write.records:
            transaction = self.state.transactions.get(record.transactional_id)
            if transaction is None:
                continue
            if error is not Error.NONE:
                transaction.pending = None
            elif record.value is not None:
                self.apply(transaction, record.value, write.cause)
        write.callback(self, error)

    def apply(self, transaction: Transaction, value: StoredTransaction, cause: TransactionInput) -> None:
        """Apply a written state, and report it."""
        before = transaction.state
        transaction.apply(value)
        if value.start_timestamp_ms == value.update_timestamp_ms:
            transaction.started_ms = self.now_ms
        self.track(transaction)
        if before is not value.state or cause is TransactionInput.INIT:
            self.emit(transaction, cause, before, value.state)

    def track(self, transaction: Transaction) -> None:
        """Keep the transactions that can time out."""
        if transaction.state is ONGOING:
            self.state.ongoing[transaction.transactional_id] = transaction
        else:
            self.state.ongoing.pop(transaction.transactional_id, None)

    def emit(
        self,
        transaction: Transaction,
        cause: TransactionInput,
        before: TransactionState,
        after: TransactionState,
    ) -> None:
        """Report a change of state."""
        stored = transaction.stored
        self.effects.append(
            TransactionEvent(
                self.wall_ms,
                transaction.transactional_id,
                cause,
                before,
                after,
                stored.producer_id,
                stored.producer_epoch,
            )
        )

    def write_markers(self, transaction: Transaction) -> None:
        """Write the markers that are missing."""
        state, stored = self.state, transaction.stored
        state.last_markers_id = markers_id = state.last_markers_id + 1
        transaction.markers_id = markers_id
        state.markers[markers_id] = transaction
        self.effects.append(
            WriteMarkers(
                markers_id,
                transaction.transactional_id,
                stored.producer_id,
                stored.producer_epoch,
                transaction.coordinator_epoch,
                stored.state is PREPARE_COMMIT,
                stored.client_version,
                tuple(sorted(transaction.unwritten)),
            )
        )
