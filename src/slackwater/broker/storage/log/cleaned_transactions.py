"""Which batches the cleaner removes because of transactions: those of aborted ones, and markers without a use.

Invariants:
- Batches are passed in the order of the log, from a place where no listed transaction has begun.
- A marker is kept while the cleaner still sees a batch of its transaction, also one without records or one that this
  run removes: a reader may have read it before.
- The index keeps an aborted transaction as long as its marker is needed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from slackwater.broker.storage.log.transaction_index import AbortedTransaction
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import RecordBatch
from slackwater.wire.records.markers import decode_marker


@dataclass(slots=True)
class _OpenTransaction:
    transaction: AbortedTransaction
    has_batch: bool = False


class CleanedTransactions:
    """The transactions at one place of the log."""

    __slots__ = ("_aborted", "_committed", "_kept", "_open")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open: dict[int, _OpenTransaction] = {}  # aborted later, by producer id
        self._committed: set[int] = set()  # producers with a batch of a transaction that is not aborted
        self._kept: list[AbortedTransaction] = []

    def is_removed(self, batch: RecordBatch) -> bool:
        """Whether the records of the next batch of the log are not needed."""
        while self._aborted and self._aborted[-1].first_offset <= batch.last_offset:
            entry = self._aborted.pop()
            self._open[entry.producer_id] = _OpenTransaction(entry)
        if batch.is_control:
            return self._is_marker_removed(batch)
        if not batch.is_transactional:
            return False
        if (opened := self._open.get(batch.producer_id)) is not None:
            opened.has_batch = True
            return True
        self._committed.add(batch.producer_id)
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Return the aborted transactions since the last call that readers still need."""
        kept, self._kept = self._kept, []
        return kept

    def _is_marker_removed(self, batch: RecordBatch) -> bool:
        try:
            marker = decode_marker(batch)
        except WireError:
            return False
        producer_id = batch.producer_id
        if marker is None:
            return not batch.record_count
        if marker.is_commit:
            is_needed = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_needed
        opened = self._open.pop(producer_id, None)
        if opened is not None and opened.has_batch:
            self._kept.append(opened.transaction)
            return False
        return True
