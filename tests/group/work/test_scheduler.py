"""The work scheduler: order, commits, back-pressure, retries and revocation."""

import pytest

from slackwater.group.work.config import ExhaustedAction, ProcessingOrder, RevokeMode, WorkConfig
from slackwater.group.work.effects import (
    AbandonTasks,
    CommitFinished,
    PartitionsDrained,
    PausePartitions,
    ResumePartitions,
    StartTask,
    StopProcessing,
    WriteDeadLetter,
)

from .harness import BROKEN, P0, P1, P2, Record, SchedulerHarness, at, records

# --- order -----------------------------------------------------------------------------------------------------------


def test_partition_order_runs_one_record_at_a_time() -> None:
    harness = SchedulerHarness(WorkConfig(workers=4))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, 2))
    assert harness.under_way(P0) == [0]
    harness.finish(P0, 0)
    assert harness.under_way(P0) == [1]
    harness.finish(P0, 1, 2)
    assert harness.started == [0, 1, 2]
    assert harness.scheduler.in_flight == 0


def test_key_order_does_not_block_other_keys() -> None:
    harness = SchedulerHarness(WorkConfig(workers=4, order=ProcessingOrder.KEY))
    harness.assigned(P0)
    harness.received(
        [Record("t", 0, 0, b"a"), Record("t", 0, 1, b"a"), Record("t", 0, 2, b"b"), Record("t", 0, 3, b"a")]
    )
    assert harness.under_way(P0) == [0, 2]
    harness.finish(P0, 0)
    assert harness.under_way(P0) == [1, 2]
    harness.finish(P0, 1, 2, 3)
    assert harness.started == [0, 2, 1, 3]


def test_same_key_in_two_partitions_runs_in_parallel() -> None:
    harness = SchedulerHarness(WorkConfig(workers=4, order=ProcessingOrder.KEY))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, key=b"a") + records(P1, 0, key=b"a"))
    assert harness.under_way(P0) == harness.under_way(P1) == [0]


def test_records_without_key_are_unordered() -> None:
    harness = SchedulerHarness(WorkConfig(workers=4, order=ProcessingOrder.KEY))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, 2))
    assert harness.under_way(P0) == [0, 1, 2]


def test_unordered_uses_every_free_worker() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, 2, key=b"a"))
    assert harness.under_way(P0) == [0, 1]
    assert harness.scheduler.running == 2
    harness.finish(P0, 1)
    assert harness.under_way(P0) == [0, 2]


def test_workers_are_shared_between_partitions() -> None:
    harness = SchedulerHarness(WorkConfig(workers=1, order=ProcessingOrder.NONE))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, 1, 2) + records(P1, 10, 11, 12))
    for _ in range(6):
        (partition, offset) = next(iter(harness.running))
        harness.finish(partition, offset)
    assert harness.started == [0, 10, 1, 11, 2, 12]


# --- what may be committed -------------------------------------------------------------------------------------------


def test_committable_stops_at_first_unfinished_record() -> None:
    harness = SchedulerHarness(WorkConfig(workers=3, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 5, 6, 7))
    harness.finish(P0, 7, 6)
    assert harness.scheduler.committable() == ()
    harness.finish(P0, 5)
    assert harness.scheduler.committable() == (at(P0, 8),)


def test_offset_gaps_are_skipped() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 5, 90, 91))
    harness.finish(P0, 5)
    assert harness.scheduler.committable() == (at(P0, 90),)


def test_position_includes_trailing_transaction_marker() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0, P1)
    harness.received(records(P0, 5), next_offsets={P0: 7, P1: 3, P2: 9})
    harness.finish(P0, 5)
    assert harness.scheduler.committable() == (at(P0, 7), at(P1, 3))


def test_lower_next_offset_is_ignored() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 5), next_offsets={P0: 2})
    harness.finish(P0, 5)
    assert harness.scheduler.committable() == (at(P0, 6),)


def test_repeated_record_starts_once() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 5, 6))
    harness.finish(P0, 5)
    harness.received(records(P0, 5, 6, 7))
    harness.finish(P0, 6, 7)
    assert harness.started == [5, 6, 7]


def test_auto_commit_only_with_new_offsets() -> None:
    harness = SchedulerHarness(WorkConfig(auto_commit_interval_ms=5_000))
    assert harness.scheduler.next_due_ms() is None
    harness.assigned(P0, P1)
    assert harness.scheduler.next_due_ms() == harness.now_ms + 5_000
    harness.received(records(P0, 5, 6) + records(P1, 0))
    harness.finish(P0, 5)
    assert harness.pass_ms(4_999) == []
    assert harness.pass_ms(1) == [CommitFinished((at(P0, 6),))]
    assert harness.pass_ms(5_000) == []


def test_any_input_runs_due_timers() -> None:
    harness = SchedulerHarness(WorkConfig(auto_commit_interval_ms=5_000))
    harness.assigned(P0)
    harness.received(records(P0, 5, 6))
    harness.now_ms += 6_000
    assert CommitFinished((at(P0, 6),)) in harness.finish(P0, 5)
    assert harness.scheduler.next_due_ms() == harness.now_ms + 5_000


def test_no_auto_commit_without_interval() -> None:
    harness = SchedulerHarness(WorkConfig(auto_commit_interval_ms=None))
    harness.assigned(P0)
    harness.received(records(P0, 5))
    harness.finish(P0, 5)
    assert harness.scheduler.next_due_ms() is None
    assert harness.scheduler.commit() == [CommitFinished((at(P0, 6),))]
    assert harness.scheduler.commit() == []


def test_failed_commit_is_repeated() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 5))
    harness.finish(P0, 5)
    harness.scheduler.commit()
    harness.scheduler.on_commit_failed([P0, P1])
    assert harness.scheduler.commit() == [CommitFinished((at(P0, 6),))]


# --- back-pressure ---------------------------------------------------------------------------------------------------


def test_partition_pauses_and_resumes_at_its_marks() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, high_water_records=3, low_water_records=1))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, 1) + records(P1, 0))
    assert harness.paused == set()
    harness.received(records(P0, 2))
    assert harness.paused == {P0} == harness.scheduler.paused
    harness.finish(P0, 0)
    assert harness.paused == {P0}
    assert harness.finish(P0, 1)[0] == ResumePartitions((P0,))
    assert harness.paused == set()


def test_total_pauses_and_resumes_all_partitions() -> None:
    harness = SchedulerHarness(
        WorkConfig(total_high_water_records=4, total_low_water_records=2, high_water_records=4, low_water_records=3)
    )
    harness.assigned(P0, P1)
    assert PausePartitions((P0, P1)) in harness.received(records(P0, 0, 1) + records(P1, 0, 1))
    harness.finish(P0, 0)
    assert harness.paused == {P0, P1}
    assert ResumePartitions((P0, P1)) in harness.finish(P1, 0)


def test_total_bytes_pause_partitions() -> None:
    harness = SchedulerHarness(WorkConfig(total_high_water_bytes=1_000, total_low_water_bytes=100))
    harness.assigned(P0)
    harness.received([Record("t", 0, 0, None, 2_000)])
    assert harness.paused == {P0}
    assert harness.scheduler.in_flight_bytes == 2_000
    harness.finish(P0, 0)
    assert harness.paused == set()


def test_partition_assigned_while_paused_starts_paused() -> None:
    # "Pause all that is assigned, work, resume all that is assigned" has a hole: what a rebalance brings in between
    # was never paused, and floods in.
    harness = SchedulerHarness(WorkConfig(total_high_water_records=2, total_low_water_records=1))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    assert harness.assigned(P1) == [PausePartitions((P1,))]
    assert harness.finish(P0, 0) == [ResumePartitions((P0, P1)), StartTask(2, Record("t", 0, 1), 1)]


def test_full_partition_stays_paused_below_total() -> None:
    harness = SchedulerHarness(
        WorkConfig(
            workers=2, high_water_records=3, low_water_records=0, total_high_water_records=4, total_low_water_records=3
        )
    )
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, 1, 2) + records(P1, 0))
    assert harness.paused == {P0, P1}
    harness.finish(P1, 0)
    assert harness.paused == {P0}


def test_replay_bound_pauses_partition() -> None:
    harness = SchedulerHarness(
        WorkConfig(
            workers=2, order=ProcessingOrder.NONE, high_water_records=3, low_water_records=2, max_uncommitted_records=4
        )
    )
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    harness.finish(P0, 1)
    harness.received(records(P0, 2))
    harness.finish(P0, 2)
    assert harness.paused == set()
    harness.received(records(P0, 3))  # one unfinished record, but a crash would process four again
    assert harness.paused == {P0}
    harness.finish(P0, 3)
    assert harness.paused == {P0}
    harness.finish(P0, 0)
    assert harness.paused == set()


def test_lost_partition_lowers_the_total() -> None:
    harness = SchedulerHarness(WorkConfig(total_high_water_records=2, total_low_water_records=1))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, 1) + records(P1, 0))
    assert harness.paused == {P0, P1}
    assert ResumePartitions((P1,)) in harness.lost(P0)


# --- retries and dead letters ----------------------------------------------------------------------------------------


def test_retry_blocks_only_its_key() -> None:
    harness = SchedulerHarness(
        WorkConfig(workers=1, order=ProcessingOrder.KEY, retry_backoff_ms=100, auto_commit_interval_ms=None)
    )
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, key=b"a") + records(P0, 2, 3, key=b"b"))
    harness.fail(P0, 0)
    assert harness.under_way(P0) == [2]
    assert harness.scheduler.next_due_ms() == harness.now_ms + 100
    harness.finish(P0, 2, 3)
    assert harness.under_way(P0) == []
    harness.pass_ms(99)
    assert harness.under_way(P0) == []
    harness.pass_ms(1)
    assert harness.running[P0, 0].attempt == 2
    harness.finish(P0, 0, 1)
    assert harness.started == [0, 2, 3, 0, 1]


def test_attempts_count_across_polls() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=None))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    for attempt in range(1, 8):
        assert harness.running[P0, 0].attempt == attempt
        harness.fail(P0, 0)
        harness.received(records(P0, attempt))
        harness.pass_ms(2_000)
    assert harness.running[P0, 0].attempt == 8


def test_attempts_reset_with_assignment() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.fail(P0, 0)
    harness.lost(P0)
    harness.assigned(P0)
    harness.received(records(P0, 0))
    assert harness.running[P0, 0].attempt == 1
    harness.pass_ms(10_000)  # the old retry comes due and finds nothing
    assert harness.started == [0, 0]


def test_retry_of_lost_partition_is_dropped() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0, P1)
    harness.received(records(P0, 0))
    harness.fail(P0, 0)
    harness.lost(P0)
    assert harness.scheduler.tick(harness.now_ms + 100) == []


def test_exhausted_record_finishes_as_dead_letter() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, max_attempts=2, auto_commit_interval_ms=None))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    harness.fail(P0, 0)
    harness.pass_ms(100)
    assert harness.fail(P0, 0) == [WriteDeadLetter(4, Record("t", 0, 0), BROKEN, 2)]
    assert harness.under_way(P0) == []
    assert harness.scheduler.committable() == ()
    assert harness.scheduler.running == 0
    harness.write(P0, 0)
    assert harness.scheduler.committable() == (at(P0, 1),)
    assert harness.under_way(P0) == [1]


def test_non_retriable_error_skips_retries() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=None))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.fail(P0, 0, retriable=False)
    assert harness.letters[P0, 0].attempts == 1


def test_failed_dead_letter_write_is_retried() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1, auto_commit_interval_ms=None))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.fail(P0, 0)
    harness.fail_to_write(P0, 0)
    assert harness.letters == {}
    harness.pass_ms(100)
    harness.fail_to_write(P0, 0)
    assert harness.scheduler.next_due_ms() == harness.now_ms + 200
    harness.pass_ms(200)
    assert harness.letters[P0, 0].attempts == 1
    harness.write(P0, 0)
    assert harness.scheduler.in_flight == 0


def test_exhausted_record_stops_processing_if_configured() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1, after_last_attempt=ExhaustedAction.FAIL))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0) + records(P1, 0))
    assert harness.fail(P0, 0) == [StopProcessing(Record("t", 0, 0), BROKEN, 1)]
    assert harness.running == {}
    assert harness.revoke(P0, P1) == [PartitionsDrained((P0, P1), ())]


@pytest.mark.parametrize("order", ProcessingOrder)
def test_repeated_or_wrong_result_is_ignored(order: ProcessingOrder) -> None:
    harness = SchedulerHarness(WorkConfig(order=order, max_attempts=2))
    harness.assigned(P0)
    harness.received(records(P0, 0, key=b"a"))
    scheduler, now_ms = harness.scheduler, harness.now_ms
    task_id = harness.running[P0, 0].task_id
    assert scheduler.on_dead_letter_written(task_id, now_ms) == []
    assert scheduler.on_dead_letter_failed(task_id, now_ms) == []
    harness.fail(P0, 0)
    assert scheduler.on_failed(task_id, BROKEN, now_ms) == []
    harness.pass_ms(100)
    harness.fail(P0, 0)
    letter_id = harness.letters[P0, 0].task_id
    assert scheduler.on_finished(letter_id, now_ms) == []
    assert scheduler.on_failed(letter_id, BROKEN, now_ms) == []
    harness.write(P0, 0)
    assert scheduler.on_dead_letter_written(letter_id, now_ms) == []
    assert scheduler.on_dead_letter_failed(letter_id, now_ms) == []
    assert scheduler.on_finished(letter_id, now_ms) == []
    assert (scheduler.in_flight, scheduler.running) == (0, 0)


# --- partitions that go ----------------------------------------------------------------------------------------------


def test_drain_waits_for_running_records_only() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, 1, 2, 3))
    assert harness.revoke(P0) == [PausePartitions((P0,))]
    assert harness.scheduler.in_flight == 2
    harness.finish(P0, 1)
    assert harness.drained == []
    harness.finish(P0, 0)
    assert harness.drained == [PartitionsDrained((P0,), (at(P0, 2),))]
    assert harness.started == [0, 1]
    assert harness.scheduler.partitions == {P1}


def test_drain_of_idle_partition_ends_at_once() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0, P1)
    harness.received(records(P0, 4))
    harness.finish(P0, 4)
    assert harness.revoke(P0, P1, P2) == [PartitionsDrained((P0, P1), (at(P0, 5),))]
    assert harness.revoke(P0) == [PartitionsDrained((), ())]
    assert harness.scheduler.next_due_ms() is None


def test_dropped_record_bounds_final_offset() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.KEY))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, key=b"a") + records(P0, 2, key=b"b"))
    harness.revoke(P0)
    harness.finish(P0, 2, 0)
    assert harness.drained == [PartitionsDrained((P0,), (at(P0, 1),))]


def test_drain_abandons_tasks_at_deadline() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    harness.revoke(P0, within_ms=500)
    harness.finish(P0, 0)
    assert harness.scheduler.next_due_ms() == harness.now_ms + 500
    assert harness.pass_ms(500) == [AbandonTasks((2,)), PartitionsDrained((P0,), (at(P0, 1),))]
    assert harness.scheduler.running == 1
    assert harness.finish(P0, 1) == []
    assert harness.scheduler.running == 0


def test_abandoning_revoke_reports_at_once() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    harness.finish(P0, 0)
    assert harness.revoke(P0, mode=RevokeMode.ABANDON) == [AbandonTasks((2,)), PartitionsDrained((P0,), (at(P0, 1),))]


def test_records_of_draining_partition_are_ignored() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.revoke(P0)
    harness.received(records(P0, 1), next_offsets={P0: 2})
    harness.finish(P0, 0)
    assert harness.drained == [PartitionsDrained((P0,), (at(P0, 1),))]
    assert harness.received(records(P0, 1)) == []


def test_failure_while_draining_is_handed_back() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    harness.revoke(P0)
    harness.finish(P0, 1)
    assert harness.fail(P0, 0) == [PartitionsDrained((P0,), ())]


def test_last_failure_while_draining_is_dead_lettered() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.revoke(P0)
    harness.fail(P0, 0)
    assert harness.drained == []
    harness.write(P0, 0)
    assert harness.drained == [PartitionsDrained((P0,), (at(P0, 1),))]


def test_failed_dead_letter_while_draining_is_handed_back() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.fail(P0, 0)
    harness.revoke(P0)
    assert harness.fail_to_write(P0, 0) == [PartitionsDrained((P0,), ())]


def test_drain_does_not_wait_for_backoffs() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1, order=ProcessingOrder.NONE, workers=2))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0) + records(P1, 0))
    harness.fail(P0, 0)
    harness.fail_to_write(P0, 0)
    assert harness.revoke(P0) == [PartitionsDrained((P0,), ())]
    assert harness.pass_ms(1_000) == []


def test_stop_processing_ends_a_drain() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1, after_last_attempt=ExhaustedAction.FAIL))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.revoke(P0)
    assert harness.fail(P0, 0) == [StopProcessing(Record("t", 0, 0), BROKEN, 1), PartitionsDrained((P0,), ())]


def test_lost_partition_is_dropped_without_commit() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, 2))
    harness.finish(P0, 0)
    assert harness.lost(P0) == [AbandonTasks((2, 3))]
    assert harness.scheduler.committable() == ()
    assert harness.scheduler.in_flight == 0
    assert harness.scheduler.next_due_ms() is None
    assert harness.scheduler.commit() == []


def test_result_of_earlier_assignment_is_ignored() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    old = harness.running[P0, 0]
    harness.lost(P0)
    harness.assigned(P0)
    harness.received(records(P0, 0))
    assert harness.running[P0, 0].task_id != old.task_id
    harness.carry_out(harness.scheduler.on_finished(old.task_id, harness.now_ms))
    assert harness.scheduler.committable() == ()
    assert harness.scheduler.in_flight == 1
    harness.finish(P0, 0)
    assert harness.scheduler.committable() == (at(P0, 1),)


@pytest.mark.parametrize("order", [ProcessingOrder.PARTITION, ProcessingOrder.KEY])
def test_lane_is_blocked_by_abandoned_task(order: ProcessingOrder) -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=order, max_attempts=1))
    harness.assigned(P0)
    harness.received(records(P0, 0, key=b"a"))
    old = harness.running.pop((P0, 0))
    harness.lost(P0)
    harness.assigned(P0)
    harness.received(records(P0, 0, key=b"a"))
    assert harness.running == {}
    harness.carry_out(harness.scheduler.on_failed(old.task_id, BROKEN, harness.now_ms))
    assert harness.letters == {}
    assert harness.running[P0, 0].attempt == 1


def test_abandoned_task_may_end_while_unowned_or_draining() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, max_attempts=1))
    for away in (True, False):
        harness.assigned(P0)
        harness.received(records(P0, 0))
        old = harness.running.pop((P0, 0))
        harness.lost(P0)
        if not away:
            harness.assigned(P0, P1)
            harness.received(records(P0, 0))
            harness.revoke(P0)
        harness.carry_out(harness.scheduler.on_finished(old.task_id, harness.now_ms))
        assert harness.running == {}
        assert harness.scheduler.running == 0


def test_dead_letter_of_lost_partition_is_ignored() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.fail(P0, 0)
    assert harness.lost(P0) == []
    assert harness.write(P0, 0) == []


def test_reassigned_owned_partition_keeps_its_work() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0))
    assert harness.assigned(P0) == []
    assert harness.scheduler.in_flight == 1


def test_reassigned_draining_partition_starts_again() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.revoke(P0)
    assert harness.assigned(P0) == [AbandonTasks((1,)), PartitionsDrained((), ())]
    assert harness.scheduler.partitions == {P0}
    assert harness.scheduler.paused == frozenset()


def test_partition_lost_while_draining_is_not_reported() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0) + records(P1, 0))
    harness.revoke(P0, P1)
    harness.lost(P0)
    assert harness.drained == []
    harness.finish(P1, 0)
    assert harness.drained == [PartitionsDrained((P1,), (at(P1, 1),))]


def test_later_revoke_replaces_earlier() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0) + records(P1, 0))
    harness.revoke(P0, P1, within_ms=1_000)
    assert harness.revoke(P0, mode=RevokeMode.ABANDON) == [AbandonTasks((1,)), PartitionsDrained((P0,), ())]
    assert harness.pass_ms(1_000) == [AbandonTasks((2,)), PartitionsDrained((P1,), ())]


def test_drain_lowers_the_total() -> None:
    harness = SchedulerHarness(
        WorkConfig(
            workers=3, order=ProcessingOrder.NONE, total_high_water_records=3, total_low_water_records=1, max_attempts=2
        )
    )
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, 1) + records(P1, 0))
    assert harness.paused == {P0, P1}
    harness.revoke(P0)
    harness.fail(P0, 0)
    assert harness.paused == {P0, P1}
    assert harness.fail(P0, 1) == [ResumePartitions((P1,)), PartitionsDrained((P0,), ())]
