"""Markers, timeouts, expiration, restarts, and the queries."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.internal_topics import transactions_partition
from slackwater.group.transactions import TransactionConfig, TransactionCoordinator, TransactionState
from slackwater.group.transactions.messages import (
    AddPartitions,
    DescribeTransactions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    ListTransactionsResponse,
)

from .harness import ID, T0, T1, TIMEOUT_MS, U0, TransactionHarness

E = TransactionState.EMPTY
O = TransactionState.ONGOING  # noqa: E741
PC, PA = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
CC, CA = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
CHECK_MS = 10_000
WEEK_MS = 604_800_000
HOUR_MS = 3_600_000


@pytest.fixture
def harness() -> TransactionHarness:
    return TransactionHarness()


# --- markers ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-44")
@pytest.mark.parametrize(("prepared", "complete"), [(PC, CC), (PA, CA)])
def test_transaction_is_complete_when_all_markers_are_written(
    harness: TransactionHarness, prepared: TransactionState, complete: TransactionState
) -> None:
    producer = harness.bring_to(prepared)
    harness.holds_writes = True
    harness.finish_markers(harness.held_markers[0])

    assert harness.state is prepared
    assert harness.add(producer, U0) is Error.CONCURRENT_TRANSACTIONS
    harness.write_held()
    assert harness.state is complete
    assert harness.describe().partitions == ()


@pytest.mark.proves("TX-46")
def test_failed_markers_are_written_again(harness: TransactionHarness) -> None:
    harness.marker_errors = {T1: Error.NOT_LEADER_OR_FOLLOWER}
    harness.bring_to(CC)

    assert harness.state is PC
    assert harness.describe().partitions == (T1,)
    harness.advance_ms(100)
    harness.advance_ms(199)
    assert [markers.partitions for markers in harness.markers] == [(T0, T1), (T1,)]
    harness.marker_errors = {}
    harness.advance_ms(1)
    assert harness.state is CC


@pytest.mark.proves("TX-46")
@pytest.mark.parametrize("error", [Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_PRODUCER_EPOCH])
def test_deleted_or_newer_partition_needs_no_marker(harness: TransactionHarness, error: Error) -> None:
    harness.marker_errors = {T1: error}
    harness.bring_to(CC)

    assert harness.state is CC


@pytest.mark.proves("TX-44")
def test_failed_write_of_the_end_is_tried_again(harness: TransactionHarness) -> None:
    harness.bring_to(PC)
    harness.write_error = Error.NOT_ENOUGH_REPLICAS
    harness.finish_markers(harness.held_markers[0])
    harness.advance_ms(1_000)
    assert harness.state is PC
    harness.write_error = Error.NONE
    harness.advance_ms(10_000)

    assert harness.state is CC
    assert len(harness.markers) == 1


def test_markers_of_an_earlier_run_are_ignored(harness: TransactionHarness) -> None:
    harness.bring_to(PC)
    (old,) = harness.held_markers
    harness.start()
    (new,) = harness.held_markers
    harness.finish_markers(new)
    harness.finish_markers(old)

    assert harness.state is CC
    assert new.coordinator_epoch == old.coordinator_epoch + 1


# --- timeouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-45")
def test_timeout_aborts_and_fences(harness: TransactionHarness) -> None:
    producer_id, _ = producer = harness.bring_to(O)
    harness.advance_ms(TIMEOUT_MS)
    assert harness.state is O
    harness.advance_ms(CHECK_MS)

    assert harness.state is CA
    (markers,) = harness.markers
    assert (markers.producer_epoch, markers.is_commit) == (1, False)
    assert harness.add(producer, T0) is Error.PRODUCER_FENCED
    assert harness.end(producer, commit=True)[0] is Error.PRODUCER_FENCED
    assert harness.init() == (Error.NONE, producer_id, 2)


@pytest.mark.proves("TX-45")
def test_partitions_do_not_extend_the_timeout(harness: TransactionHarness) -> None:
    producer = harness.bring_to(O)
    harness.advance_ms(TIMEOUT_MS - 1)
    assert harness.add(producer, U0) is Error.NONE
    harness.advance_ms(CHECK_MS + 1)

    assert harness.state is CA


@pytest.mark.proves("TX-45")
def test_failed_abort_is_tried_at_the_next_check(harness: TransactionHarness) -> None:
    harness.bring_to(O)
    harness.write_error = Error.NOT_ENOUGH_REPLICAS
    harness.advance_ms(TIMEOUT_MS + CHECK_MS)
    assert (harness.state, harness.epoch) == (O, 0)
    harness.write_error = Error.NONE
    harness.advance_ms(CHECK_MS)

    assert (harness.state, harness.epoch) == (CA, 1)


@pytest.mark.proves("TX-45")
def test_wall_clock_does_not_time_a_transaction_out(harness: TransactionHarness) -> None:
    producer = harness.bring_to(O)
    harness.set_wall_offset_ms(HOUR_MS)
    harness.advance_ms(CHECK_MS)

    assert harness.state is O
    assert harness.end(producer, commit=True)[0] is Error.NONE


@pytest.mark.proves("TX-45")
def test_idle_producer_is_not_fenced(harness: TransactionHarness) -> None:
    producer = harness.start_producer()
    harness.advance_ms(10 * TIMEOUT_MS)

    assert harness.add(producer, T0) is Error.NONE


# --- expiration -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-47")
@pytest.mark.parametrize("state", [E, CC, CA])
def test_unused_id_expires(harness: TransactionHarness, state: TransactionState) -> None:
    producer_id, _ = producer = harness.bring_to(state)
    harness.advance_ms(WEEK_MS - HOUR_MS)
    assert harness.listed() == [ID]
    harness.advance_ms(2 * HOUR_MS)

    assert harness.describe().error is Error.TRANSACTIONAL_ID_NOT_FOUND
    assert harness.log[-1].value is None
    assert harness.events[-1].after is TransactionState.DEAD
    assert harness.add(producer, T0) is Error.INVALID_PRODUCER_ID_MAPPING
    error, new_id, epoch = harness.init()
    assert (error, epoch) == (Error.NONE, 0)
    assert new_id != producer_id


@pytest.mark.proves("TX-48")
@pytest.mark.parametrize("state", [O, PC, PA])
def test_id_with_a_transaction_does_not_expire(state: TransactionState) -> None:
    settings = {
        "transactional_id_expiration_ms": 1_000,
        "transaction_remove_expired_transaction_cleanup_interval_ms": 5,
    }
    harness = TransactionHarness(**settings)
    harness.bring_to(state)
    harness.advance_ms(5_000)

    assert harness.state is state


@pytest.mark.proves("TX-47")
def test_id_is_unknown_and_busy_while_it_expires(harness: TransactionHarness) -> None:
    harness.start_producer()
    harness.holds_writes = True
    harness.advance_ms(WEEK_MS + HOUR_MS)

    assert harness.describe().error is Error.TRANSACTIONAL_ID_NOT_FOUND
    assert harness.listed() == []
    assert harness.init()[0] is Error.CONCURRENT_TRANSACTIONS
    harness.write_held(Error.NOT_ENOUGH_REPLICAS)
    assert harness.listed() == [ID]
    harness.holds_writes = False
    assert harness.init()[2] == 1


@pytest.mark.proves("TX-47")
def test_many_ids_expire_in_several_appends(harness: TransactionHarness) -> None:
    for number in range(1_001):
        harness.start_producer(f"id-{number}")
    harness.holds_writes = True
    harness.advance_ms(WEEK_MS + HOUR_MS)

    assert [len(append.records) for append in harness.held_writes] == [1_000, 1]


# --- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-53")
@pytest.mark.parametrize(("prepared", "complete"), [(PC, CC), (PA, CA)])
def test_restart_writes_the_markers_of_a_decided_transaction(
    harness: TransactionHarness, prepared: TransactionState, complete: TransactionState
) -> None:
    harness.bring_to(prepared)
    harness.holds_markers = False
    harness.start()

    assert harness.state is complete
    assert harness.markers[-1].is_commit == (prepared is PC)
    assert harness.markers[-1].partitions == (T0, T1)


@pytest.mark.proves("TX-54")
def test_restart_keeps_open_transactions(harness: TransactionHarness) -> None:
    producer = harness.bring_to(O)
    harness.advance_ms(TIMEOUT_MS - 5_000)
    harness.start()
    assert harness.add(producer, U0) is Error.NONE
    harness.advance_ms(CHECK_MS)

    assert harness.state is CA
    assert harness.markers[-1].partitions == (T0, T1, U0)


@pytest.mark.proves("TX-54")
def test_restart_with_an_earlier_wall_clock(harness: TransactionHarness) -> None:
    harness.set_wall_offset_ms(HOUR_MS)
    harness.bring_to(O)
    harness.set_wall_offset_ms(0)
    harness.start()
    harness.advance_ms(TIMEOUT_MS + CHECK_MS)

    assert harness.state is CA


@pytest.mark.proves("TX-54")
def test_last_record_of_an_id_wins(harness: TransactionHarness) -> None:
    harness.bring_to(CC)
    harness.start_producer("gone")
    harness.advance_ms(WEEK_MS + HOUR_MS)
    harness.start_producer()
    harness.start()

    assert harness.listed() == [ID]
    assert harness.epoch == 0


def test_unload_forgets_everything(harness: TransactionHarness) -> None:
    producer = harness.bring_to(O)
    harness.holds_writes = True
    waiting = harness.send(EndTransaction(ID, *producer, is_commit=True))
    harness.coordinator.unload(0)
    harness.write_held()

    assert waiting == []
    assert not harness.coordinator.is_loaded
    assert list(harness.coordinator.ongoing) == []
    harness.coordinator.unload(0)
    assert harness.describe().error is Error.NOT_COORDINATOR


def test_load_with_an_older_epoch_is_ignored(harness: TransactionHarness) -> None:
    harness.bring_to(O)
    harness.coordinator.load(0, -1)

    assert harness.coordinator.finish_loading(0, 0) == []
    assert harness.state is O


@pytest.mark.proves("TX-52")
def test_partition_of_an_id_is_javas_hash() -> None:
    coordinator = TransactionCoordinator(lambda: None)

    # Java: Math.abs("payments-0".hashCode()) % 50, and Integer.MIN_VALUE counts as 0.
    assert coordinator.partition_of("payments-0") == transactions_partition("payments-0", 50)
    assert transactions_partition("polygenelubricants", 50) == 0
    assert transactions_partition("a", 50) == 97 % 50


def test_reconfigure_applies_to_later_requests(harness: TransactionHarness) -> None:
    harness.coordinator.reconfigure(
        TransactionConfig(transaction_state_log_num_partitions=1, transaction_max_timeout_ms=10)
    )

    assert harness.init(timeout_ms=11)[0] is Error.INVALID_TRANSACTION_TIMEOUT


# --- queries ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("TX-49")
def test_describe(harness: TransactionHarness) -> None:
    assert harness.describe().error is Error.TRANSACTIONAL_ID_NOT_FOUND
    assert harness.describe("").error is Error.INVALID_REQUEST
    producer = harness.start_producer()
    described = harness.describe()
    assert (described.error, described.state, described.timeout_ms) == (Error.NONE, E, TIMEOUT_MS)
    assert (described.producer_id, described.producer_epoch) == producer
    assert (described.start_timestamp_ms, described.partitions) == (-1, ())


@pytest.mark.proves("TX-50")
def test_list_filters(harness: TransactionHarness) -> None:
    first, _ = harness.start_producer("a-1")
    producer = harness.start_producer("a-2")
    harness.now_ms = 1_000
    harness.send(AddPartitions("a-2", *producer, frozenset({T0})))
    harness.now_ms = 3_000

    assert harness.listed() == ["a-1", "a-2"]
    assert harness.listed(ListTransactions(states=frozenset({O, PC}))) == ["a-2"]
    assert harness.listed(ListTransactions(states=frozenset())) == []
    assert harness.listed(ListTransactions(producer_ids=frozenset({first}))) == ["a-1"]
    assert harness.listed(ListTransactions(matches_id=lambda name: name.endswith("2"))) == ["a-2"]
    assert harness.listed(ListTransactions(longer_than_ms=1_999)) == ["a-1", "a-2"]
    # The condition is "longer", and an id without a transaction has been idle since 1970.
    assert harness.listed(ListTransactions(longer_than_ms=2_000)) == ["a-1"]


@pytest.mark.proves("TX-57")
def test_list_and_describe_while_loading() -> None:
    coordinator = TransactionCoordinator(lambda: None)
    coordinator.load(coordinator.partition_of(ID), 0)

    (listed,) = coordinator.handle(ListTransactions(), None, 0)
    assert listed.response == ListTransactionsResponse(Error.COORDINATOR_LOAD_IN_PROGRESS)  # type: ignore[union-attr]
    (described,) = coordinator.handle(DescribeTransactions((ID,)), None, 0)
    assert described.response.transactions[0].error is Error.COORDINATOR_LOAD_IN_PROGRESS  # type: ignore[union-attr]
    (rejected,) = coordinator.handle(InitProducerId(ID, 1), None, 0)
    assert rejected.response.error is Error.COORDINATOR_LOAD_IN_PROGRESS  # type: ignore[union-attr]
