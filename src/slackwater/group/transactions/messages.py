"""Requests to the transaction coordinator and its responses.

Invariants:
- There are no API versions. A difference between versions is a named field (`bumps_epoch`), which the handler sets.
"""

from collections.abc import Callable

from slackwater.group.errors import Error
from slackwater.group.message import message
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.records import NO_EPOCH, NO_PRODUCER_ID, NO_TIME
from slackwater.group.transactions.states import TransactionState


@message
class InitProducerId:
    """Get a producer id and epoch, and fence older producers with the same transactional id."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID  # set by a producer that continues after an error (KIP-360)
    producer_epoch: int = NO_EPOCH


@message
class InitProducerIdResponse:
    """The producer id and epoch to use."""

    error: Error
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@message
class AddPartitions:
    """Add partitions to the transaction; the first ones begin it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0


@message
class AddPartitionsResponse:
    """One result for all partitions."""

    error: Error


@message
class VerifyPartitions:
    """Ask whether partitions belong to the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@message
class VerifyPartitionsResponse:
    """NONE for a partition that belongs to the transaction."""

    errors: dict[TopicPartition, Error]


@message
class EndTransaction:
    """Commit or abort the transaction; `bumps_epoch`: the next transaction has the next epoch (EndTxn v5+)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    bumps_epoch: bool = False


@message
class EndTransactionResponse:
    """The result, and with `bumps_epoch` the producer id and epoch of the next transaction."""

    error: Error
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@message
class DescribeTransactions:
    """Describe the transactions of these ids."""

    transactional_ids: tuple[str, ...]


@message
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


@message
class DescribeTransactionsResponse:
    """One entry for each requested id."""

    transactions: tuple[DescribedTransaction, ...]


@message
class ListTransactions:
    """List the transactional ids that match every filter."""

    states: frozenset[TransactionState] | None = None
    producer_ids: frozenset[int] | None = None
    longer_than_ms: int = -1  # below 0: any duration
    matches_id: Callable[[str], bool] | None = None


@message
class ListedTransaction:
    """A transactional id, its producer and its state."""

    transactional_id: str
    producer_id: int
    state: TransactionState


@message
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
