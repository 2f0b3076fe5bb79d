"""The table of the transaction coordinator."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.transactions.states import (
    NEXT_STATES,
    TRANSITIONS,
    TransactionAction,
    TransactionInput,
    TransactionState,
)

from .harness import ID, T0, TransactionHarness

E = TransactionState.EMPTY
O = TransactionState.ONGOING  # noqa: E741
PC, PA = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
CC, CA = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
REACHABLE = (E, O, PC, PA, CC, CA)
BUSY, WRONG, FENCED = Error.CONCURRENT_TRANSACTIONS, Error.INVALID_TXN_STATE, Error.PRODUCER_FENCED
OK = Error.NONE


def test_table_has_every_pair() -> None:
    for happened in TransactionInput:
        assert set(TRANSITIONS[happened]) == set(TransactionState)


@pytest.mark.proves("TX-20")
def test_table_allows_only_legal_moves() -> None:
    assert NEXT_STATES[PC] == {CC}
    assert NEXT_STATES[PA] == {CA}
    assert NEXT_STATES[O] == {O, PC, PA}
    for row in TRANSITIONS.values():
        for state, transition in row.items():
            assert transition.next_state is None or transition.next_state in NEXT_STATES[state]
            assert (transition.action is TransactionAction.REJECT) == (transition.error is not Error.NONE)


@pytest.mark.proves("TX-20")
def test_apply_refuses_other_moves() -> None:
    harness = TransactionHarness()
    harness.bring_to(O)
    transaction = harness.coordinator.transactions[ID]

    with pytest.raises(AssertionError, match="ONGOING"):
        transaction.apply(transaction.completed(0))


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (True, {E: WRONG, O: OK, PC: BUSY, PA: BUSY, CC: OK, CA: WRONG}),
        (False, {E: WRONG, O: OK, PC: BUSY, PA: BUSY, CC: WRONG, CA: OK}),
    ],
)
@pytest.mark.proves("TX-38")
def test_end_in_every_state(commit: bool, expected: dict[TransactionState, Error]) -> None:
    for state, error in expected.items():
        harness = TransactionHarness()
        producer = harness.bring_to(state)
        writes = len(harness.log)

        assert harness.end(producer, commit=commit) == (error, -1, -1), state
        assert len(harness.log) == writes + (2 if state is O else 0)
        assert harness.epoch == 0


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (True, {E: WRONG, O: OK, PC: BUSY, PA: BUSY, CC: WRONG, CA: WRONG}),
        (False, {E: OK, O: OK, PC: BUSY, PA: BUSY, CC: OK, CA: OK}),
    ],
)
@pytest.mark.proves("TX-40")
def test_end_v2_with_the_current_epoch(commit: bool, expected: dict[TransactionState, Error]) -> None:
    for state, error in expected.items():
        harness = TransactionHarness()
        producer_id, epoch = harness.bring_to(state, v2=True)

        answer = harness.end((producer_id, epoch), commit=commit, v2=True)

        assert answer == ((OK, producer_id, epoch + 1) if error is OK else (error, -1, -1)), state


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (True, {E: FENCED, O: FENCED, PC: BUSY, PA: BUSY, CC: OK, CA: WRONG}),
        (False, {E: FENCED, O: FENCED, PC: BUSY, PA: BUSY, CC: WRONG, CA: OK}),
    ],
)
@pytest.mark.proves("TX-42")
def test_end_v2_again(commit: bool, expected: dict[TransactionState, Error]) -> None:
    for state, error in expected.items():
        harness = TransactionHarness()
        producer_id, epoch = harness.bring_to(state, v2=True)
        if state in (E, O):  # a second producer has the next epoch
            harness.holds_markers = False
            while harness.epoch == 0:
                harness.init()
            epoch = harness.epoch
            if state is O:
                harness.add((producer_id, epoch), T0)
        writes = len(harness.log)

        answer = harness.end((producer_id, epoch - 1), commit=commit, v2=True)

        assert answer == ((OK, producer_id, epoch) if error is OK else (error, -1, -1)), state
        assert len(harness.log) == writes


@pytest.mark.proves("TX-24", "TX-25")
def test_init_in_every_state() -> None:
    expected = {E: (OK, 1), O: (BUSY, -1), PC: (BUSY, -1), PA: (BUSY, -1), CC: (OK, 1), CA: (OK, 1)}
    for state, (error, epoch) in expected.items():
        harness = TransactionHarness()
        harness.bring_to(state)

        assert harness.init()[0::2] == (error, epoch), state


@pytest.mark.proves("TX-30", "TX-33")
def test_add_and_verify_in_every_state() -> None:
    for state in REACHABLE:
        harness = TransactionHarness()
        producer = harness.bring_to(state)
        is_prepared = state in (PC, PA)

        verified = harness.verify(producer, T0)[T0]
        assert verified is (BUSY if is_prepared else OK if state is O else Error.TRANSACTION_ABORTABLE), state
        assert harness.add(producer, T0) is (BUSY if is_prepared else OK), state
        assert harness.state is (state if is_prepared else O)
