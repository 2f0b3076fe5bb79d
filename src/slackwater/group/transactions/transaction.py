"""One transactional id in the coordinator.

Invariants:
- `stored` changes only in `apply`, when its record is written or loaded.
- From the decision to write a record until its result, `pending_state` is the state that the record leads to.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from slackwater.group.coordinator.timers import Timer
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.records import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    StoredTransaction,
)
from slackwater.group.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NEXT_STATES,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
)

BUMPS_EPOCH_SINCE: Final = 2  # transaction version
FIRST_RETRY_MS: Final = 100
MAX_RETRY_MS: Final = 10_000
_RETRY_DOUBLINGS: Final = 7


class Transaction:
    """A transactional id, its producer, and its transaction."""

    __slots__ = (
        "attempts",
        "coordinator_epoch",
        "failed",
        "markers_id",
        "pending_state",
        "retry",
        "started_ms",
        "stored",
        "transactional_id",
        "unwritten",
    )

    def __init__(self, transactional_id: str, stored: StoredTransaction, coordinator_epoch: int) -> None:
        self.transactional_id = transactional_id
        self.stored = stored
        self.coordinator_epoch = coordinator_epoch
        self.pending_state: TransactionState | None = None
        self.started_ms = 0  # of the ongoing transaction, in the time of the timers
        self.unwritten: frozenset[TopicPartition] = frozenset()  # partitions without a marker
        self.failed: Mapping[TopicPartition, Error] = {}  # errors of the last attempt to write markers
        self.markers_id = 0  # of the attempt to write markers whose result is awaited; 0: none
        self.attempts = 0
        self.retry: Timer[object] = Timer(self)

    @property
    def state(self) -> TransactionState:
        """The written state."""
        return self.stored.state

    @property
    def is_busy(self) -> bool:
        """Whether a record is being written, or the markers of a prepared transaction."""
        return self.pending_state is not None or self.stored.state in PREPARED

    def apply(self, value: StoredTransaction) -> None:
        """Change the state to what is written."""
        assert value.state in NEXT_STATES[self.stored.state], f"{self.stored.state} -> {value.state}"
        self.stored = value
        self.pending_state = None
        self.attempts = 0
        self.failed = {}
        self.unwritten = value.partitions if value.state in PREPARED else frozenset()

    def next_retry_ms(self) -> int:
        """Return the time until the next attempt to write markers or the end."""
        delay_ms = min(FIRST_RETRY_MS << min(self.attempts, _RETRY_DOUBLINGS), MAX_RETRY_MS)
        self.attempts += 1
        return delay_ms

    # --- the next state of each decision ------------------------------------------------------------------------------

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, wall_ms: int) -> StoredTransaction | Error:
        """Return the state after InitProducerId; `expected_epoch` is that of a producer that continues (KIP-360)."""
        stored = self.stored
        epoch, last_epoch = stored.producer_epoch + 1, NO_EPOCH
        if expected_epoch is not None and stored.producer_epoch != NO_EPOCH:
            if expected_epoch == stored.producer_epoch:
                last_epoch = stored.producer_epoch
            elif expected_epoch == stored.last_producer_epoch:  # the same request again (TX-23)
                epoch, last_epoch = stored.producer_epoch, stored.last_producer_epoch
            else:
                return Error.PRODUCER_FENCED
        return self._initialized(stored.producer_id, epoch, last_epoch, timeout_ms, wall_ms)

    def with_new_producer_id(
        self, producer_id: int, timeout_ms: int, expected_epoch: int | None, wall_ms: int
    ) -> StoredTransaction:
        """Return the state after InitProducerId when the epochs of the producer id are used up (TX-26)."""
        last_epoch = NO_EPOCH if expected_epoch is None else self.stored.producer_epoch
        return self._initialized(producer_id, 0, last_epoch, timeout_ms, wall_ms)

    def _initialized(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, wall_ms: int
    ) -> StoredTransaction:
        return StoredTransaction(
            producer_id,
            epoch,
            timeout_ms,
            EMPTY,
            previous_producer_id=self.stored.producer_id,
            last_producer_epoch=last_epoch,
            update_timestamp_ms=wall_ms,
            client_version=self.stored.client_version,
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], client_version: int, wall_ms: int
    ) -> StoredTransaction:
        """Return the state after AddPartitionsToTxn."""
        stored = self.stored
        return replace(
            stored,
            state=ONGOING,
            previous_producer_id=stored.producer_id,
            partitions=stored.partitions | partitions,
            start_timestamp_ms=stored.start_timestamp_ms if stored.state is ONGOING else wall_ms,
            update_timestamp_ms=wall_ms,
            client_version=client_version,
        )

    def prepared(
        self, state: TransactionState, client_version: int, next_producer_id: int, wall_ms: int
    ) -> StoredTransaction:
        """Return the state after the decision to commit or abort."""
        stored = self.stored
        epoch, last_epoch = stored.producer_epoch, stored.last_producer_epoch
        if client_version >= BUMPS_EPOCH_SINCE:
            epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
        return replace(
            stored,
            state=state,
            previous_producer_id=stored.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            start_timestamp_ms=stored.start_timestamp_ms if stored.state is ONGOING else wall_ms,
            update_timestamp_ms=wall_ms,
            client_version=client_version,
        )

    def completed(self, wall_ms: int) -> StoredTransaction:
        """Return the state after the markers: without partitions, and with the next producer id if there is one."""
        stored = self.stored
        moves = stored.client_version >= BUMPS_EPOCH_SINCE and stored.next_producer_id != NO_PRODUCER_ID
        return replace(
            stored,
            state=COMPLETE_COMMIT if stored.state is PREPARE_COMMIT else COMPLETE_ABORT,
            previous_producer_id=stored.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_id=stored.next_producer_id if moves else stored.producer_id,
            producer_epoch=0 if moves else stored.producer_epoch,
            partitions=frozenset(),
            update_timestamp_ms=wall_ms,
        )


def new_transaction(
    transactional_id: str, producer_id: int, timeout_ms: int, coordinator_epoch: int, wall_ms: int
) -> Transaction:
    """Return a transactional id without an epoch; its first record has epoch 0."""
    stored = StoredTransaction(producer_id, NO_EPOCH, timeout_ms, EMPTY, update_timestamp_ms=wall_ms)
    return Transaction(transactional_id, stored, coordinator_epoch)


def is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    """Whether the transaction is open longer than its timeout (TX-45)."""
    stored = transaction.stored
    return stored.state is ONGOING and not transaction.is_busy and transaction.started_ms + stored.timeout_ms < now_ms


def has_expired(transaction: Transaction, expiration_ms: int, wall_ms: int) -> bool:
    """Whether the id was not used for a long time (TX-47)."""
    return transaction.stored.update_timestamp_ms <= wall_ms - expiration_ms


def duration_ms(transaction: Transaction, wall_ms: int) -> int:
    """Return the time since the start of the transaction; without one, since 1970, as in Kafka (TX-50)."""
    return wall_ms - transaction.stored.start_timestamp_ms
