"""DescribeTransactions and ListTransactions (TX-49, TX-50)."""

from slackwater.group.errors import Error
from slackwater.group.transactions.collector import TransactionCollector
from slackwater.group.transactions.messages import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactions,
    ListTransactionsResponse,
)
from slackwater.group.transactions.states import DEAD
from slackwater.group.transactions.transaction import Transaction, duration_ms


def describe_transactions(collector: TransactionCollector, request: DescribeTransactions, reply_to: object) -> None:
    """Describe the transactions of ids."""
    described = tuple(_describe(collector, transactional_id) for transactional_id in request.transactional_ids)
    collector.respond(reply_to, DescribeTransactionsResponse(described))


def _describe(collector: TransactionCollector, transactional_id: str) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(transactional_id, Error.INVALID_REQUEST)
    if (error := collector.state.unavailable_error(transactional_id)) is not Error.NONE:
        return DescribedTransaction(transactional_id, error)
    transaction = collector.state.transactions.get(transactional_id)
    if transaction is None or transaction.pending_state is DEAD:
        return DescribedTransaction(transactional_id, Error.TRANSACTIONAL_ID_NOT_FOUND)
    stored = transaction.stored
    return DescribedTransaction(
        transactional_id,
        Error.NONE,
        stored.state,
        stored.timeout_ms,
        stored.start_timestamp_ms,
        stored.producer_id,
        stored.producer_epoch,
        tuple(sorted(transaction.unwritten or stored.partitions)),
    )


def list_transactions(collector: TransactionCollector, request: ListTransactions, reply_to: object) -> None:
    """List the ids that match every filter."""
    state = collector.state
    if any(partition.loading for partition in state.partitions.values()):
        collector.respond(reply_to, ListTransactionsResponse(Error.COORDINATOR_LOAD_IN_PROGRESS))
        return
    listed = tuple(
        ListedTransaction(transaction.transactional_id, transaction.stored.producer_id, transaction.state)
        for transaction in state.transactions.values()
        if _matches(transaction, request, collector.wall_ms)
    )
    collector.respond(reply_to, ListTransactionsResponse(Error.NONE, listed))


def _matches(transaction: Transaction, request: ListTransactions, wall_ms: int) -> bool:
    return (
        transaction.pending_state is not DEAD
        and (request.states is None or transaction.state in request.states)
        and (request.producer_ids is None or transaction.stored.producer_id in request.producer_ids)
        and (request.longer_than_ms < 0 or duration_ms(transaction, wall_ms) > request.longer_than_ms)
        and (request.matches_id is None or request.matches_id(transaction.transactional_id))
    )
