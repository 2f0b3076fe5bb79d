"""`__transaction_state` on disk: the transaction coordinator's store on top of the partition logs.

Invariants:
- FindCoordinator creates the topic, as in Kafka; before that there is nothing to read and nothing is written.
- The records of one event loop iteration for one partition are one batch, all or none.
- Reading returns all records in order. Damaged parts of a segment are skipped, and the log says which offsets are lost.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.partition_log import AppendOrigin, PartitionLog
from slackwater.broker.storage.log.salvage import LostRange, read_valid_batches
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import Topics
from slackwater.broker.transactions.transaction_records import decode_record, encode_record
from slackwater.escaping import get_logger
from slackwater.group.errors import Error
from slackwater.group.internal_topics import TRANSACTIONS_TOPIC
from slackwater.group.transactions import TransactionRecord
from slackwater.wire.errors import WireError
from slackwater.wire.records.record import BatchBuilder, decode_records

log = get_logger("slackwater.broker.transactions")
OnWritten = Callable[[Mapping[int, Error]], None]
_CONSEQUENCE: Final = (
    "Some producers may have an old epoch, and open transactions may be unknown: restart the transactional producers, "
    "and look for open transactions with `kafka-transactions.sh find-hanging`."
)


class TransactionsStore(Protocol):
    """Stores the records of the partitions of `__transaction_state`."""

    def partition_count(self) -> int | None:
        """Return the number of partitions, or None if the topic does not exist."""
        ...

    def read(self, partition: int) -> Iterable[TransactionRecord]:
        """Return all records of a partition, in order."""
        ...

    def write(self, records: Mapping[int, list[TransactionRecord]], on_written: OnWritten) -> None:
        """Write records by partition, each all or none; `on_written` gets the errors, in the order of the writes."""
        ...


class TransactionsTopicStore:
    """The `TransactionsStore` of a broker."""

    def __init__(self, topics: Topics, durability: Durability, *, wall_ms: Callable[[], int]) -> None:
        self._topics = topics
        self._durability = durability
        self._wall_ms = wall_ms

    def partition_count(self) -> int | None:
        """Return the number of partitions, or None if the topic does not exist."""
        topic = self._topics.get(TRANSACTIONS_TOPIC)
        return None if topic is None else len(topic.partitions)

    def read(self, partition: int) -> Iterable[TransactionRecord]:
        """Return all records of a partition, in order."""
        stored = self._topics.partition(TRANSACTIONS_TOPIC, partition)
        if stored is None:
            return
        for batch in read_valid_batches(stored.log):
            if isinstance(batch, LostRange):
                _log_loss(partition, str(batch))
            elif batch.last_offset >= stored.log.log_start_offset:
                try:
                    for record in decode_records(batch):
                        decoded = None if record.key is None else decode_record(record.key, record.value)
                        if decoded is not None:
                            yield decoded
                except WireError as error:
                    _log_loss(partition, str(error))

    def write(self, records: Mapping[int, list[TransactionRecord]], on_written: OnWritten) -> None:
        """Write records by partition; `on_written` gets the error of each partition."""
        wall_ms = self._wall_ms()
        errors: dict[int, Error] = {}
        logs: dict[int, PartitionLog] = {}
        for index, of_partition in records.items():
            partition = self._topics.partition(TRANSACTIONS_TOPIC, index)
            if partition is None:
                errors[index] = Error.NOT_LEADER_OR_FOLLOWER
                continue
            batch = BatchBuilder()
            batch.extend([encode_record(record) for record in of_partition], wall_ms)
            result = partition.log.append(batch.build(), wall_ms, AppendOrigin.COORDINATOR)
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


def _log_loss(partition: int, reason: str) -> None:
    log.error("%s-%d has lost records. %s Lost: %s.", TRANSACTIONS_TOPIC, partition, _CONSEQUENCE, reason.rstrip("."))
