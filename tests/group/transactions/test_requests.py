"""InitProducerId, AddPartitionsToTxn and EndTxn."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.transactions import TransactionCoordinator, TransactionInput, TransactionState
from slackwater.group.transactions.messages import (
    AddPartitions,
    AddPartitionsResponse,
    EndTransaction,
    InitProducerId,
    InitProducerIdResponse,
)

from .harness import FIRST_PRODUCER_ID, ID, T0, T1, TIMEOUT_MS, U0, TransactionHarness

E = TransactionState.EMPTY
O = TransactionState.ONGOING  # noqa: E741
LAST_EPOCH = 32_766
NOTHING = (-1, -1)


@pytest.fixture
def harness() -> TransactionHarness:
    return TransactionHarness()


def exhaust(harness: TransactionHarness) -> tuple[int, int]:
    """Bring the producer to its last epoch; return producer id and epoch."""
    producer_id, _ = harness.start_producer()
    record = harness.log[-1]
    assert record.value is not None
    object.__setattr__(record.value, "producer_epoch", LAST_EPOCH)
    harness.start()
    return producer_id, LAST_EPOCH


# --- InitProducerId ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-21")
def test_each_init_has_the_next_epoch(harness: TransactionHarness) -> None:
    assert harness.init() == (Error.NONE, FIRST_PRODUCER_ID, 0)
    assert harness.init() == (Error.NONE, FIRST_PRODUCER_ID, 1)
    assert harness.init(transactional_id="other") == (Error.NONE, FIRST_PRODUCER_ID + 1, 0)
    assert harness.state is E
    assert [event.cause for event in harness.events] == [TransactionInput.INIT] * 3


@pytest.mark.proves("TX-22")
def test_init_checks_id_and_timeout(harness: TransactionHarness) -> None:
    assert harness.init(transactional_id="")[0] is Error.INVALID_REQUEST
    for timeout_ms in (0, -1, 900_001):
        assert harness.init(timeout_ms=timeout_ms)[0] is Error.INVALID_TRANSACTION_TIMEOUT
    assert harness.init(timeout_ms=900_000)[0] is Error.NONE


@pytest.mark.proves("TX-21")
def test_init_fences_the_older_producer(harness: TransactionHarness) -> None:
    old = harness.start_producer()
    new = harness.start_producer()

    assert harness.add(old, T0) is Error.PRODUCER_FENCED
    assert harness.end(old, commit=True)[0] is Error.PRODUCER_FENCED
    assert harness.end(old, commit=True, v2=True)[0] is Error.PRODUCER_FENCED
    assert harness.add(new, T0) is Error.NONE


@pytest.mark.proves("TX-23")
def test_continuing_producer_gets_the_next_epoch(harness: TransactionHarness) -> None:
    producer_id, epoch = harness.start_producer()

    assert harness.init(producer_id, epoch) == (Error.NONE, producer_id, 1)
    assert harness.init(producer_id, epoch) == (Error.NONE, producer_id, 1)  # the same request again
    assert harness.init(producer_id, 1) == (Error.NONE, producer_id, 2)
    assert harness.init(producer_id, 0)[0] is Error.PRODUCER_FENCED
    assert harness.init(producer_id + 1, 2)[0] is Error.PRODUCER_FENCED


@pytest.mark.proves("TX-23")
def test_restart_forgets_the_previous_epoch(harness: TransactionHarness) -> None:
    producer_id, epoch = harness.start_producer()
    harness.init(producer_id, epoch)
    harness.start()

    assert harness.init(producer_id, epoch)[0] is Error.PRODUCER_FENCED


@pytest.mark.proves("TX-23")
def test_another_producer_fences_one_that_continues(harness: TransactionHarness) -> None:
    producer_id, epoch = harness.start_producer()
    harness.init()

    assert harness.init(producer_id, epoch)[0] is Error.PRODUCER_FENCED


@pytest.mark.proves("TX-23")
def test_unknown_id_accepts_a_producer_that_continues(harness: TransactionHarness) -> None:
    assert harness.init(5, 3) == (Error.NONE, FIRST_PRODUCER_ID, 0)


@pytest.mark.proves("TX-24")
def test_requests_during_a_write_are_concurrent(harness: TransactionHarness) -> None:
    producer = harness.start_producer()
    harness.holds_writes = True
    waiting = harness.send(AddPartitions(ID, *producer, frozenset({T0})))

    assert harness.init() == (Error.CONCURRENT_TRANSACTIONS, *NOTHING)
    assert harness.init(7, 7)[0] is Error.CONCURRENT_TRANSACTIONS  # before the check of the producer id
    assert harness.end(producer, commit=True)[0] is Error.CONCURRENT_TRANSACTIONS
    assert harness.end((7, 7), commit=True, v2=True)[0] is Error.CONCURRENT_TRANSACTIONS
    assert waiting == []
    harness.write_held()
    assert waiting == [AddPartitionsResponse(Error.NONE)]


@pytest.mark.proves("TX-25")
def test_init_aborts_an_open_transaction(harness: TransactionHarness) -> None:
    producer_id, _ = producer = harness.bring_to(O)
    harness.holds_markers = True

    assert harness.init()[0] is Error.CONCURRENT_TRANSACTIONS
    (markers,) = harness.markers
    assert (markers.producer_epoch, markers.is_commit, markers.partitions) == (1, False, (T0, T1))
    assert harness.init()[0] is Error.CONCURRENT_TRANSACTIONS
    harness.finish_markers(markers)
    assert harness.end(producer, commit=True)[0] is Error.PRODUCER_FENCED
    assert harness.init() == (Error.NONE, producer_id, 2)


@pytest.mark.proves("TX-26")
def test_last_epoch_is_followed_by_a_new_producer_id(harness: TransactionHarness) -> None:
    producer_id, epoch = exhaust(harness)

    error, new_id, new_epoch = harness.init(producer_id, epoch)
    assert (error, new_epoch) == (Error.NONE, 0)
    assert new_id != producer_id
    assert harness.init(producer_id, epoch) == (Error.NONE, new_id, 0)  # the same request again
    assert harness.init(producer_id, epoch - 1)[0] is Error.PRODUCER_FENCED


@pytest.mark.proves("TX-26")
def test_new_producer_after_the_last_epoch(harness: TransactionHarness) -> None:
    producer_id, epoch = exhaust(harness)

    error, new_id, new_epoch = harness.init()
    assert (error, new_epoch) == (Error.NONE, 0)
    assert new_id != producer_id
    assert harness.init(producer_id, epoch)[0] is Error.PRODUCER_FENCED


@pytest.mark.proves("TX-26")
def test_without_producer_ids_nothing_changes(harness: TransactionHarness) -> None:
    harness.has_producer_ids = False
    assert harness.init()[0] is Error.COORDINATOR_NOT_AVAILABLE
    harness.has_producer_ids = True
    producer = exhaust(harness)
    harness.add(producer, T0, version=2)
    harness.has_producer_ids = False

    assert harness.end(producer, commit=True, v2=True)[0] is Error.COORDINATOR_NOT_AVAILABLE
    assert harness.init()[0] is Error.COORDINATOR_NOT_AVAILABLE
    assert harness.state is O
    assert harness.end(producer, commit=True)[0] is Error.NONE
    assert harness.init()[0] is Error.COORDINATOR_NOT_AVAILABLE


# --- AddPartitionsToTxn -----------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-30")
def test_first_partitions_begin_the_transaction(harness: TransactionHarness) -> None:
    producer = harness.start_producer()
    harness.now_ms = 5_000

    assert harness.add(producer, T0, version=2) is Error.NONE
    harness.now_ms = 6_000
    assert harness.add(producer, T1, version=2) is Error.NONE
    described = harness.describe()
    assert (described.state, described.start_timestamp_ms) == (O, 5_000)
    assert described.partitions == (T0, T1)
    record = harness.log[-1].value
    assert record is not None
    assert (record.update_timestamp_ms, record.client_version) == (6_000, 2)


@pytest.mark.proves("TX-31", "TX-59")
def test_add_checks_busy_then_producer_id_then_epoch(harness: TransactionHarness) -> None:
    producer_id, epoch = harness.start_producer()

    assert harness.add((producer_id, 0), T0, transactional_id="") is Error.INVALID_REQUEST
    assert harness.add((producer_id, 0), T0, transactional_id="unknown") is Error.INVALID_PRODUCER_ID_MAPPING
    assert harness.add((producer_id + 1, epoch + 1), T0) is Error.INVALID_PRODUCER_ID_MAPPING
    assert harness.add((producer_id, epoch + 1), T0) is Error.PRODUCER_FENCED
    harness.holds_writes = True
    harness.send(AddPartitions(ID, producer_id, epoch, frozenset({T0})))
    assert harness.add((producer_id + 1, epoch), T0) is Error.CONCURRENT_TRANSACTIONS


@pytest.mark.proves("TX-32")
def test_known_partitions_are_not_written_again(harness: TransactionHarness) -> None:
    producer = harness.bring_to(O)
    writes = len(harness.log)

    assert harness.add(producer, T0) is Error.NONE
    assert len(harness.log) == writes
    assert harness.add(producer, T0, U0) is Error.NONE
    assert len(harness.log) == writes + 1


@pytest.mark.proves("TX-33")
def test_verify_checks_each_partition(harness: TransactionHarness) -> None:
    producer_id, epoch = harness.bring_to(O)

    assert harness.verify((producer_id, epoch), T0, U0) == {T0: Error.NONE, U0: Error.TRANSACTION_ABORTABLE}
    assert harness.verify((producer_id + 1, epoch), T0) == {T0: Error.INVALID_PRODUCER_ID_MAPPING}
    assert harness.verify((producer_id, epoch + 1), T0) == {T0: Error.PRODUCER_FENCED}
    assert TransactionHarness().verify((1, 0), T0) == {T0: Error.INVALID_PRODUCER_ID_MAPPING}


# --- EndTxn -----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-36")
def test_response_waits_for_the_decision_not_for_the_markers(harness: TransactionHarness) -> None:
    producer = harness.bring_to(O)
    harness.holds_writes = harness.holds_markers = True
    answer = harness.send(EndTransaction(ID, *producer, is_commit=True))

    assert answer == []
    harness.write_held()
    assert len(answer) == 1
    assert harness.state is TransactionState.PREPARE_COMMIT
    assert len(harness.held_markers) == 1


@pytest.mark.proves("TX-37")
@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_failed_write_changes_nothing(harness: TransactionHarness, problem: Error, expected: Error) -> None:
    harness.write_error = problem
    assert harness.init() == (expected, *NOTHING)
    harness.write_error = Error.NONE
    producer = harness.start_producer()
    harness.write_error = problem
    assert harness.add(producer, T0) is expected
    assert harness.state is E
    harness.write_error = Error.NONE
    harness.add(producer, T0)
    harness.write_error = problem
    assert harness.end(producer, commit=True)[0] is expected
    assert harness.init()[0] is expected  # the write of the abort failed
    assert (harness.state, harness.epoch, harness.markers) == (O, producer[1], [])
    harness.write_error = Error.NONE
    assert harness.end(producer, commit=True)[0] is Error.NONE


@pytest.mark.proves("TX-39", "TX-59")
def test_end_checks_producer_id_then_epoch_then_busy(harness: TransactionHarness) -> None:
    producer_id, epoch = harness.bring_to(TransactionState.PREPARE_COMMIT)

    assert harness.end((producer_id, epoch), commit=True, transactional_id="")[0] is Error.INVALID_REQUEST
    assert harness.end((1, 0), commit=True, transactional_id="unknown")[0] is Error.INVALID_PRODUCER_ID_MAPPING
    assert harness.end((producer_id + 1, epoch), commit=True)[0] is Error.INVALID_PRODUCER_ID_MAPPING
    assert harness.end((producer_id, epoch + 1), commit=True)[0] is Error.PRODUCER_FENCED
    assert harness.end((producer_id, epoch), commit=True)[0] is Error.CONCURRENT_TRANSACTIONS


@pytest.mark.proves("TX-41")
def test_end_v2_checks_busy_then_producer_id_then_epoch(harness: TransactionHarness) -> None:
    producer_id, epoch = harness.bring_to(TransactionState.PREPARE_COMMIT, v2=True)

    assert harness.end((producer_id + 1, epoch), commit=True, v2=True)[0] is Error.CONCURRENT_TRANSACTIONS
    harness.finish_markers(harness.held_markers[0])
    assert harness.end((producer_id + 1, epoch), commit=True, v2=True)[0] is Error.INVALID_PRODUCER_ID_MAPPING
    assert harness.end((producer_id, epoch + 1), commit=True, v2=True)[0] is Error.PRODUCER_FENCED
    assert harness.end((producer_id, epoch - 2), commit=True, v2=True)[0] is Error.PRODUCER_FENCED


@pytest.mark.proves("TX-40")
def test_each_transaction_of_version_2_has_its_own_epoch(harness: TransactionHarness) -> None:
    producer_id, epoch = harness.start_producer()
    for number in range(3):
        harness.add((producer_id, epoch), T0, version=2)
        error, same_id, epoch = harness.end((producer_id, epoch), commit=True, v2=True)
        assert (error, same_id, epoch) == (Error.NONE, producer_id, number + 1)
        assert harness.markers[-1].producer_epoch == epoch
        assert harness.markers[-1].transaction_version == 2


@pytest.mark.proves("TX-43")
def test_last_transaction_of_a_producer_id(harness: TransactionHarness) -> None:
    producer_id, epoch = producer = exhaust(harness)
    harness.add(producer, T0, version=2)
    harness.holds_markers = True

    error, new_id, new_epoch = harness.end(producer, commit=True, v2=True)

    assert (error, new_epoch) == (Error.NONE, 0)
    assert new_id != producer_id
    (markers,) = harness.markers
    assert (markers.producer_id, markers.producer_epoch) == (producer_id, epoch + 1)
    assert harness.add((new_id, 0), T0, version=2) is Error.CONCURRENT_TRANSACTIONS
    harness.start()  # the decision has the new producer id
    harness.finish_markers(harness.held_markers[0])
    assert harness.end(producer, commit=True, v2=True) == (Error.NONE, new_id, 0)  # the same request again
    assert harness.end(producer, commit=False, v2=True)[0] is Error.INVALID_TXN_STATE
    assert harness.add((new_id, 0), T0, version=2) is Error.NONE


@pytest.mark.proves("TX-43")
def test_fenced_in_the_last_epoch(harness: TransactionHarness) -> None:
    producer = exhaust(harness)
    harness.add(producer, T0)

    assert harness.init()[0] is Error.CONCURRENT_TRANSACTIONS
    assert harness.markers[-1].producer_epoch == LAST_EPOCH + 1
    error, new_id, new_epoch = harness.init()
    assert error is Error.NONE
    assert new_id != producer[0]
    assert new_epoch == 1  # the end of the aborted transaction has taken epoch 0


# --- without the partition --------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-57")
def test_requests_need_a_loaded_partition() -> None:
    coordinator = TransactionCoordinator(lambda: 1)
    request = InitProducerId(ID, TIMEOUT_MS)

    def error() -> Error:
        (effect,) = coordinator.handle(request, None, 0)
        assert isinstance(effect.response, InitProducerIdResponse)  # type: ignore[union-attr]
        return effect.response.error  # type: ignore[union-attr]

    assert error() is Error.NOT_COORDINATOR
    coordinator.load(coordinator.partition_of(ID), 0)
    assert error() is Error.COORDINATOR_LOAD_IN_PROGRESS
