"""Records on their way: gathered into batches, partition by partition, until they are delivered or given up.

Rules kept here
- Batches of a partition are in the order of their records, those that are tried again before those that were never
  tried; so a partition keeps its order.
- A batch is ready when it is full, when another one waits behind it, when `linger.ms` is over, or when somebody
  flushes.
- Memory is bounded by `buffer.memory`: a record that finds no room waits, up to `max.block.ms`.
- Everything is called under the producer's lock.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.record_batch import NO_TIMESTAMP
from slackwater.wire.records import BatchBuilder, Record

RECORD_OVERHEAD: Final = 21
NO_SEQUENCE: Final = -1
NO_PRODUCER: Final = (-1, -1)


class RecordMetadata(NamedTuple):
    """Where a record was written; an offset of -1 is not known (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


Delivered = Callable[[RecordMetadata | None, SlackwaterError | None], None]


class Batch:
    """Records of one partition that are sent together."""

    __slots__ = (
        "attempts",
        "builder",
        "created",
        "data",
        "heard",
        "not_before",
        "partition",
        "sequence",
        "size",
        "timestamps",
    )

    def __init__(self, partition: TopicPartition, created: float) -> None:
        self.partition = partition
        self.created = created
        self.builder = BatchBuilder()
        self.data: bytearray | None = None  # once it is closed
        self.sequence = NO_SEQUENCE
        self.attempts = 0
        self.not_before = 0.0
        self.size = 0  # what it takes of the buffer
        self.heard: list[Delivered | None] = []
        self.timestamps: list[int] = []

    @property
    def count(self) -> int:
        """How many records it has."""
        return len(self.heard)

    def add(self, record: Record, size: int, heard: Delivered | None) -> None:
        """Take one more record."""
        self.builder.append(record)
        self.size += size
        self.heard.append(heard)
        self.timestamps.append(record.timestamp)

    def done(self, base_offset: int, log_append_time_ms: int = NO_TIMESTAMP) -> Iterator[Callable[[], None]]:
        """It was written; what to tell whom."""
        topic, partition = self.partition
        for number, (heard, timestamp) in enumerate(zip(self.heard, self.timestamps, strict=True)):
            if heard is not None:
                offset = base_offset + number if base_offset >= 0 else -1
                time = log_append_time_ms if log_append_time_ms != NO_TIMESTAMP else timestamp
                yield partial(heard, RecordMetadata(topic, partition, offset, time), None)

    def failed(self, error: SlackwaterError) -> Iterator[Callable[[], None]]:
        """It was given up; what to tell whom."""
        for heard in self.heard:
            if heard is not None:
                yield partial(heard, None, error)


class Queue:
    """One partition's batches."""

    __slots__ = ("batches", "in_flight", "next_sequence", "partition", "producer", "retrying")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.producer = NO_PRODUCER  # the id and epoch that its sequences belong to
        self.next_sequence = 0
        self.retrying = False  # until the first is through, one at a time

    def adopt(self, producer: tuple[int, int]) -> None:
        """Go over to another producer id, if nothing is under way that was numbered for the old one."""
        if producer != self.producer and not self.in_flight and not any(one.data is not None for one in self.batches):
            self.producer, self.next_sequence = producer, 0

    def count_anew(self) -> None:
        """What the broker has is not known: number everything that waits again, for the next producer id."""
        for batch in self.batches:
            batch.data, batch.sequence = None, NO_SEQUENCE

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self.batches and not self.in_flight


class Accumulator:
    """All batches of a producer."""

    def __init__(self, *, batch_bytes: int, linger_s: float, memory_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._memory_bytes = memory_bytes
        self.queues: dict[TopicPartition, Queue] = {}
        self.used_bytes = 0
        self.flushing = 0  # how many wait for everything to go

    def has_room(self, size: int) -> bool:
        """Whether a record of this size may come now; one larger than all memory may come alone."""
        return self.used_bytes + size <= self._memory_bytes or not self.used_bytes

    def append(self, partition: TopicPartition, record: Record, size: int, heard: Delivered | None, now: float) -> bool:
        """Take a record; True if there is something to send now."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = Queue(partition)
        batch = queue.batches[-1] if queue.batches else None
        is_new = batch is None or batch.data is not None or batch.builder.size + size > self._batch_bytes
        if batch is None or is_new:
            batch = Batch(partition, now)
            queue.batches.append(batch)
        batch.add(record, size, heard)
        self.used_bytes += size
        return batch.builder.size >= self._batch_bytes or (is_new and (len(queue.batches) > 1 or not self._linger_s))

    def ready_at(self, queue: Queue, now: float) -> float | None:
        """When the first batch of a partition may go; None if there is none."""
        if not queue.batches:
            return None
        first = queue.batches[0]
        if first.attempts:
            return first.not_before
        if self.flushing or len(queue.batches) > 1 or first.data is not None:
            return now
        return now if first.builder.size >= self._batch_bytes else first.created + self._linger_s

    def release(self, batch: Batch) -> None:
        """A batch is done; its memory is free."""
        self.used_bytes -= batch.size

    @property
    def is_empty(self) -> bool:
        """Whether everything was delivered or given up."""
        return all(queue.is_empty for queue in self.queues.values())
