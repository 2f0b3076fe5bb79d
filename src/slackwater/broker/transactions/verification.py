"""Asks the transaction coordinator about partitions before their first transactional batch (KIP-890).

Invariants:
- A partition in which the producer's transaction is open already is not asked about.
- The guard is created before the question: a marker that is written while the answer is pending makes it invalid.
- Clients get errors that their version handles: those before TRANSACTION_ABORTABLE get INVALID_TXN_STATE.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from slackwater.broker.storage.log.verification import VerificationGuard
from slackwater.broker.storage.topics import Partition
from slackwater.broker.transactions.interfaces import TransactionVerifier
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition


class BatchToVerify(NamedTuple):
    """A producer's batch for one partition, not verified yet; the sequence is -1 for offsets of a group."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    sequence: int


class ClientSupport(NamedTuple):
    """What a client's version of Produce or TxnOffsetCommit supports."""

    adds_partitions: bool  # transaction version 2: the request adds its partitions to the transaction
    handles_abortable: bool  # TRANSACTION_ABORTABLE


OnVerified = Callable[[Mapping[Partition, VerificationGuard | None], Mapping[Partition, Error]], None]
"""Receives the guards of the verified partitions (None: the transaction is open), and the errors of the others."""


def verify(
    transactions: TransactionVerifier,
    transactional_id: str,
    batches: Sequence[BatchToVerify],
    support: ClientSupport,
    wall_ms: int,
    on_verified: OnVerified,
) -> None:
    """Verify the batches of one producer; `on_verified` is called now or later."""
    guards: dict[Partition, VerificationGuard | None] = {}
    asked: dict[TopicPartition, Partition] = {}
    for partition, producer_id, epoch, sequence in batches:
        guard = partition.log.start_verification(
            producer_id, epoch, sequence, wall_ms, supports_epoch_bump=support.adds_partitions
        )
        guards[partition] = guard
        if guard is not None:
            asked[TopicPartition(partition.topic.name, partition.index)] = partition
    if not asked:
        on_verified(guards, {})
        return

    def on_result(results: Mapping[TopicPartition, Error]) -> None:
        errors = {
            asked[topic_partition]: _client_error(error, support)
            for topic_partition, error in results.items()
            if error is not Error.NONE
        }
        on_verified({key: guard for key, guard in guards.items() if key not in errors}, errors)

    _, producer_id, epoch, _ = batches[0]
    transactions.add_or_verify(
        transactional_id, producer_id, epoch, tuple(asked), add=support.adds_partitions, on_result=on_result
    )


_FENCED: Final = {Error.PRODUCER_FENCED: Error.INVALID_PRODUCER_EPOCH}


def _client_error(error: Error, support: ClientSupport) -> Error:
    if error is Error.TRANSACTION_ABORTABLE and not support.handles_abortable:
        return Error.INVALID_TXN_STATE
    return _FENCED.get(error, error)
