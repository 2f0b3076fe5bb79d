"""Writes transaction markers to the logs of partitions, and completes the offsets of groups.

Invariants:
- Markers are written at the end of an iteration, after its appends of producers and groups.
- A marker in a partition of `__consumer_offsets` commits or drops the offsets of its producer when it is durable.
- Waiting fetches with read_committed are checked after the write.
"""

from collections.abc import Callable, Sequence

from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import Partition, Topics
from slackwater.broker.transactions.interfaces import OnPartitionErrors, TransactionMarker
from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.markers import EndTransactionMarker

CompleteOffsets = Callable[[int, int, bool], None]
"""Called with the partition of the offsets topic, the producer id, and whether the transaction is committed."""


class PartitionMarkerWriter:
    """The markers of the current iteration."""

    def __init__(
        self,
        topics: Topics,
        durability: Durability,
        *,
        complete_offsets: CompleteOffsets,
        now_ms: Callable[[], int],
        schedule_flush: Callable[[], None],
    ) -> None:
        self._topics = topics
        self._durability = durability
        self._complete_offsets = complete_offsets
        self._now_ms = now_ms
        self._schedule_flush = schedule_flush
        self._pending: list[tuple[Sequence[TransactionMarker], OnPartitionErrors]] = []

    @property
    def has_pending(self) -> bool:
        """Whether `flush_pending` has something to do."""
        return bool(self._pending)

    def write(self, markers: Sequence[TransactionMarker], on_written: OnPartitionErrors) -> None:
        """Write the markers at the end of the iteration; see `MarkerWriter`."""
        if not self._pending:
            self._schedule_flush()
        self._pending.append((markers, on_written))

    def flush_pending(self) -> None:
        """Write everything."""
        pending, self._pending = self._pending, []
        for markers, on_written in pending:
            self._write(markers, on_written)

    def _write(self, markers: Sequence[TransactionMarker], on_written: OnPartitionErrors) -> None:
        errors: dict[TopicPartition, Error] = {}
        written: list[tuple[TransactionMarker, Partition]] = []
        for marker in markers:
            for at in marker.partitions:
                partition = self._topics.partition(at.topic, at.partition)
                if partition is None:
                    errors[at] = Error.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                errors[at] = error = self._append(partition.log, marker)
                if error is Error.NONE:
                    written.append((marker, partition))
                    partition.wake_waiters()

        def on_durable(failed: frozenset[PartitionLog]) -> None:
            for marker, partition in written:
                if partition.log in failed:
                    errors[TopicPartition(partition.topic.name, partition.index)] = Error.KAFKA_STORAGE_ERROR
                elif partition.topic.name == OFFSETS_TOPIC:
                    self._complete_offsets(partition.index, marker.producer_id, marker.is_commit)
            on_written(errors)

        self._durability.written([partition.log for _, partition in written], on_durable)

    def _append(self, log: PartitionLog, marker: TransactionMarker) -> Error:
        result = log.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            EndTransactionMarker(marker.is_commit, marker.coordinator_epoch),
            self._now_ms(),
            transaction_version=marker.transaction_version,
        )
        return result.error if isinstance(result, Rejection) else Error.NONE
