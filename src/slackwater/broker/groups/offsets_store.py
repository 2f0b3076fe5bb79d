"""`__consumer_offsets` on disk: the coordinator's store on top of the partition logs.

Invariants:
- The topic is created on first use, as in Kafka; before that there is nothing to read. If the disk has no room for it,
  the write fails and the next one tries again.
- The records of one event loop iteration for one partition are one batch, all or none.
- Records of a transaction are a batch of their own, with the producer id and epoch; the log checks both.
- Reading returns all records and markers in order. Compaction may have removed older records of a key. Damaged parts of
  a segment are skipped, and the log says which offsets are lost: the broker starts with what can be read.
- Offsets of a transaction whose marker is lost are dropped. Otherwise they would be pending forever, and consumers that
  fetch stable offsets would wait forever.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, cast

from slackwater.broker.groups.coordinator_shell import KeyValue, StoredMarker, StoredRecord
from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.partition_log import AppendOrigin, PartitionLog
from slackwater.broker.storage.log.salvage import LostRange, read_valid_batches
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.log.verification import VerificationGuard
from slackwater.broker.storage.topics import Topic, Topics
from slackwater.escaping import get_logger
from slackwater.group.coordinator import ProducerTransaction
from slackwater.group.errors import BrokerError, Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import RecordBatch
from slackwater.wire.records.markers import decode_marker
from slackwater.wire.records.record import BatchBuilder, decode_records

log = get_logger("slackwater.broker.offsets")
_CONSEQUENCE: Final = (
    "Some groups may have old or no committed offsets and members: check them with `slackwater groups` before you "
    "start consumers."
)


class OffsetsTopicStore:
    """Stores the coordinator's records in the partitions of `__consumer_offsets`."""

    def __init__(
        self, topics: Topics, durability: Durability, *, create: Callable[[], Topic], wall_ms: Callable[[], int]
    ) -> None:
        self._topics = topics
        self._durability = durability
        self._create = create
        self._wall_ms = wall_ms

    def read(self, partition: int) -> Iterable[StoredRecord | StoredMarker]:
        """Return all records and markers of a partition, in order."""
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None:
            return
        stored = topic.partitions[partition].log
        has_loss = False
        pending: set[int] = set()  # producers with offsets and no marker after them
        for batch in read_valid_batches(stored):
            if isinstance(batch, LostRange):
                has_loss = True
                log.error("%s-%d has lost records. %s Lost: %s.", OFFSETS_TOPIC, partition, _CONSEQUENCE, batch)
            elif batch.last_offset >= stored.log_start_offset:
                if batch.is_control:
                    pending.discard(batch.producer_id)
                elif batch.is_transactional:
                    pending.add(batch.producer_id)
                yield from _records(batch, partition)
        if has_loss:
            for producer_id in sorted(pending.difference(stored.producers.open_transactions.values())):
                yield StoredMarker(producer_id, is_commit=False)

    def write(
        self,
        records: Mapping[int, list[KeyValue]],
        on_written: Callable[[Mapping[int, Error]], None],
        transaction: ProducerTransaction | None = None,
    ) -> None:
        """Write records by partition; `on_written` gets the error of each partition."""
        try:
            topic = self._topics.get(OFFSETS_TOPIC) or self._create()
        except (OSError, BrokerError) as error:
            log.warning("Cannot create %s: %s", OFFSETS_TOPIC, error)
            failed_writes = dict.fromkeys(records, Error.KAFKA_STORAGE_ERROR)
            self._durability.call_when_durable(
                (), lambda _failed: on_written(failed_writes)
            )  # after all earlier writes
            return
        wall_ms = self._wall_ms()
        errors: dict[int, Error] = {}
        logs: dict[int, PartitionLog] = {}
        for index, pairs in records.items():
            partition = topic.partitions[index]
            batch = BatchBuilder()
            batch.extend(pairs, wall_ms)
            if transaction is None:
                result = partition.log.append(batch.build(), wall_ms, AppendOrigin.COORDINATOR)
            else:
                data = batch.build(
                    transactional=True,
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                )
                guard = cast("VerificationGuard | None", transaction.verification)
                result = partition.log.append(data, wall_ms, AppendOrigin.COORDINATOR, guard)
            if isinstance(result, Rejection):
                errors[index] = result.error
            else:
                logs[index] = partition.log
                partition.wake_waiters()

        def on_durable(failed: frozenset[PartitionLog]) -> None:
            for index, partition_log in logs.items():
                errors[index] = Error.KAFKA_STORAGE_ERROR if partition_log in failed else Error.NONE
            on_written(errors)

        self._durability.call_when_durable(logs.values(), on_durable)


def _records(batch: RecordBatch, partition: int) -> Iterator[StoredRecord | StoredMarker]:
    try:
        if batch.is_control:
            if (marker := decode_marker(batch)) is not None:
                yield StoredMarker(batch.producer_id, marker.is_commit)
            return
        producer_id = batch.producer_id if batch.is_transactional else None
        for record in decode_records(batch):
            if record.key is not None:
                yield record.key, record.value, producer_id
    except WireError as error:  # the checksum is valid: the batch was written like this
        log.error("%s-%d has a batch that cannot be decoded. %s %s", OFFSETS_TOPIC, partition, _CONSEQUENCE, error)
