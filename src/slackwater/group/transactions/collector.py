"""Collects the effects of one input to the transaction coordinator.

Invariants:
- Handlers respond, append and emit only through a collector, so the order of effects is the order of decisions.
- Every append stays in `TransactionCoordinatorState.writes` until `writes` completes it.
"""

from collections.abc import Sequence

from slackwater.group.transactions.coordinator_state import (
    PendingTransactionWrite,
    TransactionCoordinatorState,
    WriteCallback,
)
from slackwater.group.transactions.effects import (
    AppendTransactionRecords,
    SendTransactionResponse,
    TransactionEffect,
    TransactionEvent,
    WriteMarkers,
)
from slackwater.group.transactions.messages import TransactionResponse
from slackwater.group.transactions.records import StoredTransaction, TransactionRecord
from slackwater.group.transactions.states import PREPARE_COMMIT, TransactionInput, TransactionState
from slackwater.group.transactions.transaction import Transaction


class TransactionCollector:
    """The effects of one input, in order, and the time at which the input arrived."""

    __slots__ = ("effects", "now_ms", "state", "wall_ms")

    def __init__(self, state: TransactionCoordinatorState, now_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms  # for timers
        self.wall_ms = now_ms + state.wall_offset_ms  # for timestamps in records and events
        self.effects: list[TransactionEffect] = []

    def respond(self, reply_to: object, response: TransactionResponse) -> None:
        """Send the response to a request."""
        self.effects.append(SendTransactionResponse(reply_to, response))

    def append(
        self,
        transaction: Transaction,
        value: StoredTransaction,
        cause: TransactionInput,
        callback: WriteCallback,
    ) -> None:
        """Write the next state of an id; `callback` runs when the result is known."""
        transaction.pending_state = value.state
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
        state.writes[write_id] = PendingTransactionWrite(partition, records, cause, callback)
        self.effects.append(AppendTransactionRecords(write_id, partition, records))

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
