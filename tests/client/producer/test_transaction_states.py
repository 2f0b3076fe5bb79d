"""The transition table of a transactional producer."""

import pickle
from itertools import product

import pytest

from slackwater import AbortableTransactionError, FatalTransactionError, ProducerFencedError, UsageError
from slackwater.client.producer.accumulator import ProducerIdAndEpoch
from slackwater.client.producer.transaction_states import TRANSITIONS, TransactionManagerInput, TransactionManagerState
from slackwater.client.producer.transactions import TransactionManager
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition

P0 = TopicPartition("t", 0)
ABORTABLE = AbortableTransactionError("rejected")
FATAL = FatalTransactionError("broken")
CALLS = [
    TransactionManagerInput.INIT,
    TransactionManagerInput.BEGIN,
    TransactionManagerInput.SEND,
    TransactionManagerInput.SEND_OFFSETS,
    TransactionManagerInput.COMMIT,
    TransactionManagerInput.ABORT,
]
READY = [TransactionManagerInput.INIT, TransactionManagerInput.INITIALIZED]
OPEN = [*READY, TransactionManagerInput.BEGIN]
PATHS: dict[TransactionManagerState, list[TransactionManagerInput]] = {
    TransactionManagerState.UNINITIALIZED: [],
    TransactionManagerState.INITIALIZING: [TransactionManagerInput.INIT],
    TransactionManagerState.READY: READY,
    TransactionManagerState.IN_TRANSACTION: OPEN,
    TransactionManagerState.COMMITTING: [*OPEN, TransactionManagerInput.COMMIT],
    TransactionManagerState.ABORTING: [*OPEN, TransactionManagerInput.ABORT],
    TransactionManagerState.ABORTABLE_ERROR: [*OPEN, TransactionManagerInput.ABORTABLE],
    TransactionManagerState.FATAL_ERROR: [*OPEN, TransactionManagerInput.FATAL],
}


def manager_in(state: TransactionManagerState, version: int = 2) -> TransactionManager:
    """A manager that was led to this state."""
    manager = TransactionManager("x", 60_000)
    for happened in PATHS[state]:
        match happened:
            case TransactionManagerInput.INITIALIZED:
                manager.on_initialized(ProducerIdAndEpoch(7, 0), version)
            case TransactionManagerInput.ABORTABLE:
                manager.fail(ABORTABLE)
            case TransactionManagerInput.FATAL:
                manager.fail(FATAL)
            case _:
                manager.call(happened)
    assert manager.state is state
    return manager


@pytest.mark.parametrize(("state", "call"), list(product(TransactionManagerState, CALLS)))
def test_every_call_in_every_state(state: TransactionManagerState, call: TransactionManagerInput) -> None:
    manager = manager_in(state)
    if (next_state := TRANSITIONS[state].get(call)) is not None:
        manager.call(call)
        assert manager.state is next_state
        return
    errors = {TransactionManagerState.ABORTABLE_ERROR: ABORTABLE, TransactionManagerState.FATAL_ERROR: FATAL}
    if state in errors:
        with pytest.raises(type(errors[state])) as failure:
            manager.call(call)
        assert failure.value is errors[state]
    else:
        with pytest.raises(UsageError, match=r"call|Call|commit or abort"):
            manager.call(call)
    assert manager.state is state


@pytest.mark.parametrize(
    "state", [state for state in TransactionManagerState if state is not TransactionManagerState.FATAL_ERROR]
)
def test_fatal_error_in_every_state(state: TransactionManagerState) -> None:
    manager = manager_in(state)
    manager.fail(FATAL)
    manager.fail(ProducerFencedError("later"))
    assert manager.state is TransactionManagerState.FATAL_ERROR
    assert manager.error is FATAL


def test_abortable_error_keeps_its_cause() -> None:
    manager = manager_in(TransactionManagerState.ABORTABLE_ERROR)
    manager.fail(AbortableTransactionError("a consequence"))
    assert manager.error is ABORTABLE
    manager.call(TransactionManagerInput.ABORT)
    with pytest.raises(UsageError, match=r"abort_transaction\(\) has not completed"):
        manager.call(TransactionManagerInput.BEGIN)
    manager.on_ended(ProducerIdAndEpoch(7, 1), 2)
    manager.call(TransactionManagerInput.BEGIN)
    assert not manager.may_exist_at_coordinator


def test_version_1_partition_waits_until_it_is_added() -> None:
    manager = manager_in(TransactionManagerState.IN_TRANSACTION, version=1)
    assert not manager.may_send(P0)
    assert manager.new_partitions == {P0}
    manager.on_partitions_added([P0])
    assert manager.may_send(P0)
    manager.call(TransactionManagerInput.COMMIT)
    manager.on_ended(ProducerIdAndEpoch(7, 0), 1)
    assert not manager.may_send(P0)  # the next transaction adds it again


def test_version_2_partition_needs_no_request() -> None:
    manager = manager_in(TransactionManagerState.IN_TRANSACTION)
    assert manager.may_send(P0)
    assert manager.may_exist_at_coordinator
    assert not manager.new_partitions


def test_errors_are_readable_and_can_be_pickled() -> None:
    error = manager_in(TransactionManagerState.READY).error_of("EndTxn", Error.PRODUCER_FENCED)
    assert repr(error) == (
        "ProducerFencedError(\"A newer producer uses transactional.id 'x', or the transaction took longer than "
        'transaction.timeout.ms = 60000 and was aborted (PRODUCER_FENCED). Close this producer.")'
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (repr(copy), copy.error) == (repr(error), Error.PRODUCER_FENCED)
