"""Writes the Arrow batches of a task to Kafka.

Invariants:
- Records of a task that go to the same partition keep their order.
- Each topic has its own encoder. At most MAX_TOPICS encoders have buffers at a time.
"""

import time
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.client.producer.bulk import BulkProducer
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.sink.columns import SinkColumns, partition_numbers, record_columns, rows_by_topic
from slackwater.spark.sink.options import SinkOptions
from slackwater.wire.records.compression import Codec

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from slackwater.wire.records.encoder import RecordColumns
    from slackwater.wire.records.scanner import Ints, Longs

MAX_TOPICS: Final = 8
_BUFFER_BYTES: Final = 32 << 20  # of one topic
_RECORD_OVERHEAD_BYTES: Final = 15


class TopicWriter:
    """Writes the records of one topic."""

    def __init__(self, topic: str, producer: BulkProducer, options: SinkOptions) -> None:
        from slackwater.wire.records.encoder import RecordEncoder

        self._topic = topic
        self._producer = producer
        self._options = options
        self._count, available = producer.available_partitions(topic)
        batch_bytes = max(min(options.batch_bytes, _BUFFER_BYTES // self._count), 1 << 10)
        self._encoder = RecordEncoder(self._count, batch_bytes, Codec[options.codec.upper()])
        self._available = np.random.default_rng().permutation(np.array(available, np.int32))
        self._sticky = np.zeros(2, np.int64)

    def write(self, columns: "RecordColumns", rows: "Longs", wanted: "Ints", timestamp_ms: int) -> None:
        """Encode rows and send the batches that are full."""
        from slackwater.wire.records.encoder import ALL_ENCODED, choose_partitions

        sizes = columns.sizes()
        self._check_sizes(sizes[rows])
        partitions = np.empty(len(rows), np.int32)
        invalid = choose_partitions(
            *columns.keys,
            wanted,
            sizes,
            rows,
            self._available,
            self._count,
            self._options.sticky_bytes,
            self._sticky,
            partitions,
        )
        if invalid != ALL_ENCODED:
            raise UsageError(
                f"The partition column has {wanted[invalid]}, but {self._topic} has {self._count} partitions, from 0 "
                "on."
            )
        for partition, encoded in self._encoder.encode(columns, rows, partitions, timestamp_ms):
            self._producer.send_encoded(TopicPartition(self._topic, partition), encoded)

    def flush(self) -> None:
        """Send the rest."""
        for partition in self._encoder.partitions:
            self._producer.send_encoded(TopicPartition(self._topic, partition), self._encoder.take(partition))

    def _check_sizes(self, sizes: "Longs") -> None:
        largest = int(sizes.max(initial=0)) + _RECORD_OVERHEAD_BYTES
        if largest > self._options.max_record_bytes:
            raise UsageError(
                f"A record for {self._topic} takes {largest} bytes; kafka.max.request.size is "
                f"{self._options.max_record_bytes}. Raise it, and max.message.bytes of the topic, or write smaller "
                "records."
            )


class RecordWriter:
    """Writes the batches of one task."""

    def __init__(self, producer: BulkProducer, columns: SinkColumns, options: SinkOptions) -> None:
        self.records = 0
        self._producer = producer
        self._columns = columns
        self._options = options
        self._topics: dict[str, TopicWriter] = {}

    def write(self, batch: "pa.RecordBatch") -> None:
        """Write the rows of a batch; their timestamp is the current time, as in Spark's Kafka sink."""
        if not batch.num_rows:
            return
        timestamp_ms = time.time_ns() // 1_000_000
        columns = record_columns(self._columns, batch)
        wanted = np.zeros(0, np.int32)
        if self._columns.partition is not None:
            wanted = partition_numbers(batch.column(self._columns.partition))
        for topic, rows in self._rows(batch):
            self._topic(topic).write(columns, rows, wanted, timestamp_ms)
        self.records += batch.num_rows

    def finish(self) -> None:
        """Send all records and wait until they are delivered."""
        for topic in self._topics.values():
            topic.flush()
        self._producer.deliver()

    def _rows(self, batch: "pa.RecordBatch") -> "list[tuple[str, Longs]]":
        if self._options.topic is not None:
            return [(self._options.topic, np.arange(batch.num_rows, dtype=np.int64))]
        assert self._columns.topic is not None
        return rows_by_topic(batch.column(self._columns.topic))

    def _topic(self, name: str) -> TopicWriter:
        writer = self._topics.pop(name, None) or TopicWriter(name, self._producer, self._options)
        self._topics[name] = writer
        for oldest in list(self._topics)[:-MAX_TOPICS]:
            self._topics.pop(oldest).flush()
        return writer
