"""The two directions between the transaction coordinator and the logs of partitions.

The coordinator ends a transaction with a marker in each of its partitions (`MarkerWriter`). A partition asks the
coordinator whether it belongs to the transaction of a batch (`TransactionVerifier`).

Errors are those of Kafka's AddPartitionsToTxn and WriteTxnMarkers; the handlers translate them for their clients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition

OnPartitionErrors = Callable[[Mapping[TopicPartition, Error]], None]
"""Receives one error per partition; `Error.NONE` if it succeeded."""


@dataclass(frozen=True, slots=True)
class TxnMarkerEntry:
    """The markers that end a producer's transaction in these partitions, as in a WriteTxnMarkers request.

    Since transaction version 2 every transaction has an epoch of its own, and the marker's epoch is the next one.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = 0


class MarkerWriter(Protocol):
    """Writes markers to the logs of partitions."""

    def write(self, markers: Sequence[TxnMarkerEntry], on_written: OnPartitionErrors) -> None:
        """Write the markers at the end of the iteration; `on_written` gets the error of each partition.

        An append by this process that was requested earlier is written before the markers. The partitions of several
        markers of one call must differ.
        """
        ...


class TransactionVerifier(Protocol):
    """Knows the partitions of each transaction."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        on_result: OnPartitionErrors,
    ) -> None:
        """Add the partitions to the producer's ongoing transaction (`add`), or check that they belong to it.

        `on_result` gets the error of each partition, now or later, in the event loop.
        """
        ...
