"""Sequence numbers of idempotent producers, per log.

Invariants, as in Kafka 4.x:
- A batch with the same first and last sequence as one of the producer's last five batches is a duplicate. The response
  has the offset of the first write, and nothing is written.
- An unknown producer may start at any sequence: its records may have been deleted, or its state may have expired
  (`producer.id.expiration.ms`). Brokers before 2.5 return UNKNOWN_PRODUCER_ID.
- The next batch continues after the last sequence, and a new epoch starts at 0; anything else is
  OUT_OF_ORDER_SEQUENCE_NUMBER. An old epoch is INVALID_PRODUCER_EPOCH.
- State changes after the batch is written: a check returns the next state, and `update` applies it.

The snapshot file is Kafka's, version 1: the state of all producers at the offset in its name, with a CRC-32C. Kafka
writes one row per producer, for its last batch. Here a producer has one row for each of its last batches, oldest first.
Kafka can read this file and uses the last row.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from slackwater.broker.storage.log.files import SNAPSHOT, file_name, replace_file, with_suffix
from slackwater.group.errors import Error
from slackwater.wire.records.crc import crc32c

MAX_BATCHES: Final = 5
_SEQUENCES: Final = 1 << 31
_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_CRC_ENDS_AT: Final = 6
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the
# transaction: the last two are -1 without transactions.
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
    """The epoch of a producer and its last batches in that epoch, oldest first."""

    epoch: int
    batches: tuple[SequencedBatch, ...]

    @property
    def last(self) -> SequencedBatch:
        """The last batch."""
        return self.batches[-1]

    def duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> SequencedBatch | None:
        """Return the earlier batch with these sequences, if it is one of the last five."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def sequence_error(self, epoch: int, first_sequence: int) -> tuple[Error, str] | None:
        """Return the error for a batch that does not continue the sequence, or None."""
        if epoch < self.epoch:
            return Error.INVALID_PRODUCER_EPOCH, f"Epoch {epoch} is older than the current epoch {self.epoch}."
        expected = (self.last.last_sequence + 1) % _SEQUENCES if epoch == self.epoch else 0
        if first_sequence == expected:
            return None
        return (
            Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Sequence {first_sequence} in epoch {epoch} is out of order; expected {expected}.",
        )

    def with_batch(self, epoch: int, batch: SequencedBatch) -> "ProducerStateEntry":
        """Return the entry after one more batch."""
        previous = self.batches[1 - MAX_BATCHES :] if epoch == self.epoch else ()
        return ProducerStateEntry(epoch, (*previous, batch))


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Return the sequence of a batch's last record; 0 follows 2^31 - 1."""
    return (base_sequence + last_offset_delta) % _SEQUENCES


class ProducerState:
    """The producers of a log, up to `end_offset`."""

    __slots__ = ("end_offset", "producers")

    def __init__(self, end_offset: int = 0) -> None:
        self.producers: dict[int, ProducerStateEntry] = {}
        self.end_offset = end_offset

    def replay(self, producer_id: int, epoch: int, batch: SequencedBatch) -> None:
        """Apply a batch of the log without checks."""
        known = self.producers.get(producer_id)
        self.producers[producer_id] = known.with_batch(epoch, batch) if known else ProducerStateEntry(epoch, (batch,))

    def update(self, changed: dict[int, ProducerStateEntry], end_offset: int) -> None:
        """Apply the entries of batches that were written."""
        self.producers.update(changed)
        self.end_offset = end_offset

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers whose last batch is too old by its timestamp, as in Kafka."""
        expired = [key for key, known in self.producers.items() if now_ms - known.last.timestamp >= expiration_ms]
        for producer_id in expired:
            del self.producers[producer_id]

    def last_offsets(self) -> frozenset[tuple[int, int]]:
        """Return every producer with the last offset of its last batch, which the cleaner must keep."""
        return frozenset((producer_id, known.last.last_offset) for producer_id, known in self.producers.items())

    def write(self, directory: Path) -> None:
        """Write a snapshot at the end offset."""
        rows = [
            _ROW.pack(producer_id, known.epoch, *batch[:4], -1, -1)
            for producer_id, known in self.producers.items()
            for batch in known.batches
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
        for producer_id, epoch, sequence, offset, delta, timestamp, _, _ in _ROW.iter_unpack(data[_HEAD.size :]):
            state.replay(producer_id, epoch, SequencedBatch(sequence, offset, delta, timestamp))
        return state

    @classmethod
    def latest(cls, directory: Path, first_offset: int, log_end_offset: int) -> "ProducerState":
        """Read the newest usable snapshot; remove snapshots that are damaged or after the log's end."""
        for offset, path in reversed(with_suffix(directory, SNAPSHOT).items()):
            if offset <= log_end_offset and (state := cls.read(path, offset)) is not None:
                return state
            path.unlink()
        return cls(first_offset)


def remove_snapshots(directory: Path, segment_offsets: set[int]) -> None:
    """Remove the snapshots that do not belong to a segment, except the newest."""
    snapshots = with_suffix(directory, SNAPSHOT)
    for offset in snapshots.keys() - segment_offsets - {max(snapshots, default=0)}:
        snapshots[offset].unlink()
