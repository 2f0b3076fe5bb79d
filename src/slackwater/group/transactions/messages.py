"""Requests to the transaction coordinator and its responses.

Invariants:
- There are no API versions. A difference between versions is a named field (`bumps_epoch`), which the handler sets.
"""

from collections.abc import Callable

from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.records import NO_EPOCH, NO_PRODUCER_ID, NO_TIME
from slackwater.group.transactions.states import TransactionState
from slackwater.group.value_class import value_class


@value_class
class InitProducerId:
    """Get a producer id and epoch, and fence older producers with the same transactional id."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID  # set by a producer that continues after an error (KIP-360)
    producer_epoch: int = NO_EPOCH


@value_class
class InitProducerIdResponse:
    """The producer id and epoch to use."""

    error: Error
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@value_class
class AddPartitions:
    """Add partitions to the transaction; the first ones begin it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0


@value_class
class AddPartitionsResponse:
    """One result for all partitions."""

    error: Error


@value_class
class VerifyPartitions:
    """Ask whether partitions belong to the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@value_class
class VerifyPartitionsResponse:
    """NONE for a partition that belongs to the transaction."""

    errors: dict[TopicPartition, Error]


@value_class
class EndTransaction:
    """Commit or abort the transaction; `bumps_epoch`: the next transaction has the next epoch (EndTxn v5+)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    bumps_epoch: bool = False


@value_class
class EndTransactionResponse:
    """The result, and with `bumps_epoch` the producer id and epoch of the next transaction."""

    error: Error
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@value_class
class DescribeTransactions:
    """Describe the transactions of these ids."""

    transactional_ids: tuple[str, ...]


@value_class
class DescribedTransaction:
    """A transactional id's transaction, or an error."""

    transactional_id: str
    error: Error
    state: TransactionState | None = None
    timeout_ms: int = 0
    start_timestamp_ms: int = NO_TIME
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()


@value_class
class DescribeTransactionsResponse:
    """One entry for each requested id."""

    transactions: tuple[DescribedTransaction, ...]


@value_class
class ListTransactions:
    """List the transactional ids that match every filter."""

    states: frozenset[TransactionState] | None = None
    producer_ids: frozenset[int] | None = None
    longer_than_ms: int = -1  # below 0: any duration
    matches_id: Callable[[str], bool] | None = None


@value_class
class ListedTransaction:
    """A transactional id, its producer and its state."""

    transactional_id: str
    producer_id: int
    state: TransactionState


@value_class
class ListTransactionsResponse:
    """The matching ids."""

    error: Error
    transactions: tuple[ListedTransaction, ...] = ()


TransactionRequest = (
    InitProducerId | AddPartitions | VerifyPartitions | EndTransaction | DescribeTransactions | ListTransactions
)
TransactionResponse = (
    InitProducerIdResponse
    | AddPartitionsResponse
    | VerifyPartitionsResponse
    | EndTransactionResponse
    | DescribeTransactionsResponse
    | ListTransactionsResponse
)
