"""The transaction coordinator: every call takes one input and returns an ordered list of effects.

Invariants:
- No I/O, no clock, no randomness: time is an argument of every call; producer ids come from `allocate_producer_id`.
- `now_ms` never decreases, so a change of the wall clock does not time a transaction out. Timestamps in records are
  wall time: `now_ms` plus the offset that the shell sets with `set_wall_offset_ms`.
- A transaction ends in three steps, each after the one before it is written: the decision (PrepareCommit or
  PrepareAbort), a marker in every partition, the end (CompleteCommit or CompleteAbort). A restart between two steps
  continues with the next one (TX-53).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import queries, requests
from slackwater.group.transactions.collector import TransactionCollector
from slackwater.group.transactions.config import TransactionConfig
from slackwater.group.transactions.coordinator_state import (
    AllocateProducerId,
    ExpirationCheck,
    TransactionCoordinatorState,
    TransactionsPartition,
)
from slackwater.group.transactions.effects import TransactionEffect
from slackwater.group.transactions.messages import (
    AddPartitions,
    DescribeTransactions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    TransactionRequest,
    VerifyPartitions,
)
from slackwater.group.transactions.records import TransactionRecord
from slackwater.group.transactions.states import DEAD, PREPARED, TRANSITIONS, TransactionAction, TransactionInput
from slackwater.group.transactions.transaction import Transaction, has_expired, is_timed_out
from slackwater.group.transactions.writes import complete_write

HANDLERS: Final[dict[type, Callable[[TransactionCollector, Any, object], None]]] = {
    InitProducerId: requests.init_producer_id,
    AddPartitions: requests.add_partitions,
    VerifyPartitions: requests.verify_partitions,
    EndTransaction: requests.end_transaction,
    DescribeTransactions: queries.describe_transactions,
    ListTransactions: queries.list_transactions,
}
MAX_TOMBSTONES: Final = 1_000  # in one append
# A partition that does not exist any more needs no marker. Nor does one that knows a newer epoch of the producer: the
# coordinator has lost records, and the transaction has ended before. The others are tried again (TX-46).
_FINAL_MARKER_RESULTS: Final = frozenset({Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_PRODUCER_EPOCH})


class TransactionCoordinator:
    """Coordinates the transactions of the partitions it owns."""

    def __init__(self, allocate_producer_id: AllocateProducerId, config: TransactionConfig | None = None) -> None:
        self._state = TransactionCoordinatorState(config or TransactionConfig(), allocate_producer_id)

    def reconfigure(self, config: TransactionConfig) -> None:
        """Replace the settings; running timers keep their deadlines, and the partition count cannot change."""
        state = self._state
        count = state.config.transaction_state_log_num_partitions
        assert not state.partitions or config.transaction_state_log_num_partitions == count
        state.config = config

    # --- requests, writes, markers, time ------------------------------------------------------------------------------

    def handle(self, request: TransactionRequest, reply_to: object, now_ms: int) -> list[TransactionEffect]:
        """Handle a request; `reply_to` is any object and is returned with the response."""
        collector = TransactionCollector(self._state, now_ms)
        HANDLERS[request.__class__](collector, request, reply_to)
        return collector.effects

    def on_append_result(self, write_id: int, error: Error, now_ms: int) -> list[TransactionEffect]:
        """Handle the result of an append; results arrive in the order of the appends."""
        collector = TransactionCollector(self._state, now_ms)
        complete_write(collector, write_id, error)
        return collector.effects

    def on_markers_written(
        self, markers_id: int, errors: Mapping[TopicPartition, Error], now_ms: int
    ) -> list[TransactionEffect]:
        """Handle the result of writing markers: complete the transaction, or try again later (TX-44, TX-46)."""
        collector = TransactionCollector(self._state, now_ms)
        transaction = self._state.markers.pop(markers_id, None)
        if transaction is not None and transaction.markers_id == markers_id:
            transaction.markers_id = 0
            transaction.failed = {
                topic_partition: error
                for topic_partition, error in errors.items()
                if error not in _FINAL_MARKER_RESULTS
            }
            transaction.unwritten = frozenset(transaction.failed)
            if transaction.unwritten:
                self._state.timers.arm(transaction.retry, now_ms + transaction.next_retry_ms())
            else:
                _complete(collector, transaction)
        return collector.effects

    def set_wall_offset_ms(self, wall_offset_ms: int) -> None:
        """Set the difference between wall time and `now_ms`; it is 0 until the wall clock is changed."""
        self._state.wall_offset_ms = wall_offset_ms

    def next_due_ms(self) -> int | None:
        """Return when `tick` must be called next, or None."""
        return self._state.timers.next_due_ms()

    def tick(self, now_ms: int) -> list[TransactionEffect]:
        """Fire every timer due at or before `now_ms`, in the order of deadlines."""
        collector = TransactionCollector(self._state, now_ms)
        while (timer := self._state.timers.pop(now_ms)) is not None:
            owner = timer.owner
            if isinstance(owner, Transaction):
                _retry(collector, owner)
            elif isinstance(owner, ExpirationCheck):
                _expire_ids(collector)
                self._arm_expiration_check(now_ms)
            else:
                _abort_timed_out(collector)
                self._arm_timeout_check(now_ms)
        return collector.effects

    # --- partitions of the topic of transactions ----------------------------------------------------------------------

    def load(self, partition: int, epoch: int) -> None:
        """Start loading a partition; `replay` its records, then call `finish_loading`."""
        loaded = self._state.partitions.get(partition)
        if loaded is None or epoch > loaded.epoch:
            self.unload(partition)
            self._state.partitions[partition] = TransactionsPartition(epoch)

    def replay(self, partition: int, record: TransactionRecord) -> None:
        """Apply one record of the log; a later record of the same id wins."""
        replayed = self._state.partitions[partition].replayed
        if record.value is None:
            replayed.pop(record.transactional_id, None)
        else:
            replayed[record.transactional_id] = record.value

    def finish_loading(self, partition: int, now_ms: int) -> list[TransactionEffect]:
        """Activate the replayed ids, and continue to end the transactions that are decided (TX-53)."""
        collector = TransactionCollector(self._state, now_ms)
        state = self._state
        loaded = state.partitions[partition]
        if not loaded.loading:
            return []
        loaded.loading = False
        for transactional_id, stored in loaded.replayed.items():
            transaction = Transaction(transactional_id, stored, loaded.epoch)
            # The wall clock may have been set back since: then the transaction starts now.
            transaction.started_ms = min(stored.start_timestamp_ms - state.wall_offset_ms, now_ms)
            transaction.unwritten = stored.partitions if stored.state in PREPARED else frozenset()
            state.transactions[transactional_id] = transaction
            state.track(transaction)
            if TRANSITIONS[TransactionInput.LOADED][stored.state].action is TransactionAction.WRITE_MARKERS:
                collector.write_markers(transaction)
        loaded.replayed = {}
        self._arm_timeout_check(now_ms)
        self._arm_expiration_check(now_ms)
        return collector.effects

    def unload(self, partition: int) -> None:
        """Forget a partition: pending writes and markers of its ids have no consequence any more."""
        state = self._state
        if state.partitions.pop(partition, None) is None:
            return
        for transaction in [each for each in state.transactions.values() if self._is_in(each, partition)]:
            del state.transactions[transaction.transactional_id]
            state.ongoing.pop(transaction.transactional_id, None)
            state.markers.pop(transaction.markers_id, None)
            transaction.retry.cancel()
        for write_id in [key for key, write in state.writes.items() if write.partition == partition]:
            del state.writes[write_id]

    def _is_in(self, transaction: Transaction, partition: int) -> bool:
        return self._state.partition_of(transaction.transactional_id) == partition

    def _arm_timeout_check(self, now_ms: int) -> None:
        interval_ms = self._state.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._state.timers.arm(self._state.timeout_check.timer, now_ms + interval_ms)

    def _arm_expiration_check(self, now_ms: int) -> None:
        interval_ms = self._state.config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._state.timers.arm(self._state.expiration_check.timer, now_ms + interval_ms)

    # --- inspection ---------------------------------------------------------------------------------------------------

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """The transactional ids of all loaded partitions."""
        return self._state.transactions

    @property
    def ongoing(self) -> Iterable[Transaction]:
        """The open transactions."""
        return self._state.ongoing.values()

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition of the topic that stores an id (TX-52)."""
        return self._state.partition_of(transactional_id)

    @property
    def is_loaded(self) -> bool:
        """Whether the coordinator has partitions."""
        return bool(self._state.partitions)


def _complete(collector: TransactionCollector, transaction: Transaction) -> None:
    """Write the end of a transaction whose markers are written; if that fails, try again later."""

    def written(collector: TransactionCollector, error: Error) -> None:
        if error is not Error.NONE:
            collector.state.timers.arm(transaction.retry, collector.now_ms + transaction.next_retry_ms())

    collector.append(transaction, transaction.completed(collector.wall_ms), TransactionInput.MARKERS_WRITTEN, written)


def _retry(collector: TransactionCollector, transaction: Transaction) -> None:
    if transaction.unwritten:
        collector.write_markers(transaction)
    else:
        _complete(collector, transaction)


def _abort_timed_out(collector: TransactionCollector) -> None:
    """Abort the transactions that are open longer than their timeout (TX-45)."""

    def written(_collector: TransactionCollector, _error: Error) -> None:
        """If the write failed, the next check aborts the transaction."""

    for transaction in list(collector.state.ongoing.values()):
        if is_timed_out(transaction, collector.now_ms):
            requests.fence(collector, transaction, TransactionInput.TIMEOUT, written)


def _expire_ids(collector: TransactionCollector) -> None:
    """Remove ids that were not used for a long time (TX-47)."""
    state = collector.state
    expired: dict[int, list[Transaction]] = {}
    for transaction in state.transactions.values():
        transition = TRANSITIONS[TransactionInput.EXPIRATION][transaction.state]
        if (
            transition.action is TransactionAction.EXPIRE
            and not transaction.is_busy
            and has_expired(transaction, state.config.transactional_id_expiration_ms, collector.wall_ms)
        ):
            transaction.pending_state = transition.next_state
            expired.setdefault(state.partition_of(transaction.transactional_id), []).append(transaction)
    for partition, transactions in expired.items():
        for start in range(0, len(transactions), MAX_TOMBSTONES):
            _write_tombstones(collector, partition, transactions[start : start + MAX_TOMBSTONES])


def _write_tombstones(collector: TransactionCollector, partition: int, transactions: list[Transaction]) -> None:
    def written(collector: TransactionCollector, error: Error) -> None:
        if error is not Error.NONE:
            return
        for transaction in transactions:
            del collector.state.transactions[transaction.transactional_id]
            collector.emit(transaction, TransactionInput.EXPIRATION, transaction.state, DEAD)

    collector.append_tombstones(partition, transactions, TransactionInput.EXPIRATION, written)
