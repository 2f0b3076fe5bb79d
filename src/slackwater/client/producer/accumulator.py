"""Records on their way: gathered into batches, partition by partition, until they are delivered or given up.

Rules kept here
- Batches of a partition are in the order of their records, those that are tried again before those that were never
  tried; so a partition keeps its order.
- A batch is ready when it is full, when another one waits behind it, when `linger.ms` is over, or when somebody
  flushes. What was closed once takes no more records.
- A batch is full by what its records take at most; they are written into it all at once, when it goes.
- Memory is bounded by `buffer.memory`: a record that finds no room waits, up to `max.block.ms`.
- Everything is called under the producer's lock.
"""

from collections import deque
from typing import Final

from slackwater.client.producer.delivery import Delivery, OnDelivery, Outcome
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import HEADER_BYTES
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import BatchBuilder, PackedRecord

NO_SEQUENCE: Final = -1
NO_PRODUCER: Final = (-1, -1)


class Batch:
    """Records of one partition that are sent together."""

    __slots__ = (
        "attempts",
        "closed",
        "created",
        "data",
        "first",
        "not_before",
        "numbering",
        "outcome",
        "partition",
        "records",
        "sequence",
        "size",
    )

    def __init__(self, partition: TopicPartition, created: float, outcome: Outcome | None = None) -> None:
        self.partition = partition
        self.created = created
        self.outcome = outcome or Outcome(partition)
        self.first = 0  # the number of its first record in the outcome
        self.records: list[PackedRecord] = []
        self.size = HEADER_BYTES  # what it takes of the buffer, and at most of a request
        self.closed = False
        self.data: bytearray | None = None  # once it is closed
        self.sequence = NO_SEQUENCE
        self.numbering = 0  # which of its queue's the sequence belongs to
        self.attempts = 0
        self.not_before = 0.0

    @property
    def count(self) -> int:
        """How many records it has."""
        return len(self.records)

    def close(self, producer: tuple[int, int], sequence: int, codec: Codec, level: int | None) -> bytearray:
        """Write the records; those of a batch that is numbered anew are the same."""
        self.closed, self.sequence = True, sequence
        builder = BatchBuilder()
        builder.extend_packed(self.records)
        self.data = builder.build(
            codec=codec, level=level, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
        )
        return self.data

    def unnumber(self) -> None:
        """It gets another sequence when it is sent again."""
        self.data, self.sequence = None, NO_SEQUENCE

    def split(self) -> "tuple[Batch, Batch]":
        """The same records in two batches, which share what is told of this one."""
        self.outcome.split()
        middle = len(self.records) // 2
        halves = Batch(self.partition, self.created, self.outcome), Batch(self.partition, self.created, self.outcome)
        for half, first, records in zip(
            halves, (0, middle), (self.records[:middle], self.records[middle:]), strict=True
        ):
            half.first, half.records = self.first + first, records
            half.attempts, half.numbering = self.attempts, self.numbering
        halves[0].size = self.size * middle // len(self.records)
        halves[1].size = self.size - halves[0].size
        return halves


class Queue:
    """One partition's batches."""

    __slots__ = ("batches", "in_flight", "met", "next_sequence", "numbering", "partition", "producer", "retrying")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.producer = NO_PRODUCER  # the id and epoch that its sequences belong to
        self.met = False  # the broker has a batch of that id
        self.next_sequence = 0
        self.numbering = 0  # how often everything was numbered anew
        self.retrying = False  # until the first is through, one at a time

    def adopt(self, producer: tuple[int, int]) -> None:
        """Go over to another producer id, if nothing is under way that was numbered for the old one."""
        if producer != self.producer and not self.in_flight and not any(one.data is not None for one in self.batches):
            self.producer, self.next_sequence, self.met = producer, 0, False

    def count_anew(self) -> None:
        """What the broker has is not known: number everything that waits again, for the next producer id."""
        self.numbering += 1
        for batch in self.batches:
            batch.unnumber()

    def has_before(self, batch: Batch) -> bool:
        """Whether one that must be written before this one is under way."""
        return any(0 <= one.sequence < batch.sequence for one in (*self.in_flight, *self.batches))


class Accumulator:
    """All batches of a producer."""

    def __init__(self, *, batch_bytes: int, linger_s: float, memory_bytes: int) -> None:
        self.batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._memory_bytes = memory_bytes
        self.queues: dict[TopicPartition, Queue] = {}
        self.waiting: dict[TopicPartition, Queue] = {}  # those that may have a batch to send
        self.used_bytes = 0
        self._batches = 0
        self.flushing = 0  # how many wait for everything to go

    def queue(self, partition: TopicPartition) -> Queue:
        """A partition's queue."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = Queue(partition)
        return queue

    def has_room(self, size: int) -> bool:
        """Whether a record of this size may come now; one larger than all memory may come alone."""
        return self.used_bytes + size <= self._memory_bytes or not self.used_bytes

    def append(
        self, queue: Queue, record: PackedRecord, size: int, heard: OnDelivery | None, now: float
    ) -> tuple[Delivery, bool]:
        """Take a record of at most this size; True if the sender should look, for a batch has begun or is full."""
        batches = queue.batches
        batch = batches[-1] if batches else None
        news = batch is None or batch.closed or batch.size + size > self.batch_bytes
        if batch is None or news:
            batch = self._begin(queue, now)
        outcome, records = batch.outcome, batch.records
        number = len(records)
        records.append(record)
        batch.size += size
        self.used_bytes += size
        if heard is not None:
            outcome.heard.append((number, record[3], heard))
        return Delivery(outcome, number, record[3]), news or batch.size >= self.batch_bytes

    def _begin(self, queue: Queue, now: float) -> Batch:
        batch = Batch(queue.partition, now)
        queue.batches.append(batch)
        self.waiting[queue.partition] = queue
        self.used_bytes += batch.size
        self._batches += 1
        return batch

    def ready_at(self, queue: Queue, now: float) -> float | None:
        """When the first batch of a partition may go; None if there is none."""
        if not queue.batches:
            return None
        first = queue.batches[0]
        if first.attempts:
            return first.not_before
        if self.flushing or len(queue.batches) > 1 or first.closed or first.size >= self.batch_bytes:
            return now
        return first.created + self._linger_s

    def replace(self, batch: Batch, halves: tuple[Batch, Batch]) -> None:
        """A batch that waits first is two from now on."""
        batches = self.queues[batch.partition].batches
        assert batches[0] is batch
        batches.popleft()
        batches.extendleft(reversed(halves))
        self._batches += 1

    def release(self, batch: Batch) -> None:
        """A batch is done; its memory is free."""
        self.used_bytes -= batch.size
        self._batches -= 1
        batch.records, batch.data = [], None

    @property
    def is_empty(self) -> bool:
        """Whether everything was delivered or given up."""
        return not self._batches
