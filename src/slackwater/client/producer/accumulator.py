"""Collects records into batches, partition by partition.

Invariants:
- Batches of a partition keep the order of their records; retried batches come before new ones.
- A batch is ready when it is full, when another batch waits behind it, when `linger.ms` has passed, or during flush().
  A closed batch takes no more records.
- The size of a batch is an upper bound; its records are encoded when it is closed.
- Memory is bounded by `buffer.memory`. A record that does not fit waits up to `max.block.ms`.
- All methods are called with the producer's lock held.
"""

from collections import deque
from typing import Final, NamedTuple

from slackwater.client.producer.delivery import BatchOutcome, Delivery, OnDelivery
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import HEADER_BYTES
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import BatchBuilder, PackedRecord

NO_SEQUENCE: Final = -1


class ProducerIdAndEpoch(NamedTuple):
    """What identifies a producer to the brokers."""

    producer_id: int
    epoch: int


NO_PRODUCER: Final = ProducerIdAndEpoch(-1, -1)


class ProducerBatch:
    """Records of one partition that are sent together."""

    __slots__ = (
        "attempts",
        "closed",
        "created",
        "data",
        "first",
        "last_error",
        "not_before",
        "outcome",
        "partition",
        "records",
        "sequence",
        "sequence_restarts",
        "size",
    )

    def __init__(self, partition: TopicPartition, created: float, outcome: BatchOutcome | None = None) -> None:
        self.partition = partition
        self.created = created
        self.outcome = outcome or BatchOutcome(partition)
        self.first = 0  # the number of its first record in the outcome
        self.records: list[PackedRecord] = []
        self.size = HEADER_BYTES  # in the buffer; an upper bound for the encoded batch
        self.closed = False
        self.last_error: SlackwaterError | None = None  # of the last attempt, for the message when the time is used up
        self.data: bytearray | None = None  # encoded when the batch is closed
        self.sequence = NO_SEQUENCE
        self.sequence_restarts = 0  # those of its queue when it got its sequence
        self.attempts = 0
        self.not_before = 0.0

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.records)

    def close(
        self,
        producer: ProducerIdAndEpoch,
        sequence: int,
        codec: Codec,
        level: int | None,
        *,
        transactional: bool = False,
    ) -> bytearray:
        """Encode the records with this producer id and sequence."""
        self.closed, self.sequence = True, sequence
        builder = BatchBuilder()
        builder.extend_packed(self.records)
        self.data = builder.build(
            codec=codec,
            level=level,
            transactional=transactional,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
        )
        return self.data

    def clear_sequence(self) -> None:
        """Get a new sequence before the next attempt."""
        self.data, self.sequence = None, NO_SEQUENCE

    def split(self) -> "tuple[ProducerBatch, ProducerBatch]":
        """Return two batches with the same records; they share this outcome."""
        self.outcome.split()
        middle = len(self.records) // 2
        halves = (
            ProducerBatch(self.partition, self.created, self.outcome),
            ProducerBatch(self.partition, self.created, self.outcome),
        )
        for half, first, records in zip(
            halves, (0, middle), (self.records[:middle], self.records[middle:]), strict=True
        ):
            half.first, half.records = self.first + first, records
            half.attempts, half.sequence_restarts = self.attempts, self.sequence_restarts
        halves[0].size = self.size * middle // len(self.records)
        halves[1].size = self.size - halves[0].size
        return halves


class PartitionQueue:
    """The batches of one partition."""

    __slots__ = (
        "batches",
        "id_is_known",
        "in_flight",
        "next_sequence",
        "partition",
        "producer",
        "retrying",
        "sequence_restarts",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.producer = NO_PRODUCER  # that of its sequences
        self.id_is_known = False  # the broker has written a batch of this id
        self.next_sequence = 0
        self.sequence_restarts = 0
        self.retrying = False  # one batch in flight until the first retry succeeds

    def use_producer_id(self, producer: ProducerIdAndEpoch) -> None:
        """Use another producer id, if no batch has a sequence of the old one."""
        if (
            producer != self.producer
            and not self.in_flight
            and not any(batch.data is not None for batch in self.batches)
        ):
            self.producer, self.next_sequence, self.id_is_known = producer, 0, False

    def restart_sequences(self) -> None:
        """Give all waiting batches new sequences, for the next producer id."""
        self.sequence_restarts += 1
        for batch in self.batches:
            batch.clear_sequence()

    def has_before(self, batch: ProducerBatch) -> bool:
        """Whether a batch with a lower sequence is waiting or in flight."""
        return any(0 <= other.sequence < batch.sequence for other in (*self.in_flight, *self.batches))


class Accumulator:
    """The batches of a producer, by partition."""

    def __init__(self, *, batch_bytes: int, linger_s: float, memory_bytes: int) -> None:
        self.batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._memory_bytes = memory_bytes
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.waiting: dict[TopicPartition, PartitionQueue] = {}  # queues that may have a batch to send
        self.used_bytes = 0
        self._batches = 0
        self.flushing = 0  # the number of flush() calls in progress

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition)
        return queue

    def has_room(self, size: int) -> bool:
        """Whether a record of this size fits; into an empty buffer, any record does."""
        return self.used_bytes + size <= self._memory_bytes or not self.used_bytes

    def append(
        self, queue: PartitionQueue, record: PackedRecord, size: int, on_delivery: OnDelivery | None, now: float
    ) -> tuple[Delivery, bool]:
        """Add a record of at most this size; also return whether the sender has to run: a batch is new or full."""
        batches = queue.batches
        batch = batches[-1] if batches else None
        is_new = batch is None or batch.closed or batch.size + size > self.batch_bytes
        if batch is None or is_new:
            batch = self._add_batch(queue, now)
        outcome, records = batch.outcome, batch.records
        number = len(records)
        records.append(record)
        batch.size += size
        self.used_bytes += size
        if on_delivery is not None:
            outcome.add_callback(number, record[3], on_delivery)
        return Delivery(outcome, number, record[3]), is_new or batch.size >= self.batch_bytes

    def append_batch(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Add a closed batch."""
        queue.batches.append(batch)
        self.waiting[queue.partition] = queue
        self.used_bytes += batch.size
        self._batches += 1

    def _add_batch(self, queue: PartitionQueue, now: float) -> ProducerBatch:
        batch = ProducerBatch(queue.partition, now)
        self.append_batch(queue, batch)
        return batch

    def ready_at(self, queue: PartitionQueue, now: float) -> float | None:
        """Return when the first batch of a partition may be sent; None without a batch."""
        if not queue.batches:
            return None
        first = queue.batches[0]
        if first.attempts:
            return first.not_before
        if self.flushing or len(queue.batches) > 1 or first.closed or first.size >= self.batch_bytes:
            return now
        return first.created + self._linger_s

    def replace(self, batch: ProducerBatch, halves: tuple[ProducerBatch, ProducerBatch]) -> None:
        """Replace the first waiting batch by its two halves."""
        batches = self.queues[batch.partition].batches
        assert batches[0] is batch
        batches.popleft()
        batches.extendleft(reversed(halves))
        self._batches += 1

    def release(self, batch: ProducerBatch) -> None:
        """Free the memory of a delivered or failed batch."""
        self.used_bytes -= batch.size
        self._batches -= 1
        batch.records, batch.data = [], None

    @property
    def is_empty(self) -> bool:
        """Whether all records were delivered or failed."""
        return not self._batches
