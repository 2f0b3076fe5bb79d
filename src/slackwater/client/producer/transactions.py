"""The transaction manager: the state of a transactional producer, without input and output.

Invariants:
- The state changes only by the table in `transaction_states`.
- With transaction version 1 a partition receives no batch before AddPartitionsToTxn has added it. With version 2
  (KIP-890) Produce v12 and TxnOffsetCommit v5 add partitions and groups, and EndTxn v5 returns the next epoch.
- A batch with a sequence that was dropped leaves a gap. Version 2 starts every transaction with sequence 0, under its
  own epoch; with version 1 the next transaction gets a new epoch from InitProducerId (KIP-360).
- All methods are called with the producer's lock held.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from slackwater.client.errors import UnsupportedVersionError
from slackwater.client.producer.accumulator import NO_PRODUCER, ProducerIdAndEpoch
from slackwater.client.producer.transaction_errors import (
    AbortableTransactionError,
    FatalTransactionError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
)
from slackwater.client.producer.transaction_states import (
    REMEDIES,
    TRANSITIONS,
    TransactionManagerInput,
    TransactionManagerState,
)
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition

_OTHER_OWNER: Final = (
    "the offsets were not added to the transaction because this consumer is no longer the member of the group that it "
    "was; the new owners of its partitions read their records again"
)
# Why the cluster rejected the transaction; it can be aborted. The texts about ACLs have fields.
ABORTABLE: Final[Mapping[Error, str]] = {
    Error.TRANSACTION_ABORTABLE: "the cluster rejected the transaction",
    Error.TOPIC_AUTHORIZATION_FAILED: "{principal} needs an ACL for {operation} on each topic",
    Error.GROUP_AUTHORIZATION_FAILED: "{principal} needs an ACL for Read on the group",
    Error.OPERATION_NOT_ATTEMPTED: "another partition of the transaction was rejected",
    Error.UNKNOWN_PRODUCER_ID: "the cluster has no state of this producer",
    Error.OFFSET_METADATA_TOO_LARGE: "the metadata of an offset is longer than offset.metadata.max.bytes",
    Error.INVALID_COMMIT_OFFSET_SIZE: "the offsets are too large for one record",
    Error.REBALANCE_IN_PROGRESS: _OTHER_OWNER,
    Error.ILLEGAL_GENERATION: _OTHER_OWNER,
    Error.UNKNOWN_MEMBER_ID: _OTHER_OWNER,
    Error.STALE_MEMBER_EPOCH: _OTHER_OWNER,
    Error.FENCED_MEMBER_EPOCH: _OTHER_OWNER,
    Error.FENCED_INSTANCE_ID: "another process uses the group.instance.id of this consumer",
}
FENCED: Final = frozenset({Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_EPOCH})
FATAL: Final[Mapping[Error, str]] = {
    Error.INVALID_PRODUCER_ID_MAPPING: (
        "the cluster does not know this transactional.id any more; it was not used for transactional.id.expiration.ms"
    ),
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "{principal} needs an ACL for Write on transactional id {id}",
    Error.CLUSTER_AUTHORIZATION_FAILED: "transactions are not authorized or not supported",
    Error.INVALID_TRANSACTION_TIMEOUT: (
        "transaction.timeout.ms is above the broker's transaction.max.timeout.ms; use a smaller value"
    ),
    Error.INVALID_TXN_STATE: "the transaction's state in the cluster does not allow it",
    Error.UNSUPPORTED_VERSION: "the broker does not support this version of the request",
}
# Errors of a batch that no later transaction of this producer can avoid.
_FATAL_FOR_BATCHES: Final = frozenset(
    {
        Error.PRODUCER_FENCED,
        Error.CLUSTER_AUTHORIZATION_FAILED,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Error.INVALID_PRODUCER_ID_MAPPING,
        Error.UNSUPPORTED_VERSION,
    }
)
ERROR_STATES: Final = frozenset({TransactionManagerState.ABORTABLE_ERROR, TransactionManagerState.FATAL_ERROR})
_IS_OPEN: Final = frozenset(
    {
        TransactionManagerState.IN_TRANSACTION,
        TransactionManagerState.COMMITTING,
        TransactionManagerState.ABORTING,
        TransactionManagerState.ABORTABLE_ERROR,
    }
)


class TransactionManager:
    """The transactions of one producer."""

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.state = TransactionManagerState.UNINITIALIZED
        self.error: TransactionError | None = None  # in an error state
        self.producer = NO_PRODUCER
        self.transaction_version = 1  # of the open transaction
        self.may_exist_at_coordinator = False
        self.needs_new_epoch = False
        self.groups: set[str] = set()  # in the transaction
        self.new_partitions: set[TopicPartition] = set()  # to be added
        self._partitions: set[TopicPartition] = set()  # in the transaction

    # --- calls of the application -------------------------------------------------------------------------------------

    def call(self, call: TransactionManagerInput) -> None:
        """Check a call of the application and change the state; raise if the state does not allow it."""
        if call not in TRANSITIONS[self.state]:
            if self.error is not None and self.state in ERROR_STATES:
                raise self.error
            remedy = REMEDIES[self.state]
            if call is TransactionManagerInput.INIT:
                remedy = "A producer calls it once."
            raise UsageError(f"{call.value} is not possible in the state {self.state.value}. {remedy}")
        self._step(call)
        if call is TransactionManagerInput.ABORT:
            self.new_partitions.clear()

    @property
    def is_open(self) -> bool:
        """Whether a transaction was begun and has not ended."""
        return self.state in _IS_OPEN

    # --- batches ------------------------------------------------------------------------------------------------------

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether the partition is in the transaction; if not, it is added with the next request."""
        if partition not in self._partitions:
            if self.transaction_version == 1:
                self.new_partitions.add(partition)
                return False
            self._partitions.add(partition)
            self.may_exist_at_coordinator = True
        return True

    @property
    def drop_error(self) -> TransactionAbortedError | None:
        """The error of batches that must not be sent any more; None if they may be sent."""
        if self.state is not TransactionManagerState.ABORTING and self.state not in ERROR_STATES:
            return None
        cause = f": {self.error}" if self.error is not None else "."
        return TransactionAbortedError(f"The record was not written because its transaction is aborted{cause}")

    def on_batch_failed(self, error: SlackwaterError, *, has_sequence: bool) -> None:
        """A batch was not written: the transaction cannot be committed."""
        self.needs_new_epoch |= has_sequence
        code = error.error if isinstance(error, BrokerError) else Error.NONE
        reason = f"A record could not be written ({str(error).rstrip('.')})."
        if code is Error.PRODUCER_FENCED:
            self.fail(self._fenced(code))
        elif code in _FATAL_FOR_BATCHES or isinstance(error, UnsupportedVersionError):
            self.fail(FatalTransactionError(f"{reason} Close this producer.", code))
        elif not isinstance(error, TransactionAbortedError):
            self.fail(AbortableTransactionError(f"{reason} Abort the transaction.", code))

    # --- responses ----------------------------------------------------------------------------------------------------

    def on_initialized(self, producer: ProducerIdAndEpoch, transaction_version: int) -> None:
        """Use this producer id and epoch."""
        self.producer, self.transaction_version = producer, transaction_version
        self._step(TransactionManagerInput.INITIALIZED)

    def on_partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are in the transaction."""
        self._partitions.update(partitions)
        self.may_exist_at_coordinator = True

    def on_ended(self, producer: ProducerIdAndEpoch, transaction_version: int) -> None:
        """The transaction has ended; the next one has this producer id, epoch and version."""
        self.producer, self.transaction_version = producer, transaction_version
        self.error, self.may_exist_at_coordinator, self.needs_new_epoch = None, False, False
        self._partitions.clear()
        self.new_partitions.clear()
        self.groups.clear()
        self._step(TransactionManagerInput.ENDED)

    def error_of(
        self, request: str, error: Error, message: str = "", *, principal: str = "this client"
    ) -> TransactionError:
        """Return the exception for an error that a retry does not solve; `message` is the broker's.

        `principal` is the one that an error about a missing ACL names.
        """
        if error in FENCED:
            return self._fenced(error)
        acl = {
            "principal": principal,
            "operation": "Read" if request == "TxnOffsetCommit" else "Write",
            "id": self.transactional_id,
        }
        reason = ABORTABLE[error].format_map(acl) if error in ABORTABLE else None
        if (
            error is Error.INVALID_TXN_STATE
            and self.transaction_version == 2
            and self.state is TransactionManagerState.COMMITTING
        ):
            # The coordinator has aborted it, and accepts an abort of the same epoch as a repetition (KIP-890).
            reason = f"the transaction took longer than transaction.timeout.ms = {self.timeout_ms} and was aborted"
        if reason is not None:
            message = f"{request} failed: {reason} ({error.name}). Abort the transaction."
            return AbortableTransactionError(message, error)
        fatal = FATAL.get(error, "an unexpected error").format_map(acl)
        message = message or f"{request} failed: {fatal} ({error.name})."
        return FatalTransactionError(message, error)

    def fail(self, error: TransactionError) -> None:
        """Enter the state of this error. A fatal error and the cause of an abortable one are kept."""
        is_fatal = isinstance(error, FatalTransactionError)
        if self.state is TransactionManagerState.FATAL_ERROR:
            return
        if is_fatal or self.error is None:
            self.error = error
        self._step(TransactionManagerInput.FATAL if is_fatal else TransactionManagerInput.ABORTABLE)

    def _fenced(self, error: Error) -> ProducerFencedError:
        return ProducerFencedError(
            f"A newer producer uses transactional.id {self.transactional_id!r}, or the transaction took longer than "
            f"transaction.timeout.ms = {self.timeout_ms} and was aborted ({error.name}). Close this producer.",
            error,
        )

    def _step(self, happened: TransactionManagerInput) -> None:
        self.state = TRANSITIONS[self.state][happened]
