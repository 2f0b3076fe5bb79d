"""The record of a transactional id: the coordinator's hard state, which survives a restart.

The shell encodes it; the format of `__transaction_state` is in `wire/internal_topics`.

Invariants:
- A record with `value=None` is a tombstone. The last record of an id wins.
"""

from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.states import TransactionState
from slackwater.group.value_class import value_class

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
MAX_EPOCH = 32_767  # of a marker; a producer gets at most one less, so that it can always be fenced (TX-26)


@value_class
class StoredTransaction:
    """A transactional id's producer and transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID  # of a prepared transaction that uses the last epoch (TX-43)
    last_producer_epoch: int = NO_EPOCH  # not written: a restart forgets it, as in Kafka (TX-23)
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIME
    update_timestamp_ms: int = NO_TIME
    client_version: int = 0  # the transaction version of the client

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer id has no further epoch for a producer."""
        return self.producer_epoch >= MAX_EPOCH - 1


@value_class
class TransactionRecord:
    """The state of a transactional id; a tombstone when the id expired."""

    transactional_id: str
    value: StoredTransaction | None
