"""The outcome of writes: an append of a collector is pending until it is completed here.

Invariants:
- A record is applied when it is written, before the callback of the append runs.
"""

from slackwater.group.errors import Error
from slackwater.group.transactions.collector import TransactionCollector
from slackwater.group.transactions.records import StoredTransaction
from slackwater.group.transactions.states import TransactionInput
from slackwater.group.transactions.transaction import Transaction


def complete_write(collector: TransactionCollector, write_id: int, error: Error) -> None:
    """Apply the records of a finished write, unless it failed, and run its callback."""
    state = collector.state
    write = state.writes.pop(write_id, None)
    if write is None:
        return  # its partition was unloaded
    for record in write.records:
        transaction = state.transactions.get(record.transactional_id)
        if transaction is None:
            continue
        if error is not Error.NONE:
            transaction.pending_state = None
        elif record.value is not None:
            _apply(collector, transaction, record.value, write.cause)
    write.callback(collector, error)


def _apply(
    collector: TransactionCollector, transaction: Transaction, value: StoredTransaction, cause: TransactionInput
) -> None:
    """Apply a written state, and report it."""
    before = transaction.state
    transaction.apply(value)
    if value.start_timestamp_ms == value.update_timestamp_ms:
        transaction.started_ms = collector.now_ms
    collector.state.track(transaction)
    if before is not value.state or cause is TransactionInput.INIT:
        collector.emit(transaction, cause, before, value.state)
