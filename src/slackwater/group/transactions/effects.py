"""The effects the transaction coordinator returns, to be executed in order.

Invariants:
- The shell executes effects in the given order, so a response never leaves before the record it depends on is written.
- Every `AppendTransactionRecords` is followed by one `on_append_result`, every `WriteMarkers` by one
  `on_markers_written`.
"""

from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.messages import TransactionResponse
from slackwater.group.transactions.records import TransactionRecord
from slackwater.group.transactions.states import TransactionInput, TransactionState
from slackwater.group.value_class import value_class


@value_class
class AppendTransactionRecords:
    """Append these records, all or none, to a partition of the topic of transactions."""

    write_id: int
    partition: int
    records: tuple[TransactionRecord, ...]


@value_class
class SendTransactionResponse:
    """Send a response; `reply_to` is the opaque handle that the shell passed with the request."""

    reply_to: object
    response: TransactionResponse


@value_class
class WriteMarkers:
    """Write the end of a transaction to each of these partitions: an `EndTransactionMarker` in a control batch."""

    markers_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


@value_class
class TransactionEvent:
    """A transactional id has changed its state."""

    time_ms: int
    transactional_id: str
    cause: TransactionInput
    before: TransactionState
    after: TransactionState
    producer_id: int
    producer_epoch: int


TransactionEffect = AppendTransactionRecords | SendTransactionResponse | WriteMarkers | TransactionEvent
