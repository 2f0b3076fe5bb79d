"""Transactions of other processes: ends them with a stored producer id and epoch, lists and aborts open ones.

Invariants:
- A request is repeated until the coordinator accepts or rejects it, or the timeout has passed.
- Ending a transaction twice with the same result succeeds twice: a repeated request gets the response of the first.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.backoff import RetryBackoff
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.coordinators import CoordinatorType, find_coordinator
from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.wire.apis import LIST_TRANSACTIONS
from slackwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

R = TypeVar("R", EndTxnResponse, InitProducerIdResponse)
LAST_END_TXN_IN_TV1: Final = 4  # v5 is for transaction version 2, in which each transaction has its own epoch (KIP-890)
_FIRST_LIST_VERSION_WITH_PATTERN: Final = 2
_TIMEOUT_S: Final = 60.0
_FIRST_BACKOFF_S: Final = 0.02  # markers are written soon


class OpenTransaction(NamedTuple):
    """A transaction that another process can end."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_version: int


async def end_transaction(cluster: Cluster, transaction: OpenTransaction, *, commit: bool) -> Error:
    """Commit or abort a transaction; return why the coordinator rejects that, or NONE."""
    request = EndTxnRequest(
        transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, committed=commit
    )
    last_version = LAST_END_TXN_IN_TV1 if transaction.transaction_version == 1 else None
    response = await _request(cluster, transaction.transactional_id, request, EndTxnResponse, last_version)
    return Error(response.error_code)


async def abort_open_transaction(cluster: Cluster, transactional_id: str) -> Error:
    """Abort the open transaction of a transactional id, and fence its producer."""
    request = InitProducerIdRequest(transactional_id, transaction_timeout_ms=1_000)
    response = await _request(cluster, transactional_id, request, InitProducerIdResponse, None)
    return Error(response.error_code)


async def list_open_transactions(cluster: Cluster, pattern: str) -> list[str]:
    """Return the transactional ids with an open transaction that match a regular expression as a whole."""
    backoff = RetryBackoff(cluster.config, _TIMEOUT_S, first_s=_FIRST_BACKOFF_S)
    while True:
        try:
            await cluster.refresh()
            responses = await asyncio.gather(*(_list_at(cluster, node, pattern) for node in cluster.brokers))
            break
        except SlackwaterError as error:
            # A coordinator that loads its transactions cannot list any; after a restart that takes a moment.
            can_retry = isinstance(error, NetworkError) or (isinstance(error, BrokerError) and error.retriable)
            if not can_retry or backoff.is_exhausted:
                raise
        await backoff.wait()
    names = {name for found in responses for name in found}
    return sorted(name for name in names if re.fullmatch(pattern, name))


async def _list_at(cluster: Cluster, node: int, pattern: str) -> Sequence[str]:
    connection = await cluster.connection_to(node)
    request = ListTransactionsRequest(state_filters=["Ongoing"])
    if connection.version_of(LIST_TRANSACTIONS) >= _FIRST_LIST_VERSION_WITH_PATTERN:
        request.transactional_id_pattern = pattern
    timeout_s = cluster.config.request_timeout_ms / 1000
    response = await connection.request(request, ListTransactionsResponse, timeout_s=timeout_s)
    if response.error_code:
        error = Error(response.error_code)
        raise BrokerError(error, f"The open transactions cannot be listed: {error.name}.")
    return [row.transactional_id for row in response.transaction_states]


async def _request(
    cluster: Cluster,
    transactional_id: str,
    request: EndTxnRequest | InitProducerIdRequest,
    response_type: type[R],
    last_version: int | None,
) -> R:
    backoff = RetryBackoff(cluster.config, _TIMEOUT_S, first_s=_FIRST_BACKOFF_S)
    while True:
        try:
            node = await find_coordinator(cluster, CoordinatorType.TRANSACTION, transactional_id)
            connection = await cluster.connection_at(node.host, node.port)
            version = connection.version_of(request.API)
            response = await connection.request(
                request,
                response_type,
                timeout_s=cluster.config.request_timeout_ms / 1000,
                version=version if last_version is None else min(version, last_version),
            )
            error = Error(response.error_code)
            if not error.retriable:
                return response
            reason = error.name
        except NetworkError as lost:
            reason = str(lost)
        except BrokerError as rejected:  # of FindCoordinator
            if not rejected.retriable:
                raise
            reason = str(rejected)
        if backoff.is_exhausted:
            raise ClientTimeoutError(
                f"The transaction of {transactional_id} could not be ended within {_TIMEOUT_S:g} s: {reason}"
            )
        await backoff.wait()
