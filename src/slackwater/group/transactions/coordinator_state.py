"""The state of the transaction coordinator: settings, transactions, partitions of its topic, timers, pending writes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from slackwater.group.coordinator.timers import Timer, Timers
from slackwater.group.errors import Error
from slackwater.group.internal_topics import transactions_partition
from slackwater.group.transactions.config import TransactionConfig
from slackwater.group.transactions.records import StoredTransaction, TransactionRecord
from slackwater.group.transactions.states import ONGOING, TransactionInput
from slackwater.group.transactions.transaction import Transaction

if TYPE_CHECKING:
    from slackwater.group.transactions.collector import TransactionCollector


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


class PendingTransactionWrite(NamedTuple):
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


class TransactionCoordinatorState:
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
        self.writes: dict[int, PendingTransactionWrite] = {}
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

    def track(self, transaction: Transaction) -> None:
        """Keep the transactions that can time out."""
        if transaction.state is ONGOING:
            self.ongoing[transaction.transactional_id] = transaction
        else:
            self.ongoing.pop(transaction.transactional_id, None)
