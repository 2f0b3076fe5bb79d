"""The appends of one call of `PartitionLog.append_many`: they get offsets one after the other and are written together.

Invariants:
- Pending batches have offsets but are not visible: the log's end offset and producer state change after the write.
- A batch of a producer is checked against the state after the pending batches.
- If the write fails, all pending appends are rejected, and the next ones continue at the log's end offset.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from slackwater.broker.storage.log.producer_state import (
    NEW_PRODUCER,
    NO_EPOCH,
    ProducerState,
    ProducerStateEntry,
    SequencedBatch,
    TransactionEnd,
    TransactionStart,
    last_sequence,
)
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.log.verification import VerificationGuard
from slackwater.group.errors import Error
from slackwater.wire.records.batch import RecordBatch
from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.markers import decode_marker

ProducerError: TypeAlias = tuple[Error, str]


class AppendInfo(NamedTuple):
    """The offsets of an append; `duplicate` if the batch had been written before."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class BatchWithOffset(NamedTuple):
    """A batch that has an offset and is not yet written."""

    size: int
    last_offset: int
    max_timestamp: int


class PendingAppends:
    """Batches of one call that are not yet written, and the results of all its appends."""

    __slots__ = (
        "_verifications",
        "_written",
        "batches",
        "buffers",
        "end_offset",
        "pending_results",
        "producers",
        "results",
        "size",
        "transaction_version",
        "transactional_producers",
        "transactions",
    )

    def __init__(
        self,
        end_offset: int,
        written: ProducerState,
        verifications: Mapping[int, VerificationGuard],
        transaction_version: int = 0,
    ) -> None:
        self._written = written
        self._verifications = verifications  # of the log, by producer id
        self.transaction_version = transaction_version
        self.results: list[AppendInfo | Rejection] = []
        self.end_offset = end_offset
        self.clear()

    def clear(self) -> None:
        """Forget the pending batches, after a write."""
        self.buffers: list[Buffer] = []
        self.batches: list[BatchWithOffset] = []
        self.producers: dict[int, ProducerStateEntry] = {}
        self.transactions: list[TransactionStart | TransactionEnd] = []
        self.transactional_producers: set[int] = set()
        self.pending_results: list[int] = []  # indexes into `results`
        self.size = 0

    def check_producer(
        self,
        seen: dict[int, ProducerStateEntry],
        batch: RecordBatch,
        base_offset: int,
        guard: VerificationGuard | None,
        *,
        is_client: bool,
    ) -> SequencedBatch | ProducerError | None:
        """Return None if the batch may follow, else the earlier batch that it repeats or the error, in Kafka's order.

        `seen` has the producers after the batches of the same request that are already checked.
        """
        producer_id, epoch, sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
        known = seen.get(producer_id) or self._producer(producer_id)
        if batch.is_control:
            marker = decode_marker(batch)
            assert marker is not None, "only markers of this process are control batches"
            return known.marker_error(epoch, marker.coordinator_epoch, self.transaction_version)
        end = last_sequence(sequence, batch.last_offset_delta)
        if is_client and (earlier := known.duplicate(epoch, sequence, end)):
            return earlier
        failure = self._transaction_error(known, batch, guard) or known.epoch_error(epoch)
        if failure is None and is_client:
            if (verification := self._verifications.get(producer_id)) is not None:
                failure = verification.sequence_error(known, sequence)
            if failure is None and known.epoch != NO_EPOCH:
                failure = known.sequence_error(epoch, sequence)
        if failure is None and known.transaction_start >= 0 and not batch.is_transactional:
            failure = Error.INVALID_TXN_STATE, "A batch without transaction in an open transaction."
        if failure is None:  # a second batch in the same request must follow the first
            following = SequencedBatch(
                end, base_offset + batch.last_offset_delta, batch.last_offset_delta, batch.max_timestamp
            )
            seen[producer_id] = known.with_batch(epoch, following, is_transactional=batch.is_transactional)
        return failure

    def _transaction_error(
        self, known: ProducerStateEntry, batch: RecordBatch, guard: VerificationGuard | None
    ) -> ProducerError | None:
        """Return the error for a transactional batch of a transaction that is neither open nor verified."""
        if not batch.is_transactional or known.has_transaction(batch.producer_epoch):
            return None
        if guard is not None and self._verifications.get(batch.producer_id) is guard:
            return None
        return Error.INVALID_TXN_STATE, "Record was not part of an ongoing transaction."

    def advance_producer(self, batch: RecordBatch) -> None:
        """Apply a batch that has its offset to its producer."""
        producer_id, epoch, delta = batch.producer_id, batch.producer_epoch, batch.last_offset_delta
        known = self._producer(producer_id)
        is_transactional = batch.is_transactional
        if is_transactional:
            self.transactional_producers.add(producer_id)
        if batch.is_control:
            marker = decode_marker(batch)
            assert marker is not None
            self.producers[producer_id] = known.with_marker(epoch, marker.coordinator_epoch, batch.max_timestamp)
            if known.transaction_start >= 0:
                ended = TransactionEnd(producer_id, known.transaction_start, batch.last_offset, marker.is_commit)
                self.transactions.append(ended)
            return
        written = SequencedBatch(
            last_sequence(batch.base_sequence, delta), batch.last_offset, delta, batch.max_timestamp
        )
        self.producers[producer_id] = known.with_batch(epoch, written, is_transactional=is_transactional)
        if is_transactional and known.transaction_start < 0:
            self.transactions.append(TransactionStart(producer_id, batch.base_offset))

    def _producer(self, producer_id: int) -> ProducerStateEntry:
        return self.producers.get(producer_id) or self._written.producers.get(producer_id, NEW_PRODUCER)
