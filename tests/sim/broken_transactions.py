"""Deliberate faults in the transaction coordinator; each breaks one rule of docs/kafka-behaviours.md.

`BROKEN` maps a name to the fault and to the anomaly with which the simulator must detect it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import coordinator as coordinators
from slackwater.group.transactions import requests, states
from slackwater.group.transactions.collector import TransactionCollector
from slackwater.group.transactions.coordinator import TransactionCoordinator
from slackwater.group.transactions.effects import SendTransactionResponse, TransactionEffect, WriteMarkers
from slackwater.group.transactions.messages import AddPartitions, EndTransaction, EndTransactionResponse
from slackwater.group.transactions.records import StoredTransaction, TransactionRecord
from slackwater.group.transactions.states import (
    COMPLETE_ABORT,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TransactionAction,
    TransactionInput,
    TransactionState,
    TransactionTransition,
)
from slackwater.group.transactions.transaction import Transaction

ANY = "lost write|aborted read|torn transaction|duplicate|order|hanging"
Apply = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Broken:
    """A fault and the anomaly it causes."""

    apply: Apply
    anomaly: str


BROKEN: dict[str, Broken] = {}


def broken(anomaly: str = ANY) -> Callable[[Apply], Apply]:
    """Register a fault."""

    def register(apply: Apply) -> Apply:
        BROKEN[apply.__name__] = Broken(apply, anomaly)
        return apply

    return register


def _set(
    patch: pytest.MonkeyPatch, happened: TransactionInput, state: TransactionState, outcome: TransactionTransition
) -> None:
    patch.setitem(states.TRANSITIONS[happened], state, outcome)


@broken("lost write|torn transaction")
def commit_is_acknowledged_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """TX-36."""
    original = TransactionCoordinator.handle

    def hasty(self: TransactionCoordinator, request: Any, reply_to: object, now_ms: int) -> list[TransactionEffect]:
        effects = original(self, request, reply_to, now_ms)
        if isinstance(request, EndTransaction) and not any(
            isinstance(each, SendTransactionResponse) for each in effects
        ):
            stored = self.transactions[request.transactional_id].stored
            effects.append(
                SendTransactionResponse(
                    reply_to, EndTransactionResponse(Error.NONE, stored.producer_id, stored.producer_epoch + 1)
                )
            )
        return effects

    patch.setattr(TransactionCoordinator, "handle", hasty)


@broken("lost write|hanging|torn transaction")
def restart_forgets_decided_transactions(patch: pytest.MonkeyPatch) -> None:
    """TX-53."""
    for state in PREPARED:
        _set(patch, TransactionInput.LOADED, state, TransactionTransition(TransactionAction.IGNORE))


@broken("lost write|torn transaction")
def restart_aborts_decided_transactions(patch: pytest.MonkeyPatch) -> None:
    """TX-53."""
    original = TransactionCoordinator.replay

    def aborting(self: TransactionCoordinator, partition: int, record: TransactionRecord) -> None:
        if record.value is not None and record.value.state is PREPARE_COMMIT:
            record = replace(record, value=replace(record.value, state=PREPARE_ABORT))
        original(self, partition, record)

    patch.setattr(TransactionCoordinator, "replay", aborting)


@broken("torn transaction|lost write|hanging")
def last_partition_gets_no_marker(patch: pytest.MonkeyPatch) -> None:
    """TX-44."""
    original = TransactionCollector.write_markers

    def incomplete(self: TransactionCollector, transaction: Transaction) -> None:
        original(self, transaction)
        effect = self.effects[-1]
        assert isinstance(effect, WriteMarkers)
        self.effects[-1] = replace(effect, partitions=effect.partitions[:1])

    patch.setattr(TransactionCollector, "write_markers", incomplete)


@broken("torn transaction|lost write|hanging")
def failed_markers_count_as_written(patch: pytest.MonkeyPatch) -> None:
    """TX-46."""
    original = TransactionCoordinator.on_markers_written

    def optimistic(
        self: TransactionCoordinator, markers_id: int, errors: Mapping[TopicPartition, Error], now_ms: int
    ) -> list[TransactionEffect]:
        return original(self, markers_id, dict.fromkeys(errors, Error.NONE), now_ms)

    patch.setattr(TransactionCoordinator, "on_markers_written", optimistic)


@broken("torn transaction|lost write|hanging")
def known_partitions_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """TX-30: partitions that come later are not added."""
    original = requests.add_partitions

    def forgetful(collector: TransactionCollector, request: Any, reply_to: object) -> None:
        transaction = collector.state.transactions.get(request.transactional_id)
        if transaction is not None and transaction.stored.partitions:
            request = replace(request, partitions=frozenset(sorted(transaction.stored.partitions)[:1]))
        original(collector, request, reply_to)

    patch.setitem(coordinators.HANDLERS, AddPartitions, forgetful)


@broken("lost write|aborted read|torn transaction|order")
def fencing_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """TX-25, TX-45: an older producer continues after its transaction was aborted."""
    original = Transaction.prepared

    def same_epoch(
        self: Transaction, state: TransactionState, client_version: int, next_producer_id: int, wall_ms: int
    ) -> StoredTransaction:
        value = original(self, state, client_version, next_producer_id, wall_ms)
        if state is PREPARE_ABORT:
            return replace(value, producer_epoch=self.stored.producer_epoch)
        return value

    patch.setattr(Transaction, "prepared", same_epoch)


@broken()
def init_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """TX-21: two producers have the same epoch."""
    original = Transaction.with_next_epoch

    def same_epoch(
        self: Transaction, timeout_ms: int, expected_epoch: int | None, wall_ms: int
    ) -> StoredTransaction | Error:
        value = original(self, timeout_ms, expected_epoch, wall_ms)
        if isinstance(value, Error) or self.stored.producer_epoch < 0:
            return value
        return replace(value, producer_epoch=self.stored.producer_epoch)

    patch.setattr(Transaction, "with_next_epoch", same_epoch)


@broken("lost write")
def repeated_commit_of_an_aborted_transaction_succeeds(patch: pytest.MonkeyPatch) -> None:
    """TX-38, TX-42: the transaction timed out, or the abort came first."""
    respond = TransactionTransition(TransactionAction.RESPOND)
    for happened in (TransactionInput.COMMIT, TransactionInput.COMMIT_AGAIN):
        _set(patch, happened, COMPLETE_ABORT, respond)


@broken("lost write|torn transaction|aborted read|hanging|ONGOING -> ")
def prepared_transactions_accept_requests(patch: pytest.MonkeyPatch) -> None:
    """TX-31: the next transaction begins before the markers of the previous one are written."""
    add = TransactionTransition(TransactionAction.ADD_PARTITIONS, next_state=states.ONGOING)
    patch.setattr(Transaction, "is_busy", property(lambda self: self.pending_state is not None))
    for state in PREPARED:
        _set(patch, TransactionInput.ADD, state, add)
        patch.setitem(states.NEXT_STATES, state, states.NEXT_STATES[state] | {states.ONGOING})


@broken("hanging|lost write")
def open_transactions_never_time_out(patch: pytest.MonkeyPatch) -> None:
    """TX-45."""
    patch.setattr(coordinators, "is_timed_out", lambda _transaction, _now_ms: False)


@broken("hanging|torn transaction|lost write")
def complete_before_the_markers(patch: pytest.MonkeyPatch) -> None:
    """TX-44: a crash after the end is written loses the markers."""
    original = TransactionCoordinator.on_append_result

    def hasty(self: TransactionCoordinator, write_id: int, error: Error, now_ms: int) -> list[TransactionEffect]:
        effects = original(self, write_id, error, now_ms)
        markers = [effect for effect in effects if isinstance(effect, WriteMarkers)]
        for effect in markers:
            effects += original_markers(self, effect.markers_id, {}, now_ms)
        return effects

    original_markers = TransactionCoordinator.on_markers_written
    patch.setattr(TransactionCoordinator, "on_append_result", hasty)
