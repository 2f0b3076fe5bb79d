"""InitProducerId, AddPartitionsToTxn and EndTxn (TX-21 … TX-43)."""

from typing import Final

from slackwater.group.errors import Error
from slackwater.group.transactions.collector import TransactionCollector
from slackwater.group.transactions.coordinator_state import WriteCallback
from slackwater.group.transactions.messages import (
    AddPartitions,
    AddPartitionsResponse,
    EndTransaction,
    EndTransactionResponse,
    InitProducerId,
    InitProducerIdResponse,
    VerifyPartitions,
    VerifyPartitionsResponse,
)
from slackwater.group.transactions.records import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    StoredTransaction,
)
from slackwater.group.transactions.states import TRANSITIONS, TransactionAction, TransactionInput
from slackwater.group.transactions.transaction import BUMPS_EPOCH_SINCE, Transaction, new_transaction
from slackwater.group.write_errors import transaction_response_error

LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1


# --- InitProducerId -------------------------------------------------------------------------------------------------


def init_producer_id(collector: TransactionCollector, request: InitProducerId, reply_to: object) -> None:
    """Give the producer an id and an epoch that no older producer has (TX-21)."""

    def reject(error: Error) -> None:
        collector.respond(reply_to, InitProducerIdResponse(error))

    state = collector.state
    if not request.transactional_id:
        return reject(Error.INVALID_REQUEST)
    if not 0 < request.timeout_ms <= state.config.transaction_max_timeout_ms:  # TX-22
        return reject(Error.INVALID_TRANSACTION_TIMEOUT)
    if (error := state.unavailable_error(request.transactional_id)) is not Error.NONE:
        return reject(error)
    transaction = state.transactions.get(request.transactional_id)
    if transaction is None:
        producer_id = state.allocate_producer_id()
        if producer_id is None:
            return reject(Error.COORDINATOR_NOT_AVAILABLE)
        epoch = state.partitions[state.partition_of(request.transactional_id)].epoch
        transaction = new_transaction(
            request.transactional_id, producer_id, request.timeout_ms, epoch, collector.wall_ms
        )
        state.transactions[request.transactional_id] = transaction
    if transaction.is_busy:  # TX-24
        return reject(Error.CONCURRENT_TRANSACTIONS)
    if not _may_continue(transaction.stored, request):
        return reject(Error.PRODUCER_FENCED)
    if TRANSITIONS[TransactionInput.INIT][transaction.state].action is TransactionAction.FENCE:

        def fenced(collector: TransactionCollector, error: Error) -> None:  # TX-25
            response = Error.CONCURRENT_TRANSACTIONS if error is Error.NONE else transaction_response_error(error)
            collector.respond(reply_to, InitProducerIdResponse(response))

        return fence(collector, transaction, TransactionInput.INIT, fenced)
    value = _initialized(collector, transaction, request)
    if isinstance(value, Error):
        return reject(value)

    def written(collector: TransactionCollector, error: Error) -> None:
        if error is Error.NONE:
            response = InitProducerIdResponse(error, value.producer_id, value.producer_epoch)
        else:
            response = InitProducerIdResponse(transaction_response_error(error))
        collector.respond(reply_to, response)

    return collector.append(transaction, value, TransactionInput.INIT, written)


def _may_continue(stored: StoredTransaction, request: InitProducerId) -> bool:
    """Whether the producer id of a producer that continues is the current one, or was until its last epoch (TX-23)."""
    return (
        request.producer_id == NO_PRODUCER_ID
        or stored.producer_epoch == NO_EPOCH
        or request.producer_id == stored.producer_id
        or (request.producer_id == stored.previous_producer_id and request.producer_epoch >= LAST_CLIENT_EPOCH)
    )


def _initialized(
    collector: TransactionCollector, transaction: Transaction, request: InitProducerId
) -> StoredTransaction | Error:
    expected_epoch = None if request.producer_id == NO_PRODUCER_ID else request.producer_epoch
    stored = transaction.stored
    if stored.is_epoch_exhausted and expected_epoch in (None, stored.producer_epoch):  # TX-26
        producer_id = collector.state.allocate_producer_id()
        if producer_id is None:
            return Error.COORDINATOR_NOT_AVAILABLE
        return transaction.with_new_producer_id(producer_id, request.timeout_ms, expected_epoch, collector.wall_ms)
    return transaction.with_next_epoch(request.timeout_ms, expected_epoch, collector.wall_ms)


# --- AddPartitionsToTxn ---------------------------------------------------------------------------------------------


def add_partitions(collector: TransactionCollector, request: AddPartitions, reply_to: object) -> None:
    """Add partitions to the transaction, or begin it (TX-30)."""
    transaction = _find(collector, request.transactional_id)
    if isinstance(transaction, Error):
        return collector.respond(reply_to, AddPartitionsResponse(transaction))
    stored = transaction.stored
    if transaction.is_busy:  # TX-31
        error = Error.CONCURRENT_TRANSACTIONS
    elif stored.producer_id != request.producer_id:
        error = Error.INVALID_PRODUCER_ID_MAPPING
    elif stored.producer_epoch != request.producer_epoch:
        error = Error.PRODUCER_FENCED
    else:
        error = Error.NONE
    transition = TRANSITIONS[TransactionInput.ADD][stored.state]
    if error is Error.NONE and transition.action is TransactionAction.REJECT:
        error = transition.error
    is_known = stored.state is transition.next_state and request.partitions <= stored.partitions  # TX-32
    if error is not Error.NONE or is_known:
        return collector.respond(reply_to, AddPartitionsResponse(error))

    def written(collector: TransactionCollector, error: Error) -> None:
        collector.respond(reply_to, AddPartitionsResponse(transaction_response_error(error)))

    value = transaction.with_partitions(request.partitions, request.client_version, collector.wall_ms)
    return collector.append(transaction, value, TransactionInput.ADD, written)


def verify_partitions(collector: TransactionCollector, request: VerifyPartitions, reply_to: object) -> None:
    """Return for each partition whether it belongs to the transaction (TX-33)."""
    transaction = _find(collector, request.transactional_id)
    if isinstance(transaction, Error):
        error = transaction
    elif transaction.stored.producer_id != request.producer_id:
        error = Error.INVALID_PRODUCER_ID_MAPPING
    elif transaction.stored.producer_epoch != request.producer_epoch:
        error = Error.PRODUCER_FENCED
    else:
        transition = TRANSITIONS[TransactionInput.VERIFY][transaction.state]
        if transition.action is TransactionAction.CHECK_PARTITIONS:
            partitions = transaction.stored.partitions
            errors = {
                topic_partition: Error.NONE if topic_partition in partitions else Error.TRANSACTION_ABORTABLE
                for topic_partition in request.partitions
            }
            return collector.respond(reply_to, VerifyPartitionsResponse(errors))
        error = transition.error
    return collector.respond(reply_to, VerifyPartitionsResponse(dict.fromkeys(request.partitions, error)))


# --- EndTxn ---------------------------------------------------------------------------------------------------------


def end_transaction(collector: TransactionCollector, request: EndTransaction, reply_to: object) -> None:
    """Decide to commit or abort; the response does not wait for the markers (TX-36)."""
    transaction = _find(collector, request.transactional_id)
    if isinstance(transaction, Error):
        return collector.respond(reply_to, EndTransactionResponse(transaction))
    stored = transaction.stored
    happened = _classify_with_bump(transaction, request) if request.bumps_epoch else _classify(transaction, request)
    if isinstance(happened, Error):
        return collector.respond(reply_to, EndTransactionResponse(happened))
    transition = TRANSITIONS[happened][stored.state]
    if transition.action is TransactionAction.REJECT:
        return collector.respond(reply_to, EndTransactionResponse(transition.error))
    if transition.action is TransactionAction.RESPOND:
        return collector.respond(reply_to, _ended(stored, request))
    assert transition.next_state is not None
    next_producer_id = _next_producer_id(collector, transaction) if request.bumps_epoch else NO_PRODUCER_ID
    if next_producer_id is None:
        return collector.respond(reply_to, EndTransactionResponse(Error.COORDINATOR_NOT_AVAILABLE))
    client_version = BUMPS_EPOCH_SINCE if request.bumps_epoch else 0
    value = transaction.prepared(transition.next_state, client_version, next_producer_id, collector.wall_ms)

    def written(collector: TransactionCollector, error: Error) -> None:
        if error is not Error.NONE:
            collector.respond(reply_to, EndTransactionResponse(transaction_response_error(error)))
            return
        collector.respond(reply_to, _ended(transaction.completed(collector.wall_ms), request))
        collector.write_markers(transaction)

    return collector.append(transaction, value, happened, written)


def _ended(stored: StoredTransaction, request: EndTransaction) -> EndTransactionResponse:
    if not request.bumps_epoch:
        return EndTransactionResponse(Error.NONE)
    return EndTransactionResponse(Error.NONE, stored.producer_id, stored.producer_epoch)


def _classify(transaction: Transaction, request: EndTransaction) -> TransactionInput | Error:
    """Return the input for transaction versions 0 and 1 (TX-38, TX-39)."""
    stored = transaction.stored
    if stored.producer_id != request.producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if stored.producer_epoch != request.producer_epoch:
        return Error.PRODUCER_FENCED
    if transaction.is_busy:
        return Error.CONCURRENT_TRANSACTIONS
    return TransactionInput.COMMIT if request.is_commit else TransactionInput.ABORT


def _classify_with_bump(transaction: Transaction, request: EndTransaction) -> TransactionInput | Error:
    """Return the input for transaction version 2, in which an older epoch means the same request again (TX-41)."""
    stored = transaction.stored
    if transaction.is_busy:
        return Error.CONCURRENT_TRANSACTIONS
    is_after_overflow = (
        stored.previous_producer_id == request.producer_id != stored.producer_id
        and request.producer_epoch == LAST_CLIENT_EPOCH
        and stored.producer_epoch == 0
    )
    if stored.producer_id != request.producer_id and not is_after_overflow:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if is_after_overflow or request.producer_epoch == stored.producer_epoch - 1:
        return TransactionInput.COMMIT_AGAIN if request.is_commit else TransactionInput.ABORT_AGAIN
    if request.producer_epoch != stored.producer_epoch:
        return Error.PRODUCER_FENCED
    return TransactionInput.COMMIT_V2 if request.is_commit else TransactionInput.ABORT_V2


# --- shared ---------------------------------------------------------------------------------------------------------


def fence(
    collector: TransactionCollector,
    transaction: Transaction,
    cause: TransactionInput,
    on_written: WriteCallback,
) -> None:
    """Abort the open transaction with the next epoch, so that its producer is fenced (TX-25, TX-45)."""
    next_state = TRANSITIONS[cause][transaction.state].next_state
    assert next_state is not None
    next_producer_id = _next_producer_id(collector, transaction)
    if next_producer_id is None:
        return on_written(collector, Error.COORDINATOR_NOT_AVAILABLE)

    def written(collector: TransactionCollector, error: Error) -> None:
        on_written(collector, error)
        if error is Error.NONE:
            collector.write_markers(transaction)

    value = transaction.prepared(next_state, BUMPS_EPOCH_SINCE, next_producer_id, collector.wall_ms)
    return collector.append(transaction, value, cause, written)


def _next_producer_id(collector: TransactionCollector, transaction: Transaction) -> int | None:
    """Allocate the id of the next transaction if this one takes the last epoch; None if there is none (TX-43)."""
    return collector.state.allocate_producer_id() if transaction.stored.is_epoch_exhausted else NO_PRODUCER_ID


def _find(collector: TransactionCollector, transactional_id: str) -> Transaction | Error:
    """Return the id, or why there is none."""
    if not transactional_id:
        return Error.INVALID_REQUEST
    if (error := collector.state.unavailable_error(transactional_id)) is not Error.NONE:
        return error
    return collector.state.transactions.get(transactional_id) or Error.INVALID_PRODUCER_ID_MAPPING
