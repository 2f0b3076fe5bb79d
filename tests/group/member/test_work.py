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

from .workshop import BROKEN, P0, P1, P2, Record, Workshop, at, records

# --- order -----------------------------------------------------------------------------------------------------------


def test_a_partition_is_worked_through_one_record_after_the_other() -> None:
    shop = Workshop(WorkConfig(workers=4))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1, 2))
    assert shop.under_way(P0) == [0]
    shop.finish(P0, 0)
    assert shop.under_way(P0) == [1]
    shop.finish(P0, 1, 2)
    assert shop.started == [0, 1, 2]
    assert shop.scheduler.in_flight == 0


def test_a_key_is_worked_through_one_record_after_the_other_and_holds_up_no_other_key() -> None:
    shop = Workshop(WorkConfig(workers=4, order=ProcessingOrder.KEY))
    shop.assigned(P0)
    shop.received([Record("t", 0, 0, b"a"), Record("t", 0, 1, b"a"), Record("t", 0, 2, b"b"), Record("t", 0, 3, b"a")])
    assert shop.under_way(P0) == [0, 2]
    shop.finish(P0, 0)
    assert shop.under_way(P0) == [1, 2]
    shop.finish(P0, 1, 2, 3)
    assert shop.started == [0, 2, 1, 3]


def test_one_key_in_two_partitions_makes_two_lanes() -> None:
    shop = Workshop(WorkConfig(workers=4, order=ProcessingOrder.KEY))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0, key=b"a") + records(P1, 0, key=b"a"))
    assert shop.under_way(P0) == shop.under_way(P1) == [0]


def test_records_without_a_key_keep_no_order_under_key_order() -> None:
    shop = Workshop(WorkConfig(workers=4, order=ProcessingOrder.KEY))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1, 2))
    assert shop.under_way(P0) == [0, 1, 2]


def test_without_order_every_free_worker_gets_a_record() -> None:
    shop = Workshop(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1, 2, key=b"a"))
    assert shop.under_way(P0) == [0, 1]
    assert shop.scheduler.running == 2
    shop.finish(P0, 1)
    assert shop.under_way(P0) == [0, 2]


def test_free_workers_are_dealt_to_the_partitions_in_turn() -> None:
    shop = Workshop(WorkConfig(workers=1, order=ProcessingOrder.NONE))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0, 1, 2) + records(P1, 10, 11, 12))
    for _ in range(6):
        (partition, offset) = next(iter(shop.running))
        shop.finish(partition, offset)
    assert shop.started == [0, 10, 1, 11, 2, 12]


# --- what may be committed -------------------------------------------------------------------------------------------


def test_the_committable_offset_stops_before_the_first_unfinished_record() -> None:
    shop = Workshop(WorkConfig(workers=3, order=ProcessingOrder.NONE))
    shop.assigned(P0)
    shop.received(records(P0, 5, 6, 7))
    shop.finish(P0, 7, 6)
    assert shop.scheduler.committable() == ()
    shop.finish(P0, 5)
    assert shop.scheduler.committable() == (at(P0, 8),)


def test_offsets_with_gaps_are_jumped_over() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 5, 90, 91))
    shop.finish(P0, 5)
    assert shop.scheduler.committable() == (at(P0, 90),)


def test_the_position_after_a_poll_reaches_beyond_a_trailing_transaction_marker() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0, P1)
    shop.received(records(P0, 5), next_offsets={P0: 7, P1: 3, P2: 9})
    shop.finish(P0, 5)
    assert shop.scheduler.committable() == (at(P0, 7), at(P1, 3))


def test_a_position_that_lags_behind_changes_nothing() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 5), next_offsets={P0: 2})
    shop.finish(P0, 5)
    assert shop.scheduler.committable() == (at(P0, 6),)


def test_a_record_received_twice_is_handed_out_once() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 5, 6))
    shop.finish(P0, 5)
    shop.received(records(P0, 5, 6, 7))
    shop.finish(P0, 6, 7)
    assert shop.started == [5, 6, 7]


def test_finished_offsets_are_committed_at_every_interval_if_there_are_new_ones() -> None:
    shop = Workshop(WorkConfig(auto_commit_interval_ms=5_000))
    assert shop.scheduler.next_due_ms() is None
    shop.assigned(P0, P1)
    assert shop.scheduler.next_due_ms() == shop.now_ms + 5_000
    shop.received(records(P0, 5, 6) + records(P1, 0))
    shop.finish(P0, 5)
    assert shop.pass_ms(4_999) == []
    assert shop.pass_ms(1) == [CommitFinished((at(P0, 6),))]
    assert shop.pass_ms(5_000) == []


def test_what_is_due_is_done_with_any_input() -> None:
    shop = Workshop(WorkConfig(auto_commit_interval_ms=5_000))
    shop.assigned(P0)
    shop.received(records(P0, 5, 6))
    shop.now_ms += 6_000
    assert CommitFinished((at(P0, 6),)) in shop.finish(P0, 5)
    assert shop.scheduler.next_due_ms() == shop.now_ms + 5_000


def test_without_an_interval_only_the_shell_commits() -> None:
    shop = Workshop(WorkConfig(auto_commit_interval_ms=None))
    shop.assigned(P0)
    shop.received(records(P0, 5))
    shop.finish(P0, 5)
    assert shop.scheduler.next_due_ms() is None
    assert shop.scheduler.commit() == [CommitFinished((at(P0, 6),))]
    assert shop.scheduler.commit() == []


def test_a_commit_that_failed_is_made_again() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 5))
    shop.finish(P0, 5)
    shop.scheduler.commit()
    shop.scheduler.on_commit_failed([P0, P1])
    assert shop.scheduler.commit() == [CommitFinished((at(P0, 6),))]


# --- back-pressure ---------------------------------------------------------------------------------------------------


def test_a_partition_is_paused_at_its_high_water_mark_and_resumed_at_its_low_one() -> None:
    shop = Workshop(WorkConfig(workers=2, high_water_records=3, low_water_records=1))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0, 1) + records(P1, 0))
    assert shop.paused == set()
    shop.received(records(P0, 2))
    assert shop.paused == {P0} == shop.scheduler.paused
    shop.finish(P0, 0)
    assert shop.paused == {P0}
    assert shop.finish(P0, 1)[0] == ResumePartitions((P0,))
    assert shop.paused == set()


def test_all_partitions_are_paused_at_the_total_and_resumed_together() -> None:
    shop = Workshop(
        WorkConfig(total_high_water_records=4, total_low_water_records=2, high_water_records=4, low_water_records=3)
    )
    shop.assigned(P0, P1)
    assert PausePartitions((P0, P1)) in shop.received(records(P0, 0, 1) + records(P1, 0, 1))
    shop.finish(P0, 0)
    assert shop.paused == {P0, P1}
    assert ResumePartitions((P0, P1)) in shop.finish(P1, 0)


def test_large_records_are_bounded_by_their_bytes() -> None:
    shop = Workshop(WorkConfig(total_high_water_bytes=1_000, total_low_water_bytes=100))
    shop.assigned(P0)
    shop.received([Record("t", 0, 0, None, 2_000)])
    assert shop.paused == {P0}
    assert shop.scheduler.in_flight_bytes == 2_000
    shop.finish(P0, 0)
    assert shop.paused == set()


def test_a_partition_assigned_while_everything_is_paused_comes_up_paused_and_is_resumed_with_the_others() -> None:
    # "Pause all that is assigned, work, resume all that is assigned" has a hole: what a rebalance brings in between
    # was never paused, and floods in.
    shop = Workshop(WorkConfig(total_high_water_records=2, total_low_water_records=1))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1))
    assert shop.assigned(P1) == [PausePartitions((P1,))]
    assert shop.finish(P0, 0) == [ResumePartitions((P0, P1)), StartTask(2, Record("t", 0, 1), 1)]


def test_a_partition_full_by_itself_stays_paused_when_the_total_falls() -> None:
    shop = Workshop(
        WorkConfig(
            workers=2, high_water_records=3, low_water_records=0, total_high_water_records=4, total_low_water_records=3
        )
    )
    shop.assigned(P0, P1)
    shop.received(records(P0, 0, 1, 2) + records(P1, 0))
    assert shop.paused == {P0, P1}
    shop.finish(P1, 0)
    assert shop.paused == {P0}


def test_a_slow_record_bounds_how_much_is_finished_after_it() -> None:
    shop = Workshop(
        WorkConfig(
            workers=2, order=ProcessingOrder.NONE, high_water_records=3, low_water_records=2, replay_bound_records=4
        )
    )
    shop.assigned(P0)
    shop.received(records(P0, 0, 1))
    shop.finish(P0, 1)
    shop.received(records(P0, 2))
    shop.finish(P0, 2)
    assert shop.paused == set()
    shop.received(records(P0, 3))  # one unfinished record, but a crash would process four again
    assert shop.paused == {P0}
    shop.finish(P0, 3)
    assert shop.paused == {P0}
    shop.finish(P0, 0)
    assert shop.paused == set()


def test_the_total_is_watched_when_a_partition_goes() -> None:
    shop = Workshop(WorkConfig(total_high_water_records=2, total_low_water_records=1))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0, 1) + records(P1, 0))
    assert shop.paused == {P0, P1}
    assert ResumePartitions((P1,)) in shop.lost(P0)


# --- retries and dead letters ----------------------------------------------------------------------------------------


def test_a_retry_waits_out_its_backoff_in_its_own_lane_while_the_others_go_on() -> None:
    shop = Workshop(
        WorkConfig(workers=1, order=ProcessingOrder.KEY, retry_backoff_ms=100, auto_commit_interval_ms=None)
    )
    shop.assigned(P0)
    shop.received(records(P0, 0, 1, key=b"a") + records(P0, 2, 3, key=b"b"))
    shop.fail(P0, 0)
    assert shop.under_way(P0) == [2]
    assert shop.scheduler.next_due_ms() == shop.now_ms + 100
    shop.finish(P0, 2, 3)
    assert shop.under_way(P0) == []
    shop.pass_ms(99)
    assert shop.under_way(P0) == []
    shop.pass_ms(1)
    assert shop.running[P0, 0].attempt == 2
    shop.finish(P0, 0, 1)
    assert shop.started == [0, 2, 3, 0, 1]


def test_attempts_are_counted_over_any_number_of_polls() -> None:
    shop = Workshop(WorkConfig(max_attempts=None))
    shop.assigned(P0)
    shop.received(records(P0, 0))
    for attempt in range(1, 8):
        assert shop.running[P0, 0].attempt == attempt
        shop.fail(P0, 0)
        shop.received(records(P0, attempt))
        shop.pass_ms(2_000)
    assert shop.running[P0, 0].attempt == 8


def test_attempts_end_with_the_assignment() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.fail(P0, 0)
    shop.lost(P0)
    shop.assigned(P0)
    shop.received(records(P0, 0))
    assert shop.running[P0, 0].attempt == 1
    shop.pass_ms(10_000)  # the old retry comes due and finds nothing
    assert shop.started == [0, 0]


def test_a_retry_that_comes_due_after_its_partition_was_lost_is_nothing() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0, P1)
    shop.received(records(P0, 0))
    shop.fail(P0, 0)
    shop.lost(P0)
    assert shop.scheduler.tick(shop.now_ms + 100) == []


def test_a_record_whose_attempts_are_used_up_becomes_a_dead_letter_and_counts_when_that_is_written() -> None:
    shop = Workshop(WorkConfig(workers=2, max_attempts=2, auto_commit_interval_ms=None))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1))
    shop.fail(P0, 0)
    shop.pass_ms(100)
    assert shop.fail(P0, 0) == [WriteDeadLetter(4, Record("t", 0, 0), BROKEN, 2)]
    assert shop.under_way(P0) == []
    assert shop.scheduler.committable() == ()
    assert shop.scheduler.running == 0
    shop.write(P0, 0)
    assert shop.scheduler.committable() == (at(P0, 1),)
    assert shop.under_way(P0) == [1]


def test_an_error_that_is_not_retriable_uses_up_all_attempts() -> None:
    shop = Workshop(WorkConfig(max_attempts=None))
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.fail(P0, 0, retriable=False)
    assert shop.letters[P0, 0].attempts == 1


def test_a_dead_letter_that_could_not_be_written_is_written_again_after_a_backoff() -> None:
    shop = Workshop(WorkConfig(max_attempts=1, auto_commit_interval_ms=None))
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.fail(P0, 0)
    shop.fail_to_write(P0, 0)
    assert shop.letters == {}
    shop.pass_ms(100)
    shop.fail_to_write(P0, 0)
    assert shop.scheduler.next_due_ms() == shop.now_ms + 200
    shop.pass_ms(200)
    assert shop.letters[P0, 0].attempts == 1
    shop.write(P0, 0)
    assert shop.scheduler.in_flight == 0


def test_by_policy_an_exhausted_record_stops_everything_instead() -> None:
    shop = Workshop(WorkConfig(max_attempts=1, when_exhausted=ExhaustedAction.FAIL))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0) + records(P1, 0))
    assert shop.fail(P0, 0) == [StopProcessing(Record("t", 0, 0), BROKEN, 1)]
    assert shop.running == {}
    assert shop.revoke(P0, P1) == [PartitionsDrained((P0, P1), ())]


@pytest.mark.parametrize("order", ProcessingOrder)
def test_an_answer_given_twice_or_to_the_wrong_question_is_ignored(order: ProcessingOrder) -> None:
    shop = Workshop(WorkConfig(order=order, max_attempts=2))
    shop.assigned(P0)
    shop.received(records(P0, 0, key=b"a"))
    scheduler, now_ms = shop.scheduler, shop.now_ms
    task_id = shop.running[P0, 0].task_id
    assert scheduler.on_dead_letter_written(task_id, now_ms) == []
    assert scheduler.on_dead_letter_failed(task_id, now_ms) == []
    shop.fail(P0, 0)
    assert scheduler.on_failed(task_id, BROKEN, now_ms) == []
    shop.pass_ms(100)
    shop.fail(P0, 0)
    letter_id = shop.letters[P0, 0].task_id
    assert scheduler.on_finished(letter_id, now_ms) == []
    assert scheduler.on_failed(letter_id, BROKEN, now_ms) == []
    shop.write(P0, 0)
    assert scheduler.on_dead_letter_written(letter_id, now_ms) == []
    assert scheduler.on_dead_letter_failed(letter_id, now_ms) == []
    assert scheduler.on_finished(letter_id, now_ms) == []
    assert (scheduler.in_flight, scheduler.running) == (0, 0)


# --- partitions that go ----------------------------------------------------------------------------------------------


def test_a_drain_waits_for_the_running_records_but_not_for_the_queued_ones() -> None:
    shop = Workshop(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0, 1, 2, 3))
    assert shop.revoke(P0) == [PausePartitions((P0,))]
    assert shop.scheduler.in_flight == 2
    shop.finish(P0, 1)
    assert shop.drained == []
    shop.finish(P0, 0)
    assert shop.drained == [PartitionsDrained((P0,), (at(P0, 2),))]
    assert shop.started == [0, 1]
    assert shop.scheduler.partitions == {P1}


def test_a_drain_of_idle_partitions_is_over_at_once() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0, P1)
    shop.received(records(P0, 4))
    shop.finish(P0, 4)
    assert shop.revoke(P0, P1, P2) == [PartitionsDrained((P0, P1), (at(P0, 5),))]
    assert shop.revoke(P0) == [PartitionsDrained((), ())]
    assert shop.scheduler.next_due_ms() is None


def test_a_queued_record_before_a_running_one_bounds_the_final_offset() -> None:
    shop = Workshop(WorkConfig(workers=2, order=ProcessingOrder.KEY))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1, key=b"a") + records(P0, 2, key=b"b"))
    shop.revoke(P0)
    shop.finish(P0, 2, 0)
    assert shop.drained == [PartitionsDrained((P0,), (at(P0, 1),))]


def test_at_the_deadline_a_drain_abandons_the_rest() -> None:
    shop = Workshop(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1))
    shop.revoke(P0, within_ms=500)
    shop.finish(P0, 0)
    assert shop.scheduler.next_due_ms() == shop.now_ms + 500
    assert shop.pass_ms(500) == [AbandonTasks((2,)), PartitionsDrained((P0,), (at(P0, 1),))]
    assert shop.scheduler.running == 1
    assert shop.finish(P0, 1) == []
    assert shop.scheduler.running == 0


def test_a_revoke_that_abandons_reports_what_was_finished_at_once() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 0, 1))
    shop.finish(P0, 0)
    assert shop.revoke(P0, mode=RevokeMode.ABANDON) == [AbandonTasks((2,)), PartitionsDrained((P0,), (at(P0, 1),))]


def test_records_of_a_draining_partition_are_left_to_its_next_owner() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.revoke(P0)
    shop.received(records(P0, 1), next_offsets={P0: 2})
    shop.finish(P0, 0)
    assert shop.drained == [PartitionsDrained((P0,), (at(P0, 1),))]
    assert shop.received(records(P0, 1)) == []


def test_a_failure_while_draining_is_left_to_the_next_owner() -> None:
    shop = Workshop(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1))
    shop.revoke(P0)
    shop.finish(P0, 1)
    assert shop.fail(P0, 0) == [PartitionsDrained((P0,), ())]


def test_a_last_failure_while_draining_still_becomes_a_dead_letter() -> None:
    shop = Workshop(WorkConfig(max_attempts=1))
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.revoke(P0)
    shop.fail(P0, 0)
    assert shop.drained == []
    shop.write(P0, 0)
    assert shop.drained == [PartitionsDrained((P0,), (at(P0, 1),))]


def test_a_dead_letter_that_cannot_be_written_while_draining_is_left_to_the_next_owner() -> None:
    shop = Workshop(WorkConfig(max_attempts=1))
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.fail(P0, 0)
    shop.revoke(P0)
    assert shop.fail_to_write(P0, 0) == [PartitionsDrained((P0,), ())]


def test_a_waiting_retry_and_a_waiting_dead_letter_are_not_waited_for() -> None:
    shop = Workshop(WorkConfig(max_attempts=1, order=ProcessingOrder.NONE, workers=2))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0) + records(P1, 0))
    shop.fail(P0, 0)
    shop.fail_to_write(P0, 0)
    assert shop.revoke(P0) == [PartitionsDrained((P0,), ())]
    assert shop.pass_ms(1_000) == []


def test_a_failure_that_stops_everything_ends_a_drain() -> None:
    shop = Workshop(WorkConfig(max_attempts=1, when_exhausted=ExhaustedAction.FAIL))
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.revoke(P0)
    assert shop.fail(P0, 0) == [StopProcessing(Record("t", 0, 0), BROKEN, 1), PartitionsDrained((P0,), ())]


def test_a_lost_partition_is_dropped_at_once_without_a_commit() -> None:
    shop = Workshop(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    shop.assigned(P0)
    shop.received(records(P0, 0, 1, 2))
    shop.finish(P0, 0)
    assert shop.lost(P0) == [AbandonTasks((2, 3))]
    assert shop.scheduler.committable() == ()
    assert shop.scheduler.in_flight == 0
    assert shop.scheduler.next_due_ms() is None
    assert shop.scheduler.commit() == []


def test_a_result_of_an_earlier_assignment_is_ignored_though_the_partition_came_back() -> None:
    shop = Workshop(WorkConfig(workers=2, order=ProcessingOrder.NONE))
    shop.assigned(P0)
    shop.received(records(P0, 0))
    old = shop.running[P0, 0]
    shop.lost(P0)
    shop.assigned(P0)
    shop.received(records(P0, 0))
    assert shop.running[P0, 0].task_id != old.task_id
    shop.carry_out(shop.scheduler.on_finished(old.task_id, shop.now_ms))
    assert shop.scheduler.committable() == ()
    assert shop.scheduler.in_flight == 1
    shop.finish(P0, 0)
    assert shop.scheduler.committable() == (at(P0, 1),)


@pytest.mark.parametrize("order", [ProcessingOrder.PARTITION, ProcessingOrder.KEY])
def test_a_lane_stays_shut_until_the_worker_of_the_earlier_assignment_has_ended(order: ProcessingOrder) -> None:
    shop = Workshop(WorkConfig(workers=2, order=order, max_attempts=1))
    shop.assigned(P0)
    shop.received(records(P0, 0, key=b"a"))
    old = shop.running.pop((P0, 0))
    shop.lost(P0)
    shop.assigned(P0)
    shop.received(records(P0, 0, key=b"a"))
    assert shop.running == {}
    shop.carry_out(shop.scheduler.on_failed(old.task_id, BROKEN, shop.now_ms))
    assert shop.letters == {}
    assert shop.running[P0, 0].attempt == 1


def test_a_worker_of_an_earlier_assignment_may_end_while_the_partition_is_away_or_drains() -> None:
    shop = Workshop(WorkConfig(workers=2, max_attempts=1))
    for away in (True, False):
        shop.assigned(P0)
        shop.received(records(P0, 0))
        old = shop.running.pop((P0, 0))
        shop.lost(P0)
        if not away:
            shop.assigned(P0, P1)
            shop.received(records(P0, 0))
            shop.revoke(P0)
        shop.carry_out(shop.scheduler.on_finished(old.task_id, shop.now_ms))
        assert shop.running == {}
        assert shop.scheduler.running == 0


def test_a_dead_letter_write_of_a_lost_partition_counts_for_nothing() -> None:
    shop = Workshop(WorkConfig(max_attempts=1))
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.fail(P0, 0)
    assert shop.lost(P0) == []
    assert shop.write(P0, 0) == []


def test_an_owned_partition_assigned_again_keeps_its_work() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 0))
    assert shop.assigned(P0) == []
    assert shop.scheduler.in_flight == 1


def test_a_draining_partition_given_back_starts_anew() -> None:
    shop = Workshop(WorkConfig())
    shop.assigned(P0)
    shop.received(records(P0, 0))
    shop.revoke(P0)
    assert shop.assigned(P0) == [AbandonTasks((1,)), PartitionsDrained((), ())]
    assert shop.scheduler.partitions == {P0}
    assert shop.scheduler.paused == frozenset()


def test_a_partition_lost_while_it_drains_is_not_reported_with_the_others() -> None:
    shop = Workshop(WorkConfig(workers=2))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0) + records(P1, 0))
    shop.revoke(P0, P1)
    shop.lost(P0)
    assert shop.drained == []
    shop.finish(P1, 0)
    assert shop.drained == [PartitionsDrained((P1,), (at(P1, 1),))]


def test_the_later_of_two_revokes_decides() -> None:
    shop = Workshop(WorkConfig(workers=2))
    shop.assigned(P0, P1)
    shop.received(records(P0, 0) + records(P1, 0))
    shop.revoke(P0, P1, within_ms=1_000)
    assert shop.revoke(P0, mode=RevokeMode.ABANDON) == [AbandonTasks((1,)), PartitionsDrained((P0,), ())]
    assert shop.pass_ms(1_000) == [AbandonTasks((2,)), PartitionsDrained((P1,), ())]


def test_what_a_drain_hands_back_relieves_the_others() -> None:
    shop = Workshop(
        WorkConfig(
            workers=3, order=ProcessingOrder.NONE, total_high_water_records=3, total_low_water_records=1, max_attempts=2
        )
    )
    shop.assigned(P0, P1)
    shop.received(records(P0, 0, 1) + records(P1, 0))
    assert shop.paused == {P0, P1}
    shop.revoke(P0)
    shop.fail(P0, 0)
    assert shop.paused == {P0, P1}
    assert shop.fail(P0, 1) == [ResumePartitions((P1,)), PartitionsDrained((P0,), ())]
