"""The work scheduler: order, commits, back-pressure, retries, and partitions that go."""

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


def test_a_partition_is_worked_through_one_record_after_the_other() -> None:
    harness = SchedulerHarness(WorkConfig(workers=4))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, 2))
    assert harness.under_way(P0) == [0]
    harness.finish(P0, 0)
    assert harness.under_way(P0) == [1]
    harness.finish(P0, 1, 2)
    assert harness.started == [0, 1, 2]
    assert harness.scheduler.in_flight == 0


def test_a_key_is_worked_through_one_record_after_the_other_and_holds_up_no_other_key() -> None:
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


def test_one_key_in_two_partitions_makes_two_lanes() -> None:
    harness = SchedulerHarness(WorkConfig(workers=4, order=ProcessingOrder.KEY))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, key=b"a") + records(P1, 0, key=b"a"))
    assert harness.under_way(P0) == harness.under_way(P1) == [0]


def test_records_without_a_key_keep_no_order_under_key_order() -> None:
    harness = SchedulerHarness(WorkConfig(workers=4, order=ProcessingOrder.KEY))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, 2))
    assert harness.under_way(P0) == [0, 1, 2]


def test_without_order_every_free_worker_gets_a_record() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, 2, key=b"a"))
    assert harness.under_way(P0) == [0, 1]
    assert harness.scheduler.running == 2
    harness.finish(P0, 1)
    assert harness.under_way(P0) == [0, 2]


def test_free_workers_are_dealt_to_the_partitions_in_turn() -> None:
    harness = SchedulerHarness(WorkConfig(workers=1, order=ProcessingOrder.NONE))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, 1, 2) + records(P1, 10, 11, 12))
    for _ in range(6):
        (partition, offset) = next(iter(harness.running))
        harness.finish(partition, offset)
    assert harness.started == [0, 10, 1, 11, 2, 12]


# --- what may be committed -------------------------------------------------------------------------------------------


def test_the_committable_offset_stops_before_the_first_unfinished_record() -> None:
    harness = SchedulerHarness(WorkConfig(workers=3, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 5, 6, 7))
    harness.finish(P0, 7, 6)
    assert harness.scheduler.committable() == ()
    harness.finish(P0, 5)
    assert harness.scheduler.committable() == (at(P0, 8),)


def test_offsets_with_gaps_are_jumped_over() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 5, 90, 91))
    harness.finish(P0, 5)
    assert harness.scheduler.committable() == (at(P0, 90),)


def test_the_position_after_a_poll_reaches_beyond_a_trailing_transaction_marker() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0, P1)
    harness.received(records(P0, 5), next_offsets={P0: 7, P1: 3, P2: 9})
    harness.finish(P0, 5)
    assert harness.scheduler.committable() == (at(P0, 7), at(P1, 3))


def test_a_position_that_lags_behind_changes_nothing() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 5), next_offsets={P0: 2})
    harness.finish(P0, 5)
    assert harness.scheduler.committable() == (at(P0, 6),)


def test_a_record_received_twice_is_handed_out_once() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 5, 6))
    harness.finish(P0, 5)
    harness.received(records(P0, 5, 6, 7))
    harness.finish(P0, 6, 7)
    assert harness.started == [5, 6, 7]


def test_finished_offsets_are_committed_at_every_interval_if_there_are_new_ones() -> None:
    harness = SchedulerHarness(WorkConfig(auto_commit_interval_ms=5_000))
    assert harness.scheduler.next_due_ms() is None
    harness.assigned(P0, P1)
    assert harness.scheduler.next_due_ms() == harness.now_ms + 5_000
    harness.received(records(P0, 5, 6) + records(P1, 0))
    harness.finish(P0, 5)
    assert harness.pass_ms(4_999) == []
    assert harness.pass_ms(1) == [CommitFinished((at(P0, 6),))]
    assert harness.pass_ms(5_000) == []


def test_what_is_due_is_done_with_any_input() -> None:
    harness = SchedulerHarness(WorkConfig(auto_commit_interval_ms=5_000))
    harness.assigned(P0)
    harness.received(records(P0, 5, 6))
    harness.now_ms += 6_000
    assert CommitFinished((at(P0, 6),)) in harness.finish(P0, 5)
    assert harness.scheduler.next_due_ms() == harness.now_ms + 5_000


def test_without_an_interval_only_the_shell_commits() -> None:
    harness = SchedulerHarness(WorkConfig(auto_commit_interval_ms=None))
    harness.assigned(P0)
    harness.received(records(P0, 5))
    harness.finish(P0, 5)
    assert harness.scheduler.next_due_ms() is None
    assert harness.scheduler.commit() == [CommitFinished((at(P0, 6),))]
    assert harness.scheduler.commit() == []


def test_a_commit_that_failed_is_made_again() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 5))
    harness.finish(P0, 5)
    harness.scheduler.commit()
    harness.scheduler.on_commit_failed([P0, P1])
    assert harness.scheduler.commit() == [CommitFinished((at(P0, 6),))]


# --- back-pressure ---------------------------------------------------------------------------------------------------


def test_a_partition_is_paused_at_its_high_water_mark_and_resumed_at_its_low_one() -> None:
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


def test_all_partitions_are_paused_at_the_total_and_resumed_together() -> None:
    harness = SchedulerHarness(
        WorkConfig(total_high_water_records=4, total_low_water_records=2, high_water_records=4, low_water_records=3)
    )
    harness.assigned(P0, P1)
    assert PausePartitions((P0, P1)) in harness.received(records(P0, 0, 1) + records(P1, 0, 1))
    harness.finish(P0, 0)
    assert harness.paused == {P0, P1}
    assert ResumePartitions((P0, P1)) in harness.finish(P1, 0)


def test_large_records_are_bounded_by_their_bytes() -> None:
    harness = SchedulerHarness(WorkConfig(total_high_water_bytes=1_000, total_low_water_bytes=100))
    harness.assigned(P0)
    harness.received([Record("t", 0, 0, None, 2_000)])
    assert harness.paused == {P0}
    assert harness.scheduler.in_flight_bytes == 2_000
    harness.finish(P0, 0)
    assert harness.paused == set()


def test_a_partition_assigned_while_everything_is_paused_comes_up_paused_and_is_resumed_with_the_others() -> None:
    # "Pause all that is assigned, work, resume all that is assigned" has a hole: what a rebalance brings in between
    # was never paused, and floods in.
    harness = SchedulerHarness(WorkConfig(total_high_water_records=2, total_low_water_records=1))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    assert harness.assigned(P1) == [PausePartitions((P1,))]
    assert harness.finish(P0, 0) == [ResumePartitions((P0, P1)), StartTask(2, Record("t", 0, 1), 1)]


def test_a_partition_full_by_itself_stays_paused_when_the_total_falls() -> None:
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


def test_a_slow_record_bounds_how_much_is_finished_after_it() -> None:
    harness = SchedulerHarness(
        WorkConfig(
            workers=2, order=ProcessingOrder.NONE, high_water_records=3, low_water_records=2, replay_bound_records=4
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


def test_the_total_is_watched_when_a_partition_goes() -> None:
    harness = SchedulerHarness(WorkConfig(total_high_water_records=2, total_low_water_records=1))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0, 1) + records(P1, 0))
    assert harness.paused == {P0, P1}
    assert ResumePartitions((P1,)) in harness.lost(P0)


# --- retries and dead letters ----------------------------------------------------------------------------------------


def test_a_retry_waits_out_its_backoff_in_its_own_lane_while_the_others_go_on() -> None:
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


def test_attempts_are_counted_over_any_number_of_polls() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=None))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    for attempt in range(1, 8):
        assert harness.running[P0, 0].attempt == attempt
        harness.fail(P0, 0)
        harness.received(records(P0, attempt))
        harness.pass_ms(2_000)
    assert harness.running[P0, 0].attempt == 8


def test_attempts_end_with_the_assignment() -> None:
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


def test_a_retry_that_comes_due_after_its_partition_was_lost_is_nothing() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0, P1)
    harness.received(records(P0, 0))
    harness.fail(P0, 0)
    harness.lost(P0)
    assert harness.scheduler.tick(harness.now_ms + 100) == []


def test_a_record_whose_attempts_are_used_up_becomes_a_dead_letter_and_counts_when_that_is_written() -> None:
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


def test_an_error_that_is_not_retriable_uses_up_all_attempts() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=None))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.fail(P0, 0, retriable=False)
    assert harness.letters[P0, 0].attempts == 1


def test_a_dead_letter_that_could_not_be_written_is_written_again_after_a_backoff() -> None:
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


def test_by_policy_an_exhausted_record_stops_everything_instead() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1, when_exhausted=ExhaustedAction.FAIL))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0) + records(P1, 0))
    assert harness.fail(P0, 0) == [StopProcessing(Record("t", 0, 0), BROKEN, 1)]
    assert harness.running == {}
    assert harness.revoke(P0, P1) == [PartitionsDrained((P0, P1), ())]


@pytest.mark.parametrize("order", ProcessingOrder)
def test_an_answer_given_twice_or_to_the_wrong_question_is_ignored(order: ProcessingOrder) -> None:
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


def test_a_drain_waits_for_the_running_records_but_not_for_the_queued_ones() -> None:
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


def test_a_drain_of_idle_partitions_is_over_at_once() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0, P1)
    harness.received(records(P0, 4))
    harness.finish(P0, 4)
    assert harness.revoke(P0, P1, P2) == [PartitionsDrained((P0, P1), (at(P0, 5),))]
    assert harness.revoke(P0) == [PartitionsDrained((), ())]
    assert harness.scheduler.next_due_ms() is None


def test_a_queued_record_before_a_running_one_bounds_the_final_offset() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.KEY))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, key=b"a") + records(P0, 2, key=b"b"))
    harness.revoke(P0)
    harness.finish(P0, 2, 0)
    assert harness.drained == [PartitionsDrained((P0,), (at(P0, 1),))]


def test_at_the_deadline_a_drain_abandons_the_rest() -> None:
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


def test_a_revoke_that_abandons_reports_what_was_finished_at_once() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    harness.finish(P0, 0)
    assert harness.revoke(P0, mode=RevokeMode.ABANDON) == [AbandonTasks((2,)), PartitionsDrained((P0,), (at(P0, 1),))]


def test_records_of_a_draining_partition_are_left_to_its_next_owner() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.revoke(P0)
    harness.received(records(P0, 1), next_offsets={P0: 2})
    harness.finish(P0, 0)
    assert harness.drained == [PartitionsDrained((P0,), (at(P0, 1),))]
    assert harness.received(records(P0, 1)) == []


def test_a_failure_while_draining_is_left_to_the_next_owner() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1))
    harness.revoke(P0)
    harness.finish(P0, 1)
    assert harness.fail(P0, 0) == [PartitionsDrained((P0,), ())]


def test_a_last_failure_while_draining_still_becomes_a_dead_letter() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.revoke(P0)
    harness.fail(P0, 0)
    assert harness.drained == []
    harness.write(P0, 0)
    assert harness.drained == [PartitionsDrained((P0,), (at(P0, 1),))]


def test_a_dead_letter_that_cannot_be_written_while_draining_is_left_to_the_next_owner() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.fail(P0, 0)
    harness.revoke(P0)
    assert harness.fail_to_write(P0, 0) == [PartitionsDrained((P0,), ())]


def test_a_waiting_retry_and_a_waiting_dead_letter_are_not_waited_for() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1, order=ProcessingOrder.NONE, workers=2))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0) + records(P1, 0))
    harness.fail(P0, 0)
    harness.fail_to_write(P0, 0)
    assert harness.revoke(P0) == [PartitionsDrained((P0,), ())]
    assert harness.pass_ms(1_000) == []


def test_a_failure_that_stops_everything_ends_a_drain() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1, when_exhausted=ExhaustedAction.FAIL))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.revoke(P0)
    assert harness.fail(P0, 0) == [StopProcessing(Record("t", 0, 0), BROKEN, 1), PartitionsDrained((P0,), ())]


def test_a_lost_partition_is_dropped_at_once_without_a_commit() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    harness.assigned(P0)
    harness.received(records(P0, 0, 1, 2))
    harness.finish(P0, 0)
    assert harness.lost(P0) == [AbandonTasks((2, 3))]
    assert harness.scheduler.committable() == ()
    assert harness.scheduler.in_flight == 0
    assert harness.scheduler.next_due_ms() is None
    assert harness.scheduler.commit() == []


def test_a_result_of_an_earlier_assignment_is_ignored_though_the_partition_came_back() -> None:
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
def test_a_lane_stays_shut_until_the_worker_of_the_earlier_assignment_has_ended(order: ProcessingOrder) -> None:
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


def test_a_worker_of_an_earlier_assignment_may_end_while_the_partition_is_away_or_drains() -> None:
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


def test_a_dead_letter_write_of_a_lost_partition_counts_for_nothing() -> None:
    harness = SchedulerHarness(WorkConfig(max_attempts=1))
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.fail(P0, 0)
    assert harness.lost(P0) == []
    assert harness.write(P0, 0) == []


def test_an_owned_partition_assigned_again_keeps_its_work() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0))
    assert harness.assigned(P0) == []
    assert harness.scheduler.in_flight == 1


def test_a_draining_partition_given_back_starts_anew() -> None:
    harness = SchedulerHarness(WorkConfig())
    harness.assigned(P0)
    harness.received(records(P0, 0))
    harness.revoke(P0)
    assert harness.assigned(P0) == [AbandonTasks((1,)), PartitionsDrained((), ())]
    assert harness.scheduler.partitions == {P0}
    assert harness.scheduler.paused == frozenset()


def test_a_partition_lost_while_it_drains_is_not_reported_with_the_others() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0) + records(P1, 0))
    harness.revoke(P0, P1)
    harness.lost(P0)
    assert harness.drained == []
    harness.finish(P1, 0)
    assert harness.drained == [PartitionsDrained((P1,), (at(P1, 1),))]


def test_the_later_of_two_revokes_decides() -> None:
    harness = SchedulerHarness(WorkConfig(workers=2))
    harness.assigned(P0, P1)
    harness.received(records(P0, 0) + records(P1, 0))
    harness.revoke(P0, P1, within_ms=1_000)
    assert harness.revoke(P0, mode=RevokeMode.ABANDON) == [AbandonTasks((1,)), PartitionsDrained((P0,), ())]
    assert harness.pass_ms(1_000) == [AbandonTasks((2,)), PartitionsDrained((P1,), ())]


def test_what_a_drain_hands_back_relieves_the_others() -> None:
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
