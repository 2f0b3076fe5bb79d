"""Writes transaction markers to the logs of partitions, and completes the offsets of groups.

Invariants:
- Markers are written at the end of an iteration, after its appends of producers and groups, in the order of the calls.
- One iteration writes at most `MAX_MARKERS`: a transaction with thousands of partitions delays no other client.
- A marker in a partition of `__consumer_offsets` commits or drops the offsets of its producer when it is durable.
- Waiting fetches with read_committed are checked after the write.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import Partition, Topics
from slackwater.broker.transactions.interfaces import OnPartitionErrors, TxnMarkerEntry
from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.markers import EndTransactionMarker

CompleteTransaction = Callable[[int, int, bool], None]
"""Called with the partition of the offsets topic, the producer id, and whether the transaction is committed."""
MAX_MARKERS: Final = 250  # they take about 20 ms


class _PendingMarkers:
    """The markers of one call: those that are not written yet, and the results of the others."""

    __slots__ = ("errors", "on_written", "unwritten", "written")

    def __init__(self, markers: Sequence[TxnMarkerEntry], on_written: OnPartitionErrors) -> None:
        self.unwritten: Iterator[tuple[TxnMarkerEntry, TopicPartition]] = (
            (marker, topic_partition) for marker in markers for topic_partition in marker.partitions
        )
        self.on_written = on_written
        self.errors: dict[TopicPartition, Error] = {}
        self.written: list[tuple[TxnMarkerEntry, Partition]] = []


class PartitionMarkerWriter:
    """The markers that are not written yet."""

    def __init__(
        self,
        topics: Topics,
        durability: Durability,
        *,
        complete_transaction: CompleteTransaction,
        wall_ms: Callable[[], int],
        schedule_end_of_iteration: Callable[[], None],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._topics = topics
        self._durability = durability
        self._complete_transaction = complete_transaction
        self._wall_ms = wall_ms
        self._schedule_end_of_iteration = schedule_end_of_iteration
        self._call_later = call_later
        self._pending: deque[_PendingMarkers] = deque()
        self._is_deferred = False  # to the next iteration

    @property
    def has_pending(self) -> bool:
        """Whether `write_pending` has something to do in this iteration."""
        return bool(self._pending) and not self._is_deferred

    def write(self, markers: Sequence[TxnMarkerEntry], on_written: OnPartitionErrors) -> None:
        """Write the markers at the end of the iteration; see `MarkerWriter`."""
        if not self._pending:
            self._schedule_end_of_iteration()
        self._pending.append(_PendingMarkers(markers, on_written))

    def write_pending(self) -> None:
        """Write the markers of this iteration."""
        left = MAX_MARKERS
        while self.has_pending:
            pending = self._pending[0]
            count = 0
            for marker, topic_partition in islice(pending.unwritten, left):
                self._write(pending, marker, topic_partition)
                count += 1
            left -= count
            if not left:
                self._is_deferred = True
                self._call_later(0, self._continue)
                return
            self._pending.popleft()
            self._complete(pending)

    def _continue(self) -> None:
        self._is_deferred = False
        self._schedule_end_of_iteration()

    def _write(self, pending: _PendingMarkers, marker: TxnMarkerEntry, topic_partition: TopicPartition) -> None:
        partition = self._topics.partition(topic_partition.topic, topic_partition.partition)
        if partition is None:
            pending.errors[topic_partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
            return
        pending.errors[topic_partition] = error = self._append(partition.log, marker)
        if error is Error.NONE:
            pending.written.append((marker, partition))
            partition.wake_waiters()

    def _complete(self, pending: _PendingMarkers) -> None:
        def on_durable(failed: frozenset[PartitionLog]) -> None:
            for marker, partition in pending.written:
                if partition.log in failed:
                    pending.errors[TopicPartition(partition.topic.name, partition.index)] = Error.KAFKA_STORAGE_ERROR
                elif partition.topic.name == OFFSETS_TOPIC:
                    self._complete_transaction(partition.index, marker.producer_id, marker.is_commit)
            pending.on_written(pending.errors)

        self._durability.call_when_durable([partition.log for _, partition in pending.written], on_durable)

    def _append(self, log: PartitionLog, marker: TxnMarkerEntry) -> Error:
        result = log.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            EndTransactionMarker(marker.is_commit, marker.coordinator_epoch),
            self._wall_ms(),
            transaction_version=marker.transaction_version,
        )
        return result.error if isinstance(result, Rejection) else Error.NONE
