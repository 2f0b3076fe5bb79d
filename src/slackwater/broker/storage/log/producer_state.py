"""What a log knows of its idempotent producers: epochs, and the sequence numbers of their last batches.

Rules kept here, as in Kafka 4.x
- A batch whose first and last sequence are those of one of the producer's last five is a duplicate: it is answered
  with the offset it was given the first time, and not written again.
- A producer that is not known may begin at any sequence: its records may have been deleted, or it may have been away
  for longer than `producer.id.expiration.ms`. (Brokers before 2.5 answered UNKNOWN_PRODUCER_ID instead.)
- The next batch continues where the last ended, and a new epoch begins at 0; anything else is
  OUT_OF_ORDER_SEQUENCE_NUMBER. An epoch that is past is INVALID_PRODUCER_EPOCH.
- Nothing here changes before the batch is written: a check gives the state that would follow, and `update` takes it.

The snapshot file is Kafka's (version 1): the state of all producers at the offset in its name, with a CRC-32C. Kafka
keeps one row per producer, its last batch. Here a producer has a row for each of its last batches, oldest first: Kafka
reads that as well, and the last row wins; we read all five back.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from slackwater.broker.storage.log.files import SNAPSHOT, file_name, replace_file, with_suffix
from slackwater.group.errors import Error
from slackwater.wire.records.crc import crc32c

BATCHES_KEPT: Final = 5
_SEQUENCES: Final = 1 << 31
_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_CRC_ENDS_AT: Final = 6
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the
# transaction: the last two are -1 without transactions.
_ROW: Final = struct.Struct(">qhiqiqiq")


class SequencedBatch(NamedTuple):
    """One batch of a producer, as it stands in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence of its first record."""
        return (self.last_sequence - self.offset_delta) % _SEQUENCES

    @property
    def base_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """One producer: its epoch, and its last batches in that epoch, oldest first."""

    epoch: int
    batches: tuple[SequencedBatch, ...]

    @property
    def last(self) -> SequencedBatch:
        """The last batch."""
        return self.batches[-1]

    def duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> SequencedBatch | None:
        """The batch that was written under these sequences before, if it is one of the last."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def refusal(self, epoch: int, first_sequence: int) -> tuple[Error, str] | None:
        """Why the producer may not go on with this, or None if it may."""
        if epoch < self.epoch:
            return Error.INVALID_PRODUCER_EPOCH, f"Epoch {epoch} is past: the last seen epoch is {self.epoch}."
        expected = (self.last.last_sequence + 1) % _SEQUENCES if epoch == self.epoch else 0
        if first_sequence == expected:
            return None
        return (
            Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Sequence {first_sequence} in epoch {epoch}; expected was {expected}.",
        )

    def then(self, epoch: int, batch: SequencedBatch) -> "ProducerStateEntry":
        """The producer after one more batch."""
        before = self.batches[1 - BATCHES_KEPT :] if epoch == self.epoch else ()
        return ProducerStateEntry(epoch, (*before, batch))


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record; after 2^31 - 1 comes 0."""
    return (base_sequence + last_offset_delta) % _SEQUENCES


class ProducerState:
    """All producers of a log, up to `end_offset`."""

    __slots__ = ("end_offset", "producers")

    def __init__(self, end_offset: int = 0) -> None:
        self.producers: dict[int, ProducerStateEntry] = {}
        self.end_offset = end_offset

    def replay(self, producer_id: int, epoch: int, batch: SequencedBatch) -> None:
        """Take a batch that stands in the log: no questions are asked."""
        known = self.producers.get(producer_id)
        self.producers[producer_id] = known.then(epoch, batch) if known else ProducerStateEntry(epoch, (batch,))

    def update(self, changed: dict[int, ProducerStateEntry], end_offset: int) -> None:
        """Take what followed from batches that are written now."""
        self.producers.update(changed)
        self.end_offset = end_offset

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers whose last batch is too old, by its own timestamp as in Kafka."""
        past = [key for key, known in self.producers.items() if now_ms - known.last.timestamp >= expiration_ms]
        for producer_id in past:
            del self.producers[producer_id]

    def last_offsets(self) -> frozenset[tuple[int, int]]:
        """Every producer with the last offset of its last batch, which the cleaner must keep."""
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
        """The state in a snapshot file, or None if the file is damaged."""
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
        """The newest snapshot that can be used; what is damaged or beyond the log's end is removed."""
        for offset, path in reversed(with_suffix(directory, SNAPSHOT).items()):
            if offset <= log_end_offset and (state := cls.read(path, offset)) is not None:
                return state
            path.unlink()
        return cls(first_offset)


def remove_snapshots(directory: Path, segment_offsets: set[int]) -> None:
    """Remove the snapshots that no segment begins with, except for the newest."""
    found = with_suffix(directory, SNAPSHOT)
    for offset in found.keys() - segment_offsets - {max(found, default=0)}:
        found[offset].unlink()
