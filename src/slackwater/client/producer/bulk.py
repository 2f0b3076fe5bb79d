"""A producer of batches that are encoded already, for the Spark sink.

Invariants:
- Sending, retries, idempotence and transactions are those of `Producer`: only the encoding differs.
- A failed batch fails the producer: `failure` is its error, and every later call raises it.
- A batch that is too large for the broker is decoded and split. That is slow and rare.
"""

import time
from collections.abc import Mapping

from slackwater.client.network.transactions import OpenTransaction
from slackwater.client.producer.accumulator import ProducerBatch, ProducerIdAndEpoch
from slackwater.client.producer.delivery import BatchOutcome
from slackwater.client.producer.producer import Producer
from slackwater.client.producer.transaction_requests import FEATURE
from slackwater.client.producer.transaction_states import TransactionManagerInput
from slackwater.group.errors import Error, SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import RecordBatch
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.encoder import EncodedRecords
from slackwater.wire.records.record import NO_HEADERS, decode_records, pack_headers


class EncodedBatch(ProducerBatch):
    """A batch whose records are encoded."""

    __slots__ = ("_encoded",)

    def __init__(self, partition: TopicPartition, encoded: EncodedRecords, created: float, outcome: BatchOutcome):
        super().__init__(partition, created, outcome)
        self._encoded = encoded
        self.size = len(encoded.data)
        self.closed = True

    @property
    def count(self) -> int:
        """The number of records."""
        return self._encoded.count

    def close(
        self,
        producer: ProducerIdAndEpoch,
        sequence: int,
        codec: Codec,
        level: int | None,
        *,
        transactional: bool = False,
    ) -> bytearray:
        """Write the header with this producer id and sequence; the records have their codec."""
        self.sequence = sequence
        self.data = self._encoded.build(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return self.data

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Return two batches with the same records; they share this outcome."""
        self.records = [
            (record.key, record.value, pack_headers(record.headers) if record.headers else NO_HEADERS, record.timestamp)
            for record in decode_records(RecordBatch(self._encoded.build()))
        ]
        return super().split()


class _Outcome(BatchOutcome):
    """The outcome of an encoded batch: it reports the first error of its parts."""

    __slots__ = ("_errors", "_on_error")

    def __init__(self, partition: TopicPartition, producer: "BulkProducer") -> None:
        super().__init__(partition)
        self._on_error = producer.on_error

    def add_part(
        self,
        first: int,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        error: SlackwaterError | None = None,
    ) -> bool:
        """Add the outcome of a part."""
        if error is not None:
            self._on_error(self.partition, error)
        return super().add_part(first, base_offset, log_append_time_ms, error)


class BulkProducer(Producer):
    """A producer that sends `EncodedRecords`."""

    def __init__(self, config: Mapping[str, object]) -> None:
        super().__init__(config)
        self.failure: SlackwaterError | None = None

    def send_encoded(self, partition: TopicPartition, encoded: EncodedRecords) -> None:
        """Send a batch; wait for room in the buffer up to `max.block.ms`."""
        size = len(encoded.data)
        state = self._topics.get(partition.topic) or self._topic(partition.topic)
        accumulator = self._accumulator
        with self._lock:
            self._raise_failure()
            if not accumulator.has_room(size) or self._sender.fatal is not None or self._closed:
                self._wait_for_room(size, time.monotonic() + self._max_block_s)
                self._raise_failure()
            if self._transactions is not None:
                self._transactions.call(TransactionManagerInput.SEND)
            queue = state.queues[partition.partition]
            batch = EncodedBatch(partition, encoded, self._now(), _Outcome(partition, self))
            accumulator.append_batch(queue, batch)
            self._sender.schedule()

    def deliver(self) -> None:
        """Wait until all batches are delivered; raise the first error."""
        self.flush()
        with self._lock:
            self._raise_failure()

    def on_error(self, partition: TopicPartition, error: SlackwaterError) -> None:
        """Remember the first error. Called on the network thread with the lock held."""
        if self.failure is None:
            self.failure = _explained(partition, error)

    def available_partitions(self, topic: str) -> tuple[int, list[int]]:
        """Return the number of partitions of a topic, and those that have a leader."""
        partitions = self._topic(topic).metadata.partitions
        available = [partition.index for partition in partitions if partition.leader >= 0]
        return len(partitions), available or list(range(len(partitions)))

    def resume_transactions(self, producer_id: int, epoch: int) -> None:
        """Continue with the producer id and epoch of an earlier process, instead of `init_transactions`.

        If another producer with this transactional id was initialized since, the next transaction is fenced.
        """
        assert self._transactions is not None
        self._network.run(self._refresh())  # the features of the cluster are known from its first response
        version = 2 if self._cluster.finalized_features.get(FEATURE, 0) >= 2 else 1
        with self._lock:
            self._transactions.call(TransactionManagerInput.INIT)
            self._transactions.on_initialized(ProducerIdAndEpoch(producer_id, epoch), version)

    @property
    def open_transaction(self) -> OpenTransaction:
        """What another process needs to end the open transaction."""
        assert self._transactions is not None
        manager = self._transactions
        return OpenTransaction(manager.transactional_id, *manager.producer, manager.transaction_version)

    def abandon(self) -> None:
        """Close the connections and leave an open transaction to another process."""
        self._closed = True
        self._maintenance.cancel()
        self._network.run(self._cluster.close())
        self._network.close()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


def _explained(partition: TopicPartition, error: SlackwaterError) -> SlackwaterError:
    code = getattr(error, "error", Error.NONE)
    if code in (Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE):
        return UsageError(
            f"A record for {partition.topic} is larger than the topic accepts (max.message.bytes): raise the limit of "
            "the topic, or write smaller records."
        )
    return error
