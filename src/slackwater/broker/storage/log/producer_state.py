"""Sequence numbers and open transactions of producers, per log.

Invariants, as in Kafka 4.x:
- A batch with the same first and last sequence as one of the producer's last five batches is a duplicate. The response
  has the offset of the first write, and nothing is written.
- An unknown producer may start at any sequence: its records may have been deleted, or its state may have expired
  (`producer.id.expiration.ms`). Brokers before 2.5 return UNKNOWN_PRODUCER_ID.
- The next batch continues after the last sequence, and a new epoch starts at 0; anything else is
  OUT_OF_ORDER_SEQUENCE_NUMBER. An old epoch is INVALID_PRODUCER_EPOCH.
- A transaction begins with the first transactional batch of its producer and ends with a marker. A marker with a new
  epoch forgets the sequences of the old one.
- A producer with an open transaction does not expire.
- State changes after the batch is written: a check returns the next state, and `update` applies it.

The snapshot file is Kafka's, version 1: the state of all producers at the offset in its name, with a CRC-32C. Kafka
writes one row per producer, for its last batch. Here a producer has one row for each of its last batches, oldest first.
Kafka can read this file and uses the last row.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from slackwater.broker.storage.log.files import SNAPSHOT, file_name, replace_file, with_suffix
from slackwater.broker.storage.log.transaction_index import AbortedTransaction
from slackwater.group.errors import Error
from slackwater.wire.records.batch import NO_TIMESTAMP
from slackwater.wire.records.crc import crc32c
from slackwater.wire.records.markers import EndTransactionMarker

MAX_BATCHES: Final = 5
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TRANSACTION: Final = -1
_EPOCH_PER_TRANSACTION: Final = 2  # the transaction version
_SEQUENCES: Final = 1 << 31
_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_CRC_ENDS_AT: Final = 6
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the open
# transaction. The last four are those of the producer, not of the batch.
_ROW: Final = struct.Struct(">qhiqiqiq")


class SequencedBatch(NamedTuple):
    """One batch of a producer in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record."""
        return (self.last_sequence - self.offset_delta) % _SEQUENCES

    @property
    def base_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """The epoch of a producer, its last batches in that epoch, oldest first, and its open transaction."""

    epoch: int
    batches: tuple[SequencedBatch, ...] = ()
    timestamp: int = NO_TIMESTAMP  # of the last batch or marker
    coordinator_epoch: int = NO_EPOCH  # of the last marker
    transaction_start: int = NO_TRANSACTION

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record in this epoch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def has_transaction(self, epoch: int) -> bool:
        """Whether a transaction with this epoch is open."""
        return self.transaction_start >= 0 and self.epoch == epoch

    def duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> SequencedBatch | None:
        """Return the earlier batch with these sequences, if it is one of the last five."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def epoch_error(self, epoch: int) -> tuple[Error, str] | None:
        """Return the error for a batch of an old epoch, or None."""
        if epoch >= self.epoch:
            return None
        return Error.INVALID_PRODUCER_EPOCH, f"Epoch {epoch} is older than the current epoch {self.epoch}."

    def sequence_error(self, epoch: int, first_sequence: int) -> tuple[Error, str] | None:
        """Return the error for a batch that does not continue the sequence, or None."""
        expected = (self.last_sequence + 1) % _SEQUENCES if epoch == self.epoch else 0
        if first_sequence == expected:
            return None
        return (
            Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Sequence {first_sequence} in epoch {epoch} is out of order; expected {expected}.",
        )

    def marker_error(self, epoch: int, coordinator_epoch: int, transaction_version: int) -> tuple[Error, str] | None:
        """Return the error for a marker of an old epoch or coordinator, or None.

        Since transaction version 2 a marker has a new epoch. One with the current epoch may only be a repetition.
        """
        is_late = epoch == self.epoch and transaction_version >= _EPOCH_PER_TRANSACTION and self.transaction_start >= 0
        if epoch < self.epoch or is_late:
            message = f"The marker has epoch {epoch}, the producer {self.epoch} (version {transaction_version})."
            return Error.INVALID_PRODUCER_EPOCH, message
        if coordinator_epoch < self.coordinator_epoch:
            message = f"Coordinator epoch {coordinator_epoch} is older than the current one, {self.coordinator_epoch}."
            return Error.TRANSACTION_COORDINATOR_FENCED, message
        return None

    def with_batch(self, epoch: int, batch: SequencedBatch, *, is_transactional: bool = False) -> "ProducerStateEntry":
        """Return the entry after one more batch."""
        previous = self.batches[1 - MAX_BATCHES :] if epoch == self.epoch else ()
        start = self.transaction_start
        if is_transactional and start < 0:
            start = batch.base_offset
        return ProducerStateEntry(epoch, (*previous, batch), batch.timestamp, self.coordinator_epoch, start)

    def with_marker(self, epoch: int, coordinator_epoch: int, timestamp: int) -> "ProducerStateEntry":
        """Return the entry after a marker, which ends the transaction."""
        batches = self.batches if epoch == self.epoch else ()
        return ProducerStateEntry(epoch, batches, timestamp, coordinator_epoch)


NEW_PRODUCER: Final = ProducerStateEntry(NO_EPOCH)
"""The state of a producer of which nothing is known."""


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Return the sequence of a batch's last record; 0 follows 2^31 - 1. Batches of coordinators have none."""
    if base_sequence < 0:
        return NO_SEQUENCE
    return (base_sequence + last_offset_delta) % _SEQUENCES


class TransactionStart(NamedTuple):
    """The first batch of a transaction was written."""

    producer_id: int
    first_offset: int


class TransactionEnd(NamedTuple):
    """The marker of an open transaction was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_commit: bool


class ProducerState:
    """The producers of a log, up to `end_offset`.

    `open_transactions` maps first offsets, in ascending order, to producer ids.
    """

    __slots__ = ("end_offset", "open_transactions", "producers")

    def __init__(self, end_offset: int = 0) -> None:
        self.producers: dict[int, ProducerStateEntry] = {}
        self.open_transactions: dict[int, int] = {}
        self.end_offset = end_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction, or None."""
        return next(iter(self.open_transactions), None)

    def replay(self, producer_id: int, epoch: int, batch: SequencedBatch, *, is_transactional: bool = False) -> None:
        """Apply a batch of the log without checks."""
        known = self.producers.get(producer_id, NEW_PRODUCER)
        self.producers[producer_id] = entry = known.with_batch(epoch, batch, is_transactional=is_transactional)
        if known.transaction_start < 0 <= entry.transaction_start:
            self.open_transactions[entry.transaction_start] = producer_id

    def replay_marker(
        self, producer_id: int, epoch: int, marker: EndTransactionMarker, offset: int, timestamp: int
    ) -> AbortedTransaction | None:
        """Apply a marker of the log without checks; return the transaction if it is aborted."""
        known = self.producers.get(producer_id, NEW_PRODUCER)
        self.producers[producer_id] = known.with_marker(epoch, marker.coordinator_epoch, timestamp)
        if known.transaction_start < 0:
            return None
        return self.apply(TransactionEnd(producer_id, known.transaction_start, offset, marker.is_commit))

    def apply(self, change: TransactionStart | TransactionEnd) -> AbortedTransaction | None:
        """Apply the start or end of a transaction; return the transaction if it is aborted."""
        if isinstance(change, TransactionStart):
            self.open_transactions[change.first_offset] = change.producer_id
            return None
        producer_id, first_offset, last_offset, is_commit = change
        self.open_transactions.pop(first_offset, None)
        if is_commit:
            return None
        unstable = self.first_unstable_offset
        last_stable_offset = last_offset + 1 if unstable is None else unstable
        return AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)

    def update(self, changed: dict[int, ProducerStateEntry], end_offset: int) -> None:
        """Apply the entries of batches that were written."""
        self.producers.update(changed)
        self.end_offset = end_offset

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers whose last batch or marker is too old by its timestamp, as in Kafka."""
        expired = [
            key
            for key, known in self.producers.items()
            if known.transaction_start < 0 and now_ms - known.timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]

    def last_offsets(self) -> frozenset[tuple[int, int]]:
        """Return every producer with the last offset of its last batch, which the cleaner must keep."""
        return frozenset(
            (producer_id, known.batches[-1].last_offset)
            for producer_id, known in self.producers.items()
            if known.batches
        )

    def marker_epochs(self) -> frozenset[tuple[int, int]]:
        """Return every producer without a batch in its epoch: the cleaner must keep a marker of that epoch."""
        return frozenset(
            (producer_id, known.epoch) for producer_id, known in self.producers.items() if not known.batches
        )

    def write(self, directory: Path) -> None:
        """Write a snapshot at the end offset."""
        rows: list[bytes] = []
        for producer_id, known in self.producers.items():
            *earlier, last = known.batches or (SequencedBatch(NO_SEQUENCE, -1, 0, known.timestamp),)
            last = last._replace(timestamp=known.timestamp)
            rows += [
                _ROW.pack(producer_id, known.epoch, *batch, known.coordinator_epoch, known.transaction_start)
                for batch in (*earlier, last)
            ]
        body = struct.pack(">i", len(rows)) + b"".join(rows)
        data = struct.pack(">hI", _VERSION, crc32c(body)) + body
        replace_file(directory / file_name(self.end_offset, SNAPSHOT), data)

    @classmethod
    def read(cls, path: Path, end_offset: int) -> "ProducerState | None":
        """Read a snapshot file; None if it is damaged."""
        data = path.read_bytes()
        if len(data) < _HEAD.size:
            return None
        version, crc, count = _HEAD.unpack_from(data)
        if version != _VERSION or crc != crc32c(data[_CRC_ENDS_AT:]) or len(data) != _HEAD.size + count * _ROW.size:
            return None
        state = cls(end_offset)
        for row in _ROW.iter_unpack(data[_HEAD.size :]):
            producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, transaction_start = row
            known = state.producers.get(producer_id, NEW_PRODUCER)
            if offset >= 0:
                known = known.with_batch(epoch, SequencedBatch(sequence, offset, delta, timestamp))
            state.producers[producer_id] = ProducerStateEntry(
                epoch, known.batches, timestamp, coordinator_epoch, transaction_start
            )
        state.open_transactions = dict(
            sorted(
                (known.transaction_start, producer_id)
                for producer_id, known in state.producers.items()
                if known.transaction_start >= 0
            )
        )
        return state

    @classmethod
    def latest(
        cls, directory: Path, first_offset: int, log_end_offset: int, *, up_to: int | None = None
    ) -> "ProducerState":
        """Read the newest usable snapshot at or before `up_to`; remove damaged ones and those after the log's end."""
        for offset, path in reversed(with_suffix(directory, SNAPSHOT).items()):
            if offset > log_end_offset:
                path.unlink()
            elif up_to is None or offset <= up_to:
                if (state := cls.read(path, offset)) is not None:
                    return state
                path.unlink()
        return cls(first_offset)


def remove_snapshots(directory: Path, segment_offsets: set[int]) -> None:
    """Remove the snapshots that do not belong to a segment, except the newest."""
    snapshots = with_suffix(directory, SNAPSHOT)
    for offset in snapshots.keys() - segment_offsets - {max(snapshots, default=0)}:
        snapshots[offset].unlink()
